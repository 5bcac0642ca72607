package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A checkpoint that cannot be run is refused in a line that names the file or
// the tensor and says what to do, with exit code 1.
func TestRefusedCheckpoints(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 15231233024\n"
	config := func(field string, value any) func(*testing.T, string) {
		return func(t *testing.T, dir string) { setField(t, dir, field, value) }
	}
	tensors := func(edit func(header)) func(*testing.T, string) {
		return func(t *testing.T, dir string) { editHeader(t, dir, edit) }
	}
	file := func(name, content string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { write(t, filepath.Join(dir, name), content) }
	}
	cases := []struct {
		name, from string
		change     func(t *testing.T, dir string)
		want       string
	}{
		{"truncated shard", "qwen2_fp16_sharded", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "model-00003-of-00005.safetensors")
			data := read(t, path)
			write(t, path, data[:len(data)-100])
		}, "weights: DIR/model-00003-of-00005.safetensors is truncated: 100 bytes missing (have 143164, header promises 143264): download it again"},
		{"ghost shard", "qwen2_fp16_sharded", func(t *testing.T, dir string) { remove(t, dir, "model-00002-of-00005.safetensors") }, "weights: DIR has 4 of 5 shards, missing: model-00002-of-00005.safetensors: finish the download"},
		{"ghost shard, download cut", "qwen2_fp16_sharded", func(t *testing.T, dir string) {
			remove(t, dir, "model-00002-of-00005.safetensors")
			write(t, dir+"/.cache/huggingface/download/x.incomplete", "")
		}, "weights: DIR has 4 of 5 shards, missing: model-00002-of-00005.safetensors; a download was not finished (x.incomplete): finish the download"},
		{"overlap", "qwen2_untied_mha", tensors(func(h header) {
			a := h["model.norm.weight"]
			a.Offsets = [2]int{0, a.Offsets[1] - a.Offsets[0]}
			h["model.norm.weight"] = a
		}), `weights: DIR/model.safetensors has a damaged header: tensors "model.norm.weight" and "lm_head.weight" overlap in bytes 0 to 256: download it again`},
		{"two of one name", "qwen2_untied_mha", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "model.safetensors")
			write(t, path, strings.Replace(read(t, path), `"model.layers.1.input_layernorm.weight"`, `"model.layers.0.input_layernorm.weight"`, 1))
		}, `weights: DIR/model.safetensors has a damaged header: the key "model.layers.0.input_layernorm.weight" comes twice (near byte 1463 of the JSON): download it again`},
		{"git-lfs pointer", "qwen2_untied_mha", file("model.safetensors", pointer), "weights: DIR/model.safetensors is a git-lfs pointer, not the file itself: run `git lfs pull`"},
		{"element type", "qwen2_untied_mha", tensors(func(h header) {
			a := h["model.norm.weight"]
			a.DType = "I32"
			h["model.norm.weight"] = a
		}), "qwen2: weights: DIR/model.safetensors holds tensor model.norm.weight [64] as I32, wanted F32, F16 or BF16: use a checkpoint that is not quantised"},
		{"shape", "qwen2_untied_mha", tensors(func(h header) {
			a := h["model.layers.0.mlp.down_proj.weight"]
			a.Shape[0], a.Shape[1] = a.Shape[1], a.Shape[0]
			h["model.layers.0.mlp.down_proj.weight"] = a
		}), "qwen2: weights: DIR/model.safetensors holds tensor model.layers.0.mlp.down_proj.weight with shape [128 64], wanted [64 128]: take config.json and weights from one download"},
		{"bias missing", "qwen2_untied_mha", tensors(func(h header) {
			h["renamed"] = h["model.layers.1.self_attn.k_proj.bias"]
			delete(h, "model.layers.1.self_attn.k_proj.bias")
		}), "qwen2: weights: DIR/model.safetensors has no tensor model.layers.1.self_attn.k_proj.bias, wanted with shape [64]: take config.json and weights from one download"},
		{"tensor left over", "qwen2_untied_mha", config("num_hidden_layers", 1), "qwen2: weights: DIR/model.safetensors has 12 tensors that the model does not use: model.layers.1.input_layernorm.weight, model.layers.1.mlp.down_proj.weight, model.layers.1.mlp.gate_proj.weight, model.layers.1.mlp.up_proj.weight, model.layers.1.post_attention_layernorm.weight and 7 more: take config.json and weights from one download"},
		{"head missing", "qwen2_tied_gqa", config("tie_word_embeddings", false), `qwen2: lm_head.weight is missing and config.json does not say tie_word_embeddings: download the missing shard, or set "tie_word_embeddings": true if the head is the embedding table`},
		{"no weights", "qwen2_untied_mha", func(t *testing.T, dir string) { remove(t, dir, "model.safetensors") }, "weights: DIR has neither model.safetensors nor model.safetensors.index.json: download the model's weights"},
		{"no config", "qwen2_untied_mha", func(t *testing.T, dir string) { remove(t, dir, "config.json") }, "DIR/config.json does not exist: a model folder holds config.json and *.safetensors"},
		{"config cut", "qwen2_untied_mha", file("config.json", "{\n \"hidden_size\": 6"), "DIR/config.json: unexpected end of JSON input (line 2, column 17)"},
		{"no heads", "qwen2_untied_mha", config("num_attention_heads", 0), "qwen2: DIR/config.json: num_attention_heads is 0, want a whole number from 1 to 16777216"},
		{"hidden size not divisible", "qwen2_untied_mha", func(t *testing.T, dir string) {
			setField(t, dir, "num_attention_heads", 3)
			setField(t, dir, "num_key_value_heads", 3)
		}, "qwen2: DIR/config.json: num_attention_heads is 3, which does not divide hidden_size = 64"},
		{"heads not divisible", "qwen2_untied_mha", config("num_key_value_heads", 3), "qwen2: DIR/config.json: num_attention_heads is 4, which num_key_value_heads = 3 does not divide"},
		{"architecture", "qwen2_untied_mha", config("architectures", []string{"LlamaForCausalLM"}), `DIR/config.json: architectures is ["LlamaForCausalLM"]; supported are "Qwen2ForCausalLM" and "DeepseekV2ForCausalLM"`},
		{"no architecture", "qwen2_untied_mha", config("architectures", nil), "DIR/config.json: architectures is missing; it changes the result and has no default"},
		{"rope type", "qwen2_untied_mha", config("rope_scaling", map[string]any{"type": "longrope", "factor": 2}), `qwen2: DIR/config.json: rope_scaling: rope_type is "longrope"; supported are "default" and "yarn"`},
		{"rope type, other spelling", "qwen2_untied_mha", config("rope_parameters", map[string]any{"rope_type": "llama3", "rope_theta": 1e4}), `qwen2: DIR/config.json: rope_parameters: rope_type is "llama3"; supported are "default" and "yarn"`},
		{"no theta", "qwen2_untied_mha", config("rope_theta", nil), "qwen2: DIR/config.json: rope_theta is missing; it changes the result and has no default"},
		{"YaRN without length", "qwen2_untied_mha", config("rope_scaling", map[string]any{"type": "yarn", "factor": 2}), "qwen2: DIR/config.json: rope_scaling: original_max_position_embeddings is missing; it changes the result and has no default"},
		{"no epsilon", "qwen2_untied_mha", config("rms_norm_eps", nil), "qwen2: DIR/config.json: rms_norm_eps is missing; it changes the result and has no default"},
		{"epsilon", "qwen2_untied_mha", config("rms_norm_eps", 5), "qwen2: DIR/config.json: rms_norm_eps is 5, want a number from 1.18e-38 to below 1"},
		{"activation", "qwen2_untied_mha", config("hidden_act", "gelu"), `qwen2: DIR/config.json: hidden_act is "gelu"; only "silu" is supported`},
		{"quantised", "qwen2_untied_mha", config("quantization_config", map[string]any{"quant_method": "gptq", "bits": 4}), `qwen2: DIR/config.json: quantization_config has quant_method "gptq"; quantised weights are not supported: use the model's checkpoint in bfloat16, with --quantize int8 for fewer bytes`},
		{"sliding window", "qwen2_untied_mha", config("use_sliding_window", true), "qwen2: DIR/config.json: use_sliding_window is true; sliding-window attention is not supported"},
		{"rope without end", "qwen2_untied_mha", func(t *testing.T, dir string) {
			setField(t, dir, "rope_theta", "INF")
			path := filepath.Join(dir, "config.json")
			write(t, path, strings.Replace(read(t, path), `"INF"`, "Infinity", 1))
		}, "qwen2: DIR/config.json: rope_theta is NaN or infinite, want a number"},
		{"end token", "qwen2_untied_mha", config("eos_token_id", "x"), `DIR/config.json: eos_token_id is "x", want a number`},
		{"generation config", "qwen2_untied_mha", file("generation_config.json", `{"eos_token_id": 1.5}`), "DIR/generation_config.json: eos_token_id is 1.5, want a whole number from 0 to 2147483647"},
		{"end token of the generation config", "qwen2_untied_mha", file("generation_config.json", `{"eos_token_id": [1, 99999]}`), "DIR/generation_config.json: eos_token_id is 99999; the vocabulary has ids 0 to 319"},
		{"generation config out of range", "qwen2_untied_mha", file("generation_config.json", `{"do_sample": true, "temperature": -1}`), "DIR/generation_config.json: temperature is -1, want a number of at least 0"},
		{"generation config fraction", "qwen2_untied_mha", file("generation_config.json", `{"do_sample": true, "top_k": 0.5}`), "DIR/generation_config.json: top_k is 0.5, want a whole number from 0 to 2147483647"},
		{"tokenizer", "qwen2_untied_mha", file("tokenizer.json", "{}"), "DIR/tokenizer.json: no ByteLevel pre_tokenizer in []: only byte-level BPE is supported"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := checkpoint(t, c.from)
			c.change(t, dir)
			refused(t, generate(t, "", dir, "--prompt-ids", "1"), 1, dir, c.want)
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// What the command line cannot ask for is refused in a line that names the
// flag, with exit code 2, and before a model is loaded where that can be.
func TestRefusedUse(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/empty", "")
	write(t, dir+"/unused", "Hello.")
	write(t, dir+"/user", "{{ messages[-1].content }}")
	write(t, dir+"/two.jsonl", strings.Repeat(`{"input": "x", "outputs": ["y"]}`+"\n", 2))
	write(t, dir+"/bad.jsonl", `{"input": 3}`)
	write(t, dir+"/several.jsonl", `{"input": "x", "outputs": ["y"]}`+"\n"+`{"input": "x", "outputs": ["y", "z"]}`)
	write(t, dir+"/file", "text")
	for _, pipe := range []string{"/pipe", "/pipe.jsonl"} {
		if err := syscall.Mkfifo(dir+pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const ids = "--prompt-ids=1,2,3"
	const emptyElement = ": the list has an empty element: take a comma out, or give the value"
	long := strings.Repeat("1,", 32768) + "1"
	m := tiny + "qwen2_untied_mha"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{}, "no MODEL: name a folder with config.json and *.safetensors, or org/name in the Hugging Face cache"},
		{[]string{m, "hello", ids}, `"hello" is left over: one MODEL is wanted, a text goes with -p; see generate --help`},
		{[]string{m, ids, "-m", m}, "the model is given twice: M and --model M"},
		{[]string{m, ids, "--foo"}, "unknown flag --foo; see generate --help"},
		{[]string{m, ids, "--foo=3"}, "unknown flag --foo; see generate --help"},
		{[]string{m, ids, "-z"}, "unknown flag -z; see generate --help"},
		{[]string{m, ids, "-n", "many"}, `--max-tokens "many": want a whole number`},
		{[]string{m, ids, "-n", "99999999999999999999"}, `--max-tokens "99999999999999999999": it is out of range`},
		{[]string{m, ids, "--seed", "18446744073709551616"}, `--seed "18446744073709551616": it is out of range`},
		{[]string{m, ids, "--temperature", "1e400"}, `--temperature "1e400": it is out of range`},
		{[]string{m, ids, "-n"}, "--max-tokens needs a value: a whole number"},
		{[]string{m, ids, "-n", "0"}, "-n 0: want at least 1"},
		{[]string{m, ids, "-n", "1.5"}, `--max-tokens "1.5": want a whole number`},
		{[]string{m, ids, "--json=perhaps"}, `--json "perhaps": want true or false`},
		{[]string{m, ids, "--temperature", "hot"}, `--temperature "hot": want a number`},
		{[]string{m, ids, "--temperature", "-1"}, "--temperature -1: want 0 (greedy) or 1e-06 to 1e+06"},
		{[]string{m, ids, "--temperature", "NaN"}, "--temperature NaN: want 0 (greedy) or 1e-06 to 1e+06"},
		{[]string{m, ids, "--temperature", "Inf"}, "--temperature +Inf: want 0 (greedy) or 1e-06 to 1e+06"},
		{[]string{m, ids, "--top-p", "0"}, "--top-p 0: want 1e-06 to 1 (off)"},
		{[]string{m, ids, "--top-p", "1.5"}, "--top-p 1.5: want 1e-06 to 1 (off)"},
		{[]string{m, ids, "--top-k", "-1"}, "--top-k -1: want 0 (off) to 16777216"},
		{[]string{m, ids, "--min-p", "2"}, "--min-p 2: want 0 (off) to 1"},
		{[]string{m, ids, "--repetition-penalty", "0"}, "--repetition-penalty 0: want 1e-06 to 1e+06; 1 is off"},
		{[]string{m, ids, "--seed", "-1"}, `--seed "-1": want a whole number of at least 0`},
		{[]string{m, ids, "--greedy", "--temperature", "0.5"}, "--greedy and --temperature 0.5 contradict each other"},
		{[]string{m, ids, "--attention", "flash"}, `--attention "flash": want one of ` + attentionNames},
		{[]string{m, ids, "--parents", "random"}, `--parents "random": want one of contiguous, kmeans, probe, segmented`},
		{[]string{m, ids, "--min-context", "-1"}, "--min-context -1: must not be negative"},
		{[]string{m, ids, "--dense-layers", "3-1"}, `--dense-layers "3-1": want layers from 0 to 255 such as 0,1 or 0-3`},
		{[]string{m, ids, "--dense-layers", "200"}, "--dense-layers 200: the model has layers 0 to …"},
		{[]string{m, ids, "--dense-layers", "0-1"}, "--dense-layers 0-1 are all layers: use dense attention"},
		{[]string{m, ids, "--reps", "fp4"}, `--reps "fp4": want one of cache, fp8`},
		{[]string{m, ids, "--parent-size", "10"}, "--representatives 4 must divide --parent-size 10: give a number that divides it, or another --parent-size"},
		{[]string{m, ids, "--parent-size", "0"}, "--parent-size 0: must be at least 1"},
		{[]string{m, ids, "--parent-size", "288230376151711744", "--budget", "72057594037927936", "--parents", "segmented"}, "--parent-size 288230376151711744: must be at most 1073741824"},
		{[]string{m, ids, "--representatives", "0"}, "--representatives 0: must be at least 1"},
		{[]string{m, ids, "--budget", "510"}, "--budget 510 must be a multiple of 4, the rows of a team: --parent-size 16 over --representatives 4"},
		{[]string{m, ids, "--budget", "0"}, "--budget 0: must be at least 1"},
		{[]string{m, ids, "--threads", "-1"}, "--threads -1: want 0 (all) to 1024"},
		{[]string{m, ids, "-c", "-1"}, "-c -1: want at least 1, or 0 for the model's limit"},
		{[]string{m, ids, "-c", "100000"}, `-c 100000: the model's limit is 32768 tokens: give less, or set "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768} to config.json if the model was made for it`},
		{[]string{m, ids, "-c", "2"}, "the prompt has 3 tokens and up to 1024 are to follow, but the limit is 2 (-c): shorten the prompt"},
		{[]string{m, ids, "-c", "8", "-n", "6"}, "the prompt has 3 tokens and up to 6 are to follow, but the limit is 8 (-c): shorten the prompt or give -n 5"},
		{[]string{m, ids, "-c", "3", "-n", "6"}, "the prompt has 3 tokens and up to 6 are to follow, but the limit is 3 (-c): shorten the prompt or give -n 1"},
		{[]string{m, "--prompt-ids", long}, `the prompt has 32769 tokens and up to 1024 are to follow, but the limit is 32768 (the model's, from config.json): shorten the prompt, or set "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768} to config.json if the model was made for it`},
		{[]string{m, ids, "-n", "32768"}, `the prompt has 3 tokens and up to 32768 are to follow, but the limit is 32768 (the model's, from config.json): shorten the prompt or give -n 32765, or set "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768} to config.json if the model was made for it`},
		{[]string{m, ids, "--logprobs", "3"}, "--logprobs is part of the JSON object: add --json"},
		{[]string{m, ids, "--logprobs", "-3", "--json"}, "--logprobs -3: want 0 or more"},
		{[]string{m, ids, "--stop", ""}, "--stop: a stop text is empty"},
		{[]string{m, ids, "--stop", "a\xff"}, "--stop: a stop text is not UTF-8, as all that is generated is"},
		{[]string{m, ids, "--stop", "x"}, "--stop needs a tokenizer, and M has none"},
		{[]string{m, ids, "-p", "x"}, "--prompt-ids and a text both give a prompt: use one"},
		{[]string{m, ids, "--system-prompt", "x"}, "--prompt-ids are all that the model reads: leave out --system-prompt"},
		{[]string{m, "-p", "x", "-f", "x"}, "--prompt and --file both give a text: use one"},
		{[]string{m, "-p", "x"}, "M has no tokenizer.json: give --prompt-ids"},
		{[]string{m, "--prompt-ids", ""}, "--prompt-ids: there are no ids: give 1,2,3 or @FILE"},
		{[]string{m, "--prompt-ids", "1,x"}, `--prompt-ids: "x", at place 1, is not a token id: want 0 to 2147483647`},
		{[]string{m, "--prompt-ids", "1,,2"}, "--prompt-ids: there is no id at place 1, only a comma: take the comma out, or give the id"},
		{[]string{m, "--prompt-ids", "[1, 2, ]"}, "--prompt-ids: there is no id at place 2, only a comma: take the comma out, or give the id"},
		{[]string{m, "--prompt-ids", ","}, "--prompt-ids: there is no id at place 0, only a comma: take the comma out, or give the id"},
		{[]string{m, "--prompt-ids", "[]"}, "--prompt-ids: there are no ids: give 1,2,3 or @FILE"},
		{[]string{m, "--prompt-ids", "1,-2"}, `--prompt-ids: "-2", at place 1, is not a token id: want 0 to 2147483647`},
		{[]string{m, "--prompt-ids", "1,99999999999"}, `--prompt-ids: "99999999999", at place 1, is not a token id: want 0 to 2147483647`},
		{[]string{m, "--prompt-ids", "1,320"}, "--prompt-ids: id 320, at place 1, is not below the model's vocabulary of 320"},
		{[]string{m, "--prompt-ids", "@" + dir + "/none"}, "--prompt-ids: open DIR/none: no such file or directory"},
		{[]string{needle, "-p", ""}, "the prompt is empty: give -p TEXT, -f FILE or text on stdin"},
		{[]string{needle}, "the prompt is empty: give -p TEXT, -f FILE or text on stdin"},
		{[]string{needle, "-f", dir + "/empty"}, "the prompt is empty: give -p TEXT, -f FILE or text on stdin"},
		{[]string{needle, "-f", dir + "/none"}, "--file: open DIR/none: no such file or directory"},
		{[]string{needle, "-p", "a\xffb"}, "the prompt: message 0: content is not UTF-8: byte 1 is 0xff: convert it"},
		{[]string{needle, "-p", "x", "--raw", "--chat-template", dir + "/file"}, "--raw and --chat-template contradict each other"},
		{[]string{needle, "-p", "x", "--chat-template", dir + "/none"}, "--chat-template: open DIR/none: no such file or directory"},
		{[]string{needle, "-p", "x", "--chat-template", dir + "/pipe"}, "--chat-template: DIR/pipe is not a regular file"},
		{[]string{needle, "-p", "x", "--chat-template", dir}, "--chat-template: DIR is not a regular file"},
		{[]string{needle, "-p", "x", "--chat-template", dir + "/empty"}, "--chat-template: DIR/empty is empty"},
		{[]string{needle, "-p", "x", "--chat-template", dir + "/unused"}, `the prompt: chat template of DIR/unused: it leaves out the content of message 0 (role "user"), so that the model would not read it: give another template by --chat-template FILE, or --raw for none`},
		{[]string{needle, "-p", "x", "--system-prompt", "y", "--chat-template", dir + "/user"}, `the prompt: chat template of DIR/user: it leaves out the content of message 0 (role "system"), so that the model would not read it: leave out --system-prompt, or give another template by --chat-template FILE`},
		{[]string{needle, "-p", "x", "--raw", "--system-prompt", "y"}, "--system-prompt needs a chat template, but the text is raw (--raw)"},
		{[]string{dir + "/file", ids}, "DIR/file is a file: give the folder that holds config.json and *.safetensors"},
		{[]string{"compare", m, "--b", "flash"}, `--b "flash": want one of ` + attentionNames},
		{[]string{"compare", m, "-n", "-1"}, "-n -1: want at least 1; left out, it is by the task, else 64"},
		{[]string{"compare", m, "--seeds", "0"}, "--seeds 0: want 1 to 10000"},
		{[]string{"compare", needle, "--task", dir + "/bad.jsonl"}, `DIR/bad.jsonl: line 1: "input" is of type number: want a string: mend the row`},
		{[]string{"compare", m, "--task", "riddles"}, `--task "riddles": want access-codes, access_few, access_dense, access_N, json_kv, niah_single_1, niah_multikey_2, niah_multikey_3, vt, cwe, fwe, niah_multivalue_noise, niah_multiquery_noise or a file that ends in .jsonl`},
		{[]string{"compare", m, "--task", "vt,cwe"}, `--task "vt,cwe": want one task`},
		{[]string{"compare", m, "--task", "vt", "--codes", "3"}, "--codes goes with --task access-codes: leave it out, or ask for access_3"},
		{[]string{"compare", m, "--codes", "0"}, "--codes 0: want 1 to 328"},
		{[]string{"compare", needle, "--task", dir + "/two.jsonl", "--row", "2"}, "--row 2: DIR/two.jsonl has rows 0 to 1"},
		{[]string{"compare", needle, "--length", "50"}, "--length 50: access codes: row 0: 8 codes and the question take 181 tokens of 50: ask for fewer codes or a longer prompt"},
		{[]string{"compare", needle, "--task", "json_kv", "--length", "50"}, "--length 50: json_kv: row 0: an object of 3 pairs takes 461 tokens, 561 with its answer, of 50: ask for a longer prompt"},
		{[]string{"compare", needle, "--codes", "5000"}, "--codes 5000: want 1 to 328"},
		{[]string{"compare", needle, "--task", "access_5000"}, `--task "access_5000": want access_few, access_dense or access_N, with N codes in a prompt, 1 to 328`},
		{[]string{"compare", needle, "--length", "50000"}, "--length 50000: the model's limit is 32768 tokens"},
		{[]string{"compare", m, "--row", "-1"}, "--row -1: want 0 to 999999"},
		{[]string{m, ids, "--bugdet", "5"}, "unknown flag --bugdet: is it --budget? see generate --help"},
		{[]string{"evaluate", m, "--task", "vt"}, "unknown flag --task: is it --tasks? see generate evaluate --help"},
		{[]string{"compare", m, "--foo"}, "unknown flag --foo; see generate compare --help"},
		{[]string{m, ids, "--attention", "centroid", "--block", "0"}, "--block 0: must be at least 1"},
		{[]string{m, ids, "--attention", "centroid", "--budget", "8"}, "--budget 8 must be at least --block 16, the keys of one cluster"},
		{[]string{m, ids, "--attention", "centroid", "--cluster", "x"}, `--cluster "x": want one of latent, row`},
		{[]string{m, ids, "--attention", "santa", "--budget", "0"}, "--budget 0: must be at least 1"},
		{[]string{m, ids, "--attention", "santa", "--budget", "9223372036854775807"}, "--budget 9223372036854775807: santa draws at most 16777216 rows"},
		{[]string{m, ids, "--attention", "santa", "--draw", "x"}, `--draw "x": want one of independent, systematic`},
		{[]string{m, ids, "--attention", "oracle", "--budget", "6"}, "--budget 6 must be a multiple of 4, the rows of a team: --parent-size 16 over --representatives 4"},
		{[]string{"diagnose", m, "--block", "x"}, `--block "x": want whole numbers, separated by commas`},
		{[]string{"diagnose", m, "--block", "", "--parents", ""}, `nothing to do: --parents "", --block ""`},
		{[]string{"diagnose", m, "--representatives", "17"}, "--representatives 17 must divide --parent-size 16: give a number that divides it, or another --parent-size"},
		{[]string{"diagnose", m, "--representatives", "3"}, "--representatives 3 must divide --parent-size 16: give a number that divides it, or another --parent-size"},
		{[]string{"diagnose", m, "--representatives", "0"}, "--representatives 0: must be at least 1"},
		{[]string{"diagnose", m, "--parent-size", "0"}, "--parent-size 0: must be at least 1"},
		{[]string{"bench", m, "--representatives", "17"}, "--representatives 17 must divide --parent-size 16: give a number that divides it, or another --parent-size"},
		{[]string{"compare", m, "--representatives", "17"}, "--representatives 17 must divide --parent-size 16: give a number that divides it, or another --parent-size"},
		{[]string{"diagnose", m, "--sharpen", "0"}, "--sharpen 0: want more than 0, and at most 1e+06"},
		{[]string{"diagnose", m, "--sharpen", "Inf"}, "--sharpen +Inf: want more than 0, and at most 1e+06"},
		{[]string{"diagnose", m, "-n", "-1"}, "-n -1: want at least 1; left out, it is by the task, else 64"},
		{[]string{"diagnose", m, "-n", "0"}, "-n 0: want at least 1; left out, it is by the task, else 64"},
		{[]string{"diagnose", m, "--samples", "0"}, "--samples 0: want 1 to 1000000; left out, it is 48, or all rows of a file"},
		{[]string{"diagnose", m, "-o", "csv"}, `-o "csv": want md or json`},
		{[]string{"evaluate", m, "--attention", "flash"}, `--attention "flash": want one of ` + attentionNames},
		{[]string{"evaluate", m, "--attention", ""}, `--attention "": the list is empty: give one value or more`},
		{[]string{"evaluate", m, "--budget", ""}, `--budget "": the list is empty: give one value or more`},
		{[]string{"evaluate", m, "--attention", "dense,,santapp"}, `--attention "dense,,santapp"` + emptyElement},
		{[]string{"evaluate", m, "--budget", "256,"}, `--budget "256,"` + emptyElement},
		{[]string{"evaluate", m, "--parents", ",kmeans"}, `--parents ",kmeans"` + emptyElement},
		{[]string{"evaluate", m, "--cluster", "row,"}, `--cluster "row,"` + emptyElement},
		{[]string{"evaluate", m, "--block", "4,,16"}, `--block "4,,16"` + emptyElement},
		{[]string{"evaluate", m, "--tasks", "vt,"}, `--tasks "vt,"` + emptyElement},
		{[]string{"evaluate", m, "--length", "4096,"}, `--length "4096,"` + emptyElement},
		{[]string{"evaluate", m, "--pairs", "santapp:dense,"}, `--pairs "santapp:dense,"` + emptyElement},
		{[]string{"diagnose", m, "--parents", "kmeans,"}, `--parents "kmeans,"` + emptyElement},
		{[]string{"diagnose", m, "--block", ",4"}, `--block ",4"` + emptyElement},
		{[]string{"evaluate", m, "--budget", "x"}, `--budget "x": want whole numbers, separated by commas`},
		{[]string{"evaluate", m, "--budget", "6"}, "--budget 6 must be a multiple of 4, the rows of a team: --parent-size 16 over --representatives 4"},
		{[]string{"evaluate", m, "--samples", "-1"}, "--samples -1: want 1 to 1000000; left out, it is 48, or all rows of a file"},
		{[]string{"evaluate", m, "--samples", "0"}, "--samples 0: want 1 to 1000000; left out, it is 48, or all rows of a file"},
		{[]string{"evaluate", m, "--limit", "-1"}, "--limit -1: want at least 1; left out, it is what the model reads"},
		{[]string{"evaluate", m, "--limit", "0"}, "--limit 0: want at least 1; left out, it is what the model reads"},
		{[]string{"evaluate", m, "-n", "-1"}, "-n -1: want at least 1; left out, it is by the task, else 64"},
		{[]string{"evaluate", m, "-n", "0"}, "-n 0: want at least 1; left out, it is by the task, else 64"},
		{[]string{"compare", m, "-n", "0"}, "-n 0: want at least 1; left out, it is by the task, else 64"},
		{[]string{"evaluate", m, "--attention-seeds", "0"}, "--attention-seeds 0: want 1 to 10000"},
		{[]string{"evaluate", m, "--samples", "9223372036854775807"}, "--samples 9223372036854775807: want 1 to 1000000; left out, it is 48, or all rows of a file"},
		{[]string{"evaluate", needle, "--samples", "600000", "--tasks", "access_1,access_2", "--length", "200"}, "the run has more than 1000000 prompts: give fewer --tasks, --length or --samples"},
		{[]string{"evaluate", m, "--attention-seeds", "10001"}, "--attention-seeds 10001: want 1 to 10000"},
		{[]string{"evaluate", m, "--tasks", "access_2,vt,access_2"}, `--tasks "access_2,vt,access_2": access_2 is named twice: leave one out`},
		{[]string{"evaluate", m, "--tasks", "a/x.jsonl,b/x.jsonl"}, "--tasks: x.jsonl is named twice: leave one out, or rename a file"},
		{[]string{"evaluate", m, "--length", "160,0160"}, `--length "160,0160": 160 is named twice: leave one out`},
		{[]string{"evaluate", m, "--attention", "dense,santapp, dense"}, `--attention "dense,santapp, dense": dense is named twice: leave one out`},
		{[]string{"evaluate", m, "--budget", "32", "--budget", "64,032"}, `--budget "64,032": 32 is named twice: leave one out`},
		{[]string{"evaluate", m, "--parents", "kmeans,kmeans"}, `--parents "kmeans,kmeans": kmeans is named twice: leave one out`},
		{[]string{"evaluate", m, "--cluster", "row,row"}, `--cluster "row,row": row is named twice: leave one out`},
		{[]string{"evaluate", m, "--block", "16,4,16"}, `--block "16,4,16": 16 is named twice: leave one out`},
		{[]string{"evaluate", m, "--pairs", "santapp:dense,santapp:dense"}, `--pairs "santapp:dense,santapp:dense": santapp:dense is named twice: leave one out`},
		{[]string{"diagnose", m, "--parents", "kmeans,kmeans"}, `--parents "kmeans,kmeans": kmeans is named twice: leave one out`},
		{[]string{"diagnose", m, "--block", "4,04"}, `--block "4,04": 4 is named twice: leave one out`},
		{[]string{"bench", m, "-p", "16,16"}, `--n-prompt "16,16": 16 is named twice: leave one out`},
		{[]string{"bench", m, "-n", "2", "-n", "2"}, `--n-gen "2": 2 is named twice: leave one out`},
		{[]string{"bench", m, "-d", "0,0"}, `--n-depth "0,0": 0 is named twice: leave one out`},
		{[]string{"bench", m, "--attention", "dense,dense"}, `--attention "dense,dense": dense is named twice: leave one out`},
		{[]string{"bench", m, "--attention-op", "--rows", "64,128,64"}, `--rows "64,128,64": 64 is named twice: leave one out`},
		{[]string{"bench", m, "--attention-op", "--drawn", "4,4"}, `--drawn "4,4": 4 is named twice: leave one out`},
		{[]string{"evaluate", m, "--pairs", "santa:dense"}, `--pairs "santa:dense": santa is none of the methods: dense, santapp`},
		{[]string{"evaluate", needle, "--tasks", dir + "/pipe.jsonl"}, "--tasks: DIR/pipe.jsonl is not a regular file"},
		{[]string{"evaluate", m, "--tasks", ""}, `nothing to do: --tasks "", --length "4096"`},
		{[]string{"evaluate", m, "--tasks", "access_few,access_many"}, `--tasks "access_many": want access_few, access_dense or access_N, with N codes in a prompt, 1 to 328`},
		{[]string{"evaluate", m, "--tasks", "qa_1"}, `--tasks "qa_1": want access_few, access_dense, access_N, json_kv, niah_single_1, niah_multikey_2, niah_multikey_3, vt, cwe, fwe, niah_multivalue_noise, niah_multiquery_noise or a file that ends in .jsonl`},
		{[]string{"evaluate", m, "--length", "4096,x"}, `--length "x": want numbers of tokens, separated by commas`},
		{[]string{"evaluate", m, "--answer-prefix", "no"}, `--answer-prefix "no": want with, without or both`},
		{[]string{"evaluate", m, "--truncate", "end"}, `--truncate "end": want middle`},
		{[]string{"evaluate", needle, "--tasks", dir + "/several.jsonl", "--scorer", "exact"}, "DIR/several.jsonl: line 2: 2 references: an answer by the scorer exact has one: mend the row, or leave such rows out with --skip-bad"},
		{[]string{"evaluate", m, "--scorer", "f1"}, `--scorer: scorer "f1": want one of choice, exact, string_match_all, string_match_part, substring_exact_match`},
		{[]string{"evaluate", m, "--shard", "2/2"}, `--shard "2/2": want I/N, with I from 0 to N-1`},
		{[]string{"evaluate", m, "--pairs", "dense"}, `--pairs "dense": want A:B, two methods, separated by commas`},
		{[]string{"evaluate", needle, "--length", "50"}, "--length 50: access codes: row 0: 8 codes and the question take 181 tokens of 50: ask for fewer codes or a longer prompt"},
		{[]string{"evaluate", needle, "--length", "4096,50", "--tasks", "vt,fwe"}, "--length 50: fwe: 50 tokens are too few: want at least 250"},
		{[]string{"evaluate", needle, "--length", "50", "--tasks", "vt"}, "--length 50: vt: row 0: no sample of 5 lines or words keeps 50 tokens with 30 for the answer: ask for a longer prompt"},
		{[]string{"evaluate", needle, "--tasks", dir + "/two.jsonl", "--limit", "5"}, "DIR/two.jsonl: line 1: the row cannot be put: the prompt has 9 tokens, and the limit, that of --limit, is 5: --truncate middle cuts it"},
		{[]string{"evaluate", needle, "--tasks", dir + "/two.jsonl", "--limit", "5", "--truncate", "middle"}, "DIR/two.jsonl: line 1: the row cannot be put: the chat template and the answer prefix alone have more tokens than the limit of 5: give a greater --limit, or fewer --max-tokens"},
		{[]string{"evaluate", needle, "--length", "200,50", "--samples", "1", "--attention", "dense", "--shard", "0/2"}, "--length 50: access codes: row 0: 8 codes and the question take 181 tokens of 50: ask for fewer codes or a longer prompt"},
		{[]string{"diagnose", needle, "--length", "200,50", "--samples", "1"}, "--length 50: access codes: row 0: 8 codes and the question take 181 tokens of 50: ask for fewer codes or a longer prompt"},
		{[]string{"diagnose", needle, "--length", "50"}, "--length 50: access codes: row 0: 8 codes and the question take 181 tokens of 50: ask for fewer codes or a longer prompt"},
		{[]string{"evaluate", needle, "--length", "50000"}, "--length 50000: the model's limit is 32768 tokens"},
		{[]string{"evaluate", needle, "--tasks", dir + "/none.jsonl"}, "--tasks: open DIR/none.jsonl: no such file or directory"},
		{[]string{"evaluate", needle, "--output", dir + "/none/x"}, "--output: open DIR/none/x: no such file or directory"},
		{[]string{"evaluate", "--merge"}, "--merge: name the files that --output wrote"},
		{[]string{"evaluate", "--merge", dir + "/file", "--shard", "0/2"}, "--shard means nothing with --merge"},
		{[]string{"evaluate", "--merge", dir + "/file"}, "DIR/file: it is not a results file: it has no header"},
		{[]string{"bench", m, "-p", "512,,4096"}, `--n-prompt "512,,4096"` + emptyElement},
		{[]string{"bench", m, "-p", "512,"}, `--n-prompt "512,"` + emptyElement},
		{[]string{"bench", m, "-n", ",8"}, `--n-gen ",8"` + emptyElement},
		{[]string{"bench", m, "-d", ","}, `--n-depth ","` + emptyElement},
		{[]string{"bench", m, "--attention", "dense, ,santapp"}, `--attention "dense, ,santapp"` + emptyElement},
		{[]string{"bench", m, "--attention-op", "--rows", "64,"}, `--rows "64,"` + emptyElement},
		{[]string{"bench", m, "--attention-op", "--drawn", "31,,64"}, `--drawn "31,,64"` + emptyElement},
		{[]string{"bench", m, "-p", "x"}, `-p "x": want whole numbers of 0 to 1099511627776, separated by commas`},
		{[]string{"bench", m, "-d", "-1"}, `-d "-1": want whole numbers of 0 to 1099511627776, separated by commas`},
		{[]string{"bench", m, "-p", "0", "-n", "0"}, `nothing to do: -p "0", -n "0", -r 3, --attention "dense,santapp"`},
		{[]string{"bench", m, "-r", "0"}, `nothing to do: -p "512,4096", -n "32", -r 0, --attention "dense,santapp"`},
		{[]string{"bench", m, "-r", "9223372036854775807"}, "-r 9223372036854775807: want at most 1000000"},
		{[]string{"bench", m, "-o", "xml"}, `-o "xml": want md, json, jsonl or csv`},
		{[]string{"bench", m, "--kernels", "--device", "cpu"}, "--kernels times kernels by a GPU's clock, and this is cpu…"},
		{[]string{"bench", m, "--rows", "5"}, "--rows means nothing without --attention-op"},
		{[]string{"bench", m, "--attention-op", "-p", "5"}, "--n-prompt means nothing with --attention-op"},
		{[]string{"bench", m, "--attention-op", "-r", "5"}, "--repetitions means nothing with --attention-op: give --rounds, with --protocol paper or --stages"},
		{[]string{"bench", m, "--attention-op", "--rounds", "5"}, "--rounds means nothing with --protocol graph: it goes with --protocol paper and --stages"},
		{[]string{"bench", m, "--attention-op", "--stages", "--peer", "x"}, "--peer means nothing with --stages, which are those of SANTA++"},
		{[]string{"bench", m, "--attention-op", "--min-context", "5"}, "--min-context means nothing with --attention-op"},
		{[]string{"bench", m, "--attention-op", "--parents", "probe"}, "--parents probe needs the queries of a prompt, which --attention-op does not keep"},
		{[]string{"bench", m, "--attention-op", "--rows", "0"}, `--rows "0": want numbers of at least 1`},
		{[]string{"bench", m, "--attention-op", "--drawn", ""}, `--drawn "": want numbers of at least 1`},
		{[]string{"bench", m, "--attention-op", "--rows", "99999999"}, "--rows 99999999: want at most 16777216"},
		{[]string{"bench", m, "--attention-op", "--rows", "64", "--drawn", "100000"}, "--drawn 100000: a key head has at most 16 teams of 64 rows: draw at most 16, or give more --rows"},
		{[]string{"bench", m, "--attention-op", "--rows", "64"}, "--drawn 31: a key head has at most 16 teams of 64 rows: draw at most 16, or give more --rows"},
		{[]string{"bench", m, "--attention-op", "--rows", "4096,64", "--drawn", "17,2"}, "--drawn 17: a key head has at most 16 teams of 64 rows: draw at most 16, or give more --rows"},
		{[]string{"bench", m, "--attention-op", "--rows", "1", "--drawn", "2"}, "--drawn 2: a key head has at most 1 team of 1 row: draw at most 1, or give more --rows"},
		{[]string{"bench", m, "--attention-op", "--rows", "5", "--drawn", "5", "--parents", "contiguous"}, "--drawn 5: a key head has at most 4 teams of 5 rows: draw at most 4, or give more --rows"},
		{[]string{"bench", m, "--attention-op", "--rows", "64", "--drawn", "9", "--representatives", "2"}, "--drawn 9: a key head has at most 8 teams of 64 rows: draw at most 8, or give more --rows"},
		{[]string{"bench", m, "--attention-op", "--suffix", "9223372036854775807"}, "--suffix 9223372036854775807, --rounds 20: want at most 16777216 and 1000000"},
		{[]string{"bench", m, "--attention-op", "--protocol", "fast"}, `--protocol "fast": want graph or paper`},
		{[]string{"bench", m, "--attention-op", "--protocol", "paper", "--suffix", "5"}, "--suffix 5: --protocol paper sets it, to 0: leave --suffix out, or time by --protocol graph"},
		{[]string{"bench", m, "--attention-op", "--protocol", "paper", "--suffix", "0"}, "--suffix 0: --protocol paper sets it, to 0: leave --suffix out, or time by --protocol graph"},
		{[]string{"bench", m, "--attention-op", "--protocol", "paper", "--dtype", "f32"}, "--dtype f32: --protocol paper sets it, to fp16: leave --dtype out, or time by --protocol graph"},
		{[]string{"bench", m, "--attention-op", "--protocol", "paper", "--stages"}, "--stages has a protocol of its own: leave --protocol out"},
		{[]string{"bench", m, "--attention-op", "--stages", "--rounds", "0"}, "--rounds 0, --suffix 64, --first-layer 0: want at least 1, 0 and 0"},
		{[]string{"bench", "-m", m, "--attention-op", "--first-layer", "99"}, "--first-layer 99: M has layers 0 to 1"},
		{[]string{"bench", m, "--attention-op", "--heads", "7/2"}, "--heads 7/2: 7 query heads cannot share 2 key heads evenly"},
		{[]string{"bench", m, "--attention-op", "--heads", "7/x"}, `--heads "7/x": want a number of 1 to 65536, or two with / between`},
		{[]string{"bench", m, "--attention-op", "--dim", "576/512"}, "--dim 576/512: values are the first numbers of keys in a latent cache alone, which this model does not have"},
		{[]string{"bench", m, "--attention", "flash"}, `--attention "flash": want one of ` + attentionNames},
		{[]string{"bench", m, "-p", "40000"}, `-p "40000", -n "32", -d "": up to 40032 tokens: the model's limit is 32768 in all`},
		{[]string{"inspect", m, "-c", "0"}, "-c 0: want at least 1"},
		{[]string{"tokenize", needle, "--ids", "4095,5000"}, "--ids: position 1: no token has the id 5000: the tokenizer of ../../models/needle-qwen2 has ids below 4096"},
		{[]string{"tokenize", needle, "--ids", `{"tokens":[1]}`}, `--ids: the JSON object has neither "ids" nor "token_ids"`},
		{[]string{"tokenize", needle, "--ids", "1,2,"}, "--ids: there is no id at place 2, only a comma: take the comma out, or give the id"},
		{[]string{"tokenize", needle, "--ids", `{"ids":["x"]}`}, `--ids: "\"x\"", at place 0, is not a token id: want 0 to 2147483647`},
		{[]string{"tokenize", needle, "--ids", "40", "--ids", "41 42,x"}, `--ids: "x", at place 3, is not a token id: want 0 to 2147483647`},
		{[]string{"tokenize", needle, "--ids", "40", "--ids", "41,,"}, "--ids: there is no id at place 2, only a comma: take the comma out, or give the id"},
		{[]string{"tokenize", needle, "--ids", "40", "--ids", "@" + dir + "/file"}, `--ids: DIR/file: "text", at place 1, is not a token id: want 0 to 2147483647`},
		{[]string{"tokenize", needle, "--ids", "@" + dir + "/empty"}, "--ids: DIR/empty: there are no ids: give 1,2,3 or @FILE"},
		{[]string{"tokenize", needle, "--ids", ""}, "--ids: there are no ids: give 1,2,3 or @FILE"},
		{[]string{"tokenize", needle, "--ids", "40", "--ids", "5000"}, "--ids: position 1: no token has the id 5000: the tokenizer of ../../models/needle-qwen2 has ids below 4096"},
		{[]string{"tokenize", needle, "--ids", `{"ids":[1]`}, "--ids: not a JSON object: unexpected end of JSON input"},
		{[]string{"tokenize", needle, "--ids", "1", "--add-special-tokens"}, "--add-special-tokens means nothing with --ids, which are all that there is"},
		{[]string{"tokenize", needle, "--ids", "1", "-p", "x"}, "--ids and a text both say what to read: use one"},
		{[]string{"tokenize", needle, "-p", "a\xffb"}, "text is not UTF-8: byte 1 is 0xff: convert it"},
		{[]string{"completion", "bash", "x"}, `unknown command "x" for "generate completion bash"`},
		{[]string{"tokenize"}, "no MODEL: name a folder with config.json and *.safetensors, or org/name in the Hugging Face cache"},
	} {
		o := generate(t, "", c.args...)
		if c.args = append(c.args, ""); c.args[0] == "compare" { // it tells what it has done so far
			o.errors = o.errors[strings.LastIndex(strings.TrimSuffix(o.errors, "\n"), "\n")+1:]
		}
		o.errors = strings.ReplaceAll(o.errors, m, "M")
		if want, cut := strings.CutSuffix(c.want, "…"); cut && strings.HasPrefix(o.errors, "generate: "+want) {
			o.errors = "generate: " + c.want
		}
		refused(t, o, 2, dir, c.want)
	}
}

// A mistyped command or path is not taken for a model to download.
func TestMistyped(t *testing.T) {
	m := tiny + "qwen2_tied_gqa"
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"compar", m}, `"compar" is neither a command nor a model folder`, 2},
		{[]string{"compar"}, `"compar" is neither a command nor a model folder`, 2},
		{[]string{"-p", "x", "nope"}, "nope: no such folder", 1},
		{[]string{"-p", "x", "../../models/nope"}, "no such folder", 1},
		{[]string{"--prompt-ids", "1", "-t", "9223372036854775807", m}, "--threads 9223372036854775807: want 0 (all) to 1024", 2},
		{[]string{"bench", "-p", "1", "-n", "9223372036854775807", m}, "-n \"9223372036854775807\": want whole numbers", 2},
		{[]string{"compare", "-p", "x", "--row", "3", m}, "--row makes a prompt, and another is given", 2},
	} {
		o := generate(t, "", c.args...)
		if o.code != c.code || !strings.Contains(o.errors, c.want) {
			t.Errorf("%v: exit code %d, %q; want %d, %q", c.args, o.code, o.errors, c.code, c.want)
		}
	}
}
