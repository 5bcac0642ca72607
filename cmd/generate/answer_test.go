package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"blitzen/internal/golden"
)

// Greedy tokens of checkpoints that other software made, through the whole
// program: dense, and sampled with a budget that covers every team.
func TestGoldenTokens(t *testing.T) {
	for _, dir := range []string{"qwen2_tied_gqa", "qwen2_untied_mha", "qwen2_fp16_sharded", "qwen2_yarn", "dsv2_lite", "dsv2_group", "dsv2_norm_norope"} {
		f := golden.Open(t, tiny+dir+"/golden.safetensors")
		for p := range 3 {
			ids, want := f.Int32s(fmt.Sprintf("p%d.input_ids", p)), f.Int32s(fmt.Sprintf("p%d.greedy", p))
			for _, attention := range [][]string{{"dense"}, {"santapp", "--budget", "4096"}, {"santapp", "--budget", "4096", "--parents", "contiguous"}} {
				args := append([]string{tiny + dir, "--prompt-ids", idList(ids), "-n", "24", "--ignore-eos", "--greedy", "--attention"}, attention...)
				got := asObject(t, "", args...)
				if !slices.Equal(got.TokenIDs, want) {
					t.Errorf("%s, prompt %d, %v: tokens %v, want %v", dir, p, attention, got.TokenIDs, want)
				}
				if got.PromptTokens != len(ids) || got.FinishReason != "length" || got.Text != "" || got.Attention.AccessPercent != 100 {
					t.Errorf("%s, prompt %d, %v: %+v", dir, p, attention, got)
				}
			}
		}
	}
}

// A trained checkpoint answers a chat as transformers does: the template's ids,
// the text, the end token.
func TestNeedlePrompts(t *testing.T) {
	var file struct {
		Prompts []struct {
			Messages []struct{ Role, Content string }
			IDs      int    `json:"n_ids"`
			Text     string `json:"greedy_text"`
			EOS      int    `json:"first_eos_in_greedy"`
		}
	}
	golden.JSON(t, "../../testdata/needle-qwen2/prompts.json", &file)
	for _, i := range []int{0, 2} { // with a user's message alone, and after a system message
		p := file.Prompts[i]
		args := []string{needle, "--attention", "dense"}
		for _, m := range p.Messages[:len(p.Messages)-1] {
			args = append(args, "--system-prompt", m.Content)
		}
		got := asObject(t, p.Messages[len(p.Messages)-1].Content, args...)
		if got.PromptTokens != p.IDs || got.Text != p.Text || len(got.TokenIDs) != p.EOS+1 || got.FinishReason != "stop" {
			t.Errorf("prompt %d: %d tokens, %q, %d tokens (%s); want %d, %q, %d", i, got.PromptTokens, got.Text, len(got.TokenIDs), got.FinishReason, p.IDs, p.Text, p.EOS+1)
		}
	}
}

// What goes beyond the paper is named as such wherever the method is, and does
// what it says: a prompt below --min-context reads all.
func TestBeyondPaper(t *testing.T) {
	args := []string{needle, "-p", "Hello", "-n", "2", "--ignore-eos", "--budget", "8", "--dense-layers", "1,0", "--parents", "segmented", "--reps", "fp8"}
	text := answer(t, "", append(args, "-v")...)
	if want := "santapp (segmented, S 8; beyond the paper: exact layers 0-1, FP8 representatives)"; !strings.Contains(text.errors, want) {
		t.Errorf("no %q in\n%s", want, text.errors)
	}
	o := answer(t, "", append(args, "--json", "--min-context", "5000")...)
	for _, want := range []string{`"beyond_paper_min_context":5000`, `"beyond_paper_dense_layers":"0-1"`, `"beyond_paper_reps":"fp8"`, `"parents":"segmented"`, `"access_percent":100,`} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %s in %s", want, o.out)
		}
	}
}

