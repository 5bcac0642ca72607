package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// A variable fills in what the command line leaves open, and the object tells.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/prompt", "Hello")
	m := tiny + "qwen2_tied_gqa"
	check := func(name string, ok bool, got object) {
		t.Helper()
		if !ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	t.Setenv("GENERATE_MAX_TOKENS", "3")
	t.Setenv("GENERATE_TEMPERATURE", "0.5")
	t.Setenv("GENERATE_ATTENTION", "dense")
	t.Setenv("GENERATE_TOP_K", "")
	t.Setenv("GENERATE_HELP", "yes")
	t.Setenv("GENERATE_VERSION", "1.2.3")
	got := asObject(t, "", m, "--prompt-ids", "1,2")
	check("set", len(got.TokenIDs) == 3 && got.Sampling.Temperature == 0.5 && got.Attention.Name == "dense", got)
	check("source", got.Sampling.Source["temperature"] == "environment" && got.Sampling.Source["top_k"] == "default", got)
	got = asObject(t, "", m, "--prompt-ids", "1,2", "--predict", "2", "--temp", "0.25", "--attention-backend", "santapp")
	check("flags win", len(got.TokenIDs) == 2 && got.Sampling.Temperature == 0.25 && got.Attention.Name == "santapp", got)
	check("source", got.Sampling.Source["temperature"] == "flag", got)
	got = asObject(t, "", m, "--prompt-ids", "1,2", "--greedy")
	check("--greedy wins over the variable of what contradicts it", got.Sampling.Temperature == 0, got)

	t.Setenv("GENERATE_PROMPT", "Hello")
	t.Setenv("GENERATE_MODEL", needle)
	got = asObject(t, "not read")
	check("prompt and model", got.PromptTokens > 1 && got.Text != "", got)
	got = asObject(t, "", m, "--prompt-ids", "1,2")
	check("another prompt and model", got.PromptTokens == 2 && got.Text == "", got)
	write(t, dir+"/prompt", "Hello, hello, hello, hello")
	long := asObject(t, "", "-f", dir+"/prompt")
	check("another prompt", long.PromptTokens > got.PromptTokens, long)

	t.Setenv("GENERATE_MAX_TOKENS", "three")
	refused(t, generate(t, "", m), 2, "", `GENERATE_MAX_TOKENS="three": want a whole number`)
	t.Setenv("GENERATE_MAX_TOKENS", "0")
	refused(t, generate(t, "", m), 2, "", "-n 0: want at least 1 (GENERATE_MAX_TOKENS sets --max-tokens and -n)")
}

// An error about a flag that a variable set names the variable.
func TestErrorsNameVariables(t *testing.T) {
	m := tiny + "qwen2_tied_gqa"
	for _, c := range []struct{ args, set, want string }{
		{m + " --prompt-ids 1 -n 0", "BUDGET=8", "-n 0: want at least 1"},
		{m + " --prompt-ids 1", "TOP_P=1.5", "--top-p 1.5: want 1e-06 to 1 (off) (GENERATE_TOP_P sets --top-p)"},
		{m + " --prompt-ids 1", "BUDGET=6", "--budget 6 must be a multiple of 4, the rows of a team: --parent-size 16 over --representatives 4 (GENERATE_BUDGET sets --budget)"},
		{m + " --prompt-ids 1 --greedy", "LOGPROBS=3", "--logprobs is part of the JSON object: add --json (GENERATE_LOGPROBS sets --logprobs)"},
		{m + " -p x", "FILE=/none", "M has no tokenizer.json: give --prompt-ids"},
		{"evaluate " + m, "TASKS=qa", `--tasks "qa": want access_few, access_dense, access_N, json_kv, niah_single_1, niah_multikey_2, niah_multikey_3, vt, cwe, fwe, niah_multivalue_noise, niah_multiquery_noise or a file that ends in .jsonl (GENERATE_TASKS sets --tasks)`},
		{"bench " + m, "N_PROMPT=x", `-p "x": want whole numbers of 0 to 1099511627776, separated by commas (GENERATE_N_PROMPT sets --n-prompt and -p)`},
		{"bench " + m + " -p 0", "N_GEN=0", `nothing to do: -p "0", -n "0", -r 3, --attention "dense,santapp" (GENERATE_N_GEN sets --n-gen and -n)`},
	} {
		name, value, _ := strings.Cut(c.set, "=")
		t.Run(c.set, func(t *testing.T) {
			t.Setenv("GENERATE_"+name, value)
			o := generate(t, "", strings.Fields(c.args)...)
			o.errors = strings.ReplaceAll(o.errors, m, "M")
			refused(t, o, 2, "", c.want)
		})
	}
}

// Settings come from flags, then generation_config.json, then neutral defaults.
func TestSamplingSources(t *testing.T) {
	const m = "qwen2_tied_gqa"
	settings := func(config string, args ...string) string {
		t.Helper()
		dir := checkpoint(t, m)
		if config != "" {
			write(t, dir+"/generation_config.json", config)
		}
		got := answer(t, "", append([]string{dir, "--prompt-ids", "1", "-n", "1", "-v"}, args...)...).errors
		_, line, _ := strings.Cut(got, "sampling     ")
		line, _, _ = strings.Cut(line, "\n")
		return line
	}
	const file = "(generation_config.json)"
	qwen := `{"do_sample": true, "eos_token_id": [511, 509], "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20}`
	for _, c := range []struct {
		config string
		args   []string
		want   string
	}{
		{"", nil, "temperature 0 (default), top-k 0 (default), top-p 1 (default), min-p 0 (default), repetition penalty 1 (default)"},
		{"", []string{"--temperature", "0.5", "--min-p", "0.1"}, "temperature 0.5 (flag), top-k 0 (default), top-p 1 (default), min-p 0.1 (flag), repetition penalty 1 (default)"},
		{qwen, nil, "temperature 0.7 " + file + ", top-k 20 " + file + ", top-p 0.8 " + file + ", min-p 0 (default), repetition penalty 1.05 " + file},
		{qwen, []string{"--temp", "2", "--top-k", "0", "--repeat-penalty", "1"}, "temperature 2 (flag), top-k 0 (flag), top-p 0.8 " + file + ", min-p 0 (default), repetition penalty 1 (flag)"},
		{qwen, []string{"--greedy"}, "temperature 0 (flag), top-k 0 (default), top-p 1 (default), min-p 0 (default), repetition penalty 1 (default)"},
		{qwen, []string{"--greedy", "--temperature", "0", "--repetition-penalty", "1.2"}, "temperature 0 (flag), top-k 0 (default), top-p 1 (default), min-p 0 (default), repetition penalty 1.2 (flag)"},
		{`{"do_sample": true}`, nil, "temperature 1 (default), top-k 0 (default), top-p 1 (default), min-p 0 (default), repetition penalty 1 (default)"},
		{`{"do_sample": false, "temperature": 0.7, "top_p": 0.8}`, nil, "temperature 0 (default), top-k 0 (default), top-p 1 (default), min-p 0 (default), repetition penalty 1 (default)"},
		{`{"do_sample": false, "repetition_penalty": 1.3}`, nil, "temperature 0 (default), top-k 0 (default), top-p 1 (default), min-p 0 (default), repetition penalty 1.3 " + file},
		{`{"temperature": 0.7, "top_p": 0.8, "top_k": null}`, []string{"--temperature", "1.5"}, "temperature 1.5 (flag), top-k 0 (default), top-p 0.8 " + file + ", min-p 0 (default), repetition penalty 1 (default)"},
	} {
		if got := settings(c.config, c.args...); got != c.want {
			t.Errorf("%s %v:\n %s\nwant\n %s", c.config, c.args, got, c.want)
		}
	}
	dir := checkpoint(t, m)
	write(t, dir+"/generation_config.json", `{"do_sample": true, "top_p": 1.5}`)
	refused(t, generate(t, "", dir, "--prompt-ids", "1"), 1, "", "generation_config.json: top_p 1.5: want 1e-06 to 1 (off): correct the file, or give --top-p")
	answer(t, "", dir, "--prompt-ids", "1", "-n", "1", "--top-p", "0.5")
	write(t, dir+"/generation_config.json", `{"num_beams": 4, "no_repeat_ngram_size": 0, "typical_p": 1.0, "suppress_tokens": [], "bad_words_ids": [[3]], "guidance_scale": null}`)
	if o := generate(t, "", dir, "--prompt-ids", "1", "-n", "1"); o.code != 0 || o.errors != "generation_config.json: not used: num_beams 4, bad_words_ids [[3]]\n" {
		t.Errorf("exit code %d, stderr %q", o.code, o.errors)
	}
}