// The keys are an interface: programs read them.
func TestObjectKeys(t *testing.T) {
	o := answer(t, "", needle, "-p", "Hello", "-n", "2", "--ignore-eos", "--json", "--logprobs", "1", "--budget", "8")
	var obj map[string]any
	if err := json.Unmarshal([]byte(o.out), &obj); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"":           "attention finish_reason logprobs model prompt_tokens sampling text timings token_ids version",
		"logprobs":   "logprob token token_id top",
		"top":        "logprob token token_id",
		"attention":  "access_percent budget bytes_percent bytes_read name parent_size parents representatives seed selected_percent",
		"sampling":   "min_p repetition_penalty seed source temperature top_k top_p",
		"source":     "min_p repetition_penalty seed temperature top_k top_p",
		"model":      "architecture device dtype hash path quantize",
		"timings":    "build_ms load_ms predicted_ms predicted_n predicted_per_second predicted_per_token_ms prompt_ms prompt_n prompt_per_second",
		"no such at": "",
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(find(obj, at))), " "); got != want {
			t.Errorf("keys of %q: %s\nwant %s", at, got, want)
		}
	}
	if o.errors != "" {
		t.Errorf("stderr is %q", o.errors)
	}
}

// find is the object under a key at any depth, the first of a list; root for "".
func find(root map[string]any, key string) map[string]any {
	if key == "" {
		return root
	}
	for k, v := range root {
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		if inner, ok := v.(map[string]any); ok {
			if k == key {
				return inner
			}
			if found := find(inner, key); found != nil {
				return found
			}
		}
	}
	return nil
}

// Stdout holds the text of the object and nothing else, whatever else is asked.
func TestAnswerOnly(t *testing.T) {
	args := []string{needle, "-p", "Hello", "-n", "12", "--seed", "3"}
	want := asObject(t, "", args...)
	quiet := answer(t, "", args...)
	if quiet.out != want.Text || quiet.errors != "" || want.Text == "" {
		t.Errorf("stdout %q, stderr %q, the object's text is %q", quiet.out, quiet.errors, want.Text)
	}
	verbose := answer(t, "", append(args, "-v")...)
	if verbose.out != want.Text {
		t.Errorf("with -v stdout is %q", verbose.out)
	}
	for _, figure := range []string{"seed 3", "attention santapp (kmeans, S 512)", "chat template of the checkpoint", "tokens/s", "\n\nload ", "KV access", "temperature 0 (default)", "finish "} {
		if !strings.Contains(verbose.errors, figure) {
			t.Errorf("-v does not print %q:\n%s", figure, verbose.errors)
		}
	}
}

// A model without a tokenizer prints ids.
func TestIDsWithoutTokenizer(t *testing.T) {
	args := []string{tiny + "qwen2_tied_gqa", "--prompt-ids", "1,2,3", "-n", "5"}
	want := asObject(t, "", args...).TokenIDs
	if got := answer(t, "", args...).out; got != idList(want)+"\n" {
		t.Errorf("printed %q, the ids are %v", got, want)
	}
}

func TestLogProbs(t *testing.T) {
	for _, top := range []int{1, 5, 100_000} {
		got := asObject(t, "", tiny+"qwen2_tied_gqa", "--prompt-ids", "5,6,7", "-n", "3", "--logprobs", fmt.Sprint(top))
		if len(got.LogProbs) != 3 {
			t.Fatalf("%d entries", len(got.LogProbs))
		}
		for i, l := range got.LogProbs {
			if l.TokenID != got.TokenIDs[i] || len(l.Top) != min(top, 512) || l.Top[0].TokenID != l.TokenID || l.Top[0].LogProb != l.LogProb {
				t.Errorf("--logprobs %d: token %d is %+v", top, i, l.TokenID)
			}
			mass := 0.0
			for j, c := range l.Top {
				if j > 0 && c.LogProb > l.Top[j-1].LogProb {
					t.Errorf("alternative %d rises", j)
				}
				mass += math.Exp(c.LogProb)
			}
			// 512 float32 log-probabilities below 20: off by at most 20·2⁻²⁴ each.
			if top > 512 && math.Abs(mass-1) > 1e-5 {
				t.Errorf("all probabilities sum to %v", mass)
			}
		}
	}
	if got := asObject(t, "", tiny+"qwen2_tied_gqa", "--prompt-ids", "5", "-n", "1"); got.LogProbs == nil || len(got.LogProbs) != 0 {
		t.Errorf("logprobs are %v, want an empty list", got.LogProbs)
	}
}

func TestStop(t *testing.T) {
	args := []string{needle, "-p", "Hello", "-n", "20", "--ignore-eos"}
	full := asObject(t, "", args...)
	// A stop text over the border of two tokens.
	start := answer(t, "", "tokenize", needle, "--ids", idList(full.TokenIDs[:8])).out
	border := len(strings.TrimSuffix(start, "\n"))
	if !strings.HasPrefix(full.Text, start[:border]) || len(full.Text) < border+2 {
		t.Fatalf("the answer %q does not begin with the text of its tokens %q", full.Text, start)
	}
	stop := full.Text[border-2 : border+2]
	before, _, _ := strings.Cut(full.Text, stop)
	got := asObject(t, "", append(args, "--stop", "never said", "--stop", stop)...)
	if got.FinishReason != "stop_string" || got.Text != before {
		t.Errorf("stopped at %q with %q because of %s, want %q", stop, got.Text, got.FinishReason, before)
	}
	if n := len(got.TokenIDs); n >= len(full.TokenIDs) || !slices.Equal(got.TokenIDs, full.TokenIDs[:n]) {
		t.Errorf("tokens %v of %v", got.TokenIDs, full.TokenIDs)
	}
	if streamed := answer(t, "", append(args, "--stop", stop)...).out; streamed != before {
		t.Errorf("streamed %q, want %q", streamed, before)
	}
	// A stop text whose beginning ends the answer is printed after all.
	if got := answer(t, "", append(args, "--stop", full.Text[len(full.Text)-2:]+"#")...).out; got != full.Text {
		t.Errorf("streamed %q, want %q", got, full.Text)
	}
}

// The same text by every way in gives the same ids.
func TestPromptSources(t *testing.T) {
	dir := t.TempDir()
	text := " \n\tNa\u00efve caf\u00e9 \u00e9\u00a0\u3000, 12345 \u65e5\u672c \r\n\r\n "
	write(t, dir+"/prompt", text)
	ids := splitIDs(t, text)
	write(t, dir+"/ids", strings.ReplaceAll(ids, ",", "\n")+"\n")
	write(t, dir+"/list", "["+strings.ReplaceAll(ids, ",", ", ")+"]\n")
	want := asObject(t, "", needle, "-n", "4", "--raw", "-p", text)
	for _, c := range []struct {
		stdin string
		args  []string
	}{
		{"not read", []string{"--raw", "-f", dir + "/prompt"}},
		{text, []string{"--raw"}},
		{text, []string{"--raw", "-p", "-"}},
		{text, []string{"--raw", "-f", "-"}},
		{"not read", []string{"--prompt-ids", ids}},
		{"", []string{"--prompt-ids", "@" + dir + "/ids"}},
		{"", []string{"--prompt-ids", "@" + dir + "/list"}},
		{"", []string{"-no-cnv", "--prompt-file", dir + "/prompt"}},
	} {
		got := asObject(t, c.stdin, append([]string{needle, "-n", "4"}, c.args...)...)
		if !slices.Equal(got.TokenIDs, want.TokenIDs) || got.PromptTokens != want.PromptTokens {
			t.Errorf("%q: %d prompt tokens, answer %v; want %d, %v", c.args, got.PromptTokens, got.TokenIDs, want.PromptTokens, want.TokenIDs)
		}
	}
}

// splitIDs are the ids of a text, as --prompt-ids reads them.
func splitIDs(t *testing.T, text string) string {
	t.Helper()
	var split struct{ IDs []int32 }
	if err := json.Unmarshal([]byte(answer(t, "", "tokenize", needle, "-p", text, "--json").out), &split); err != nil {
		t.Fatal(err)
	}
	return idList(split.IDs)
}