// A penalty changes greedy tokens: the one that is given, and no other.
func TestGreedyPenalty(t *testing.T) {
	dir := checkpoint(t, "qwen2_tied_gqa")
	write(t, dir+"/generation_config.json", `{"do_sample": true, "repetition_penalty": 100}`)
	ids := func(args ...string) []int32 {
		return asObject(t, "", append([]string{dir, "--prompt-ids", "1,2,3", "-n", "12"}, args...)...).TokenIDs
	}
	plain := ids("--greedy")
	if want := asObject(t, "", tiny+"qwen2_tied_gqa", "--prompt-ids", "1,2,3", "-n", "12").TokenIDs; !slices.Equal(plain, want) {
		t.Errorf("--greedy takes a penalty from the file: %v, want %v", plain, want)
	}
	distinct := func(ids []int32) int {
		slices.Sort(ids)
		return len(slices.Compact(ids))
	}
	if n := distinct(ids("--greedy", "--repetition-penalty", "100")); n != 12 {
		t.Errorf("a strong penalty leaves %d distinct tokens of 12", n)
	}
	if n := distinct(plain); n == 12 {
		t.Errorf("without a penalty all tokens differ: the test shows nothing")
	}
	// Temperature near 0 and sharp cuts are greedy too.
	for _, args := range [][]string{{"--temperature", "1e-6"}, {"--temperature", "1", "--top-k", "1"}, {"--temperature", "1", "--top-p", "1e-6"}, {"--temperature", "1", "--min-p", "1"}} {
		got := ids(append(args, "--repetition-penalty", "1", "--seed", "1")...)
		if want := ids("--greedy"); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", args, got, want)
		}
	}
}

// Help is for people: every flag of a command once, in its group, on stdout.
func TestHelp(t *testing.T) {
	for command, want := range map[string][]string{
		"":         {"Usage:\n  generate [flags] MODEL\n", "\nPrompt:\n  -p, --prompt TEXT", "\nAttention:\n      --attention NAME", "\nCommands:\n", "GENERATE_MAX_TOKENS"},
		"compare":  {"Usage:\n  generate compare [flags] MODEL\n", "--b NAME", "--row N"},
		"evaluate": {"Usage:\n  generate evaluate [flags] MODEL\n", "--samples N", "all combinations"},
		"diagnose": {"Usage:\n  generate diagnose [flags] MODEL\n", "--variants"},
		"report":   {"Usage:\n  generate report [flags] RESULTS.jsonl ...\n", "--plot FILE"},
		"bench":    {"Usage:\n  generate bench [flags] MODEL\n", "--repetitions N"},
		"inspect":  {"Usage:\n  generate inspect [flags] MODEL\n", "--ctx-size N"},
		"tokenize": {"Usage:\n  generate tokenize [flags] MODEL\n", "--ids IDS"},
	} {
		args := strings.Fields(command + " --help")
		o := answer(t, "", args...)
		if o.errors != "" || strings.Contains(o.out, "default 1)") != (command == "evaluate" || command == "compare" || command == "diagnose") {
			t.Errorf("%v: stderr %q, help\n%s", args, o.errors, o.out)
		}
		for _, text := range want {
			if !strings.Contains(o.out, text) {
				t.Errorf("%v: no %q in\n%s", args, text, o.out)
			}
		}
		for _, line := range strings.Split(o.out, "\n") {
			if len(line) > 120 {
				t.Errorf("%v: a line of %d bytes: %s", args, len(line), line)
			}
		}
		if again := answer(t, "", append([]string{"help"}, strings.Fields(command)...)...); again.out != o.out {
			t.Errorf("generate help %s differs", command)
		}
	}
	if got := answer(t, "", "--version").out; got != "generate version "+version+"\n" {
		t.Errorf("--version prints %q", got)
	}
}

// --top-p alone asks for sampling, also of a checkpoint that is greedy by
// itself.
func TestNarrowedChoiceSamples(t *testing.T) {
	for _, c := range []struct {
		args []string
		want float64
	}{
		{[]string{"--top-p", "0.9"}, 1}, {[]string{"--top-k", "4"}, 1}, {[]string{"--min-p", "0.1"}, 1},
		{nil, 0}, {[]string{"--top-p", "0.9", "--greedy"}, 0}, {[]string{"--top-p", "0.9", "--temperature", "0"}, 0},
	} {
		var s samplingFlags
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		s.register(f)
		if err := f.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		got, err := s.settings(f, nil)
		if err != nil || got.Temperature != c.want {
			t.Errorf("%v: temperature %v, %v; want %v", c.args, got.Temperature, err, c.want)
		}
	}
}