// The template of the checkpoint is used unless the user says otherwise.
func TestTemplate(t *testing.T) {
	dir := t.TempDir()
	tokens := func(args ...string) int {
		return asObject(t, "", append([]string{needle, "-n", "1", "-p", "Hello"}, args...)...).PromptTokens
	}
	plain := strings.Count(splitIDs(t, "Hello"), ",") + 1
	whole := strings.Count(splitIDs(t, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"), ",") + 1
	write(t, dir+"/double.jinja", "{{ messages[0].content }}{{ messages[0].content }}")
	twice := strings.Count(splitIDs(t, "HelloHello"), ",") + 1
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--raw"}, plain},
		{nil, whole},
		{[]string{"--chat-template", dir + "/double.jinja"}, twice},
	} {
		if got := tokens(c.args...); got != c.want {
			t.Errorf("%v: %d tokens, want %d", c.args, got, c.want)
		}
	}
	got := tokens("--system-prompt", "Be brief.")
	if got <= whole || got != tokens("-sys", "Be brief.") {
		t.Errorf("with a system prompt: %d tokens, without %d", got, whole)
	}
}

// The same seed gives the same text, whatever GOMAXPROCS is; other seeds give
// others.
func TestSeeds(t *testing.T) {
	args := []string{needle, "-p", "Tell me a story.", "-n", "16", "--ignore-eos", "--temperature", "1", "--budget", "8"}
	seeded := func(seed string) string { return asObject(t, "", append(args, "--seed", seed)...).Text }
	first := seeded("1")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2} {
		runtime.GOMAXPROCS(procs)
		if again := seeded("1"); again != first {
			t.Errorf("GOMAXPROCS %d: %q, before %q", procs, again, first)
		}
	}
	texts := map[string]bool{first: true}
	for _, seed := range []string{"2", "18446744073709551615"} {
		texts[seeded(seed)] = true
	}
	if len(texts) != 3 {
		t.Errorf("3 seeds gave %d texts", len(texts))
	}
	a, b := asObject(t, "", args...), asObject(t, "", args...)
	if a.Sampling.Seed == b.Sampling.Seed || a.Sampling.Source["seed"] != "random" || *a.Attention.Seed != a.Sampling.Seed {
		t.Errorf("without --seed: %d and %d (%s), attention %d", a.Sampling.Seed, b.Sampling.Seed, a.Sampling.Source["seed"], *a.Attention.Seed)
	}
	if got := asObject(t, "", append(args, "--seed", "1", "--attention-seed", "9")...); *got.Attention.Seed != 9 || got.Sampling.Seed != 1 {
		t.Errorf("--attention-seed 9: %+v", got.Attention)
	}
}

// End tokens are those of config.json, generation_config.json and the
// tokenizer together.
func TestEndTokens(t *testing.T) {
	const prompt = "5,6,7"
	free := asObject(t, "", tiny+"qwen2_tied_gqa", "--prompt-ids", prompt, "-n", "6").TokenIDs
	for file, content := range map[string]string{
		"config.json":            strings.Replace(read(t, tiny+"qwen2_tied_gqa/config.json"), "{", fmt.Sprintf(`{"eos_token_id": %d,`, free[0]), 1),
		"generation_config.json": fmt.Sprintf(`{"eos_token_id": [%d, 511]}`, free[0]),
	} {
		dir := checkpoint(t, "qwen2_tied_gqa")
		write(t, filepath.Join(dir, file), content)
		got := asObject(t, "", dir, "--prompt-ids", prompt, "-n", "6")
		if got.FinishReason != "stop" || len(got.TokenIDs) != 1 || got.TokenIDs[0] != free[0] {
			t.Errorf("%s: %v, %s", file, got.TokenIDs, got.FinishReason)
		}
		if got := asObject(t, "", dir, "--prompt-ids", prompt, "-n", "6", "--ignore-eos"); !slices.Equal(got.TokenIDs, free) {
			t.Errorf("%s: with --ignore-eos %v, want %v", file, got.TokenIDs, free)
		}
	}
}

// An answer ends where the context does, unless its length was asked for.
func TestContextEnds(t *testing.T) {
	got := asObject(t, "", tiny+"qwen2_tied_gqa", "--prompt-ids", "1,2,3", "-c", "8")
	if got.FinishReason != "context" || len(got.TokenIDs) != 5 {
		t.Errorf("%d tokens, %s", len(got.TokenIDs), got.FinishReason)
	}
	if got := asObject(t, "", tiny+"qwen2_tied_gqa", "--prompt-ids", "1,2,3", "-c", "8", "-n", "5"); got.FinishReason != "length" || len(got.TokenIDs) != 5 {
		t.Errorf("%d tokens, %s", len(got.TokenIDs), got.FinishReason)
	}
}
