package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"blitzen/eval"
)

func TestCompare(t *testing.T) {
	args := []string{"compare", needle, "--length", "200", "--codes", "2"}
	o := answer(t, "", args...)
	for _, text := range []string{
		"expected  The access code of ", "dense\n  The access code of ", "santapp (kmeans, S 512)\n", "correct", "KV access %", "The two answers are the same.\nsantapp (kmeans, S 512) read every row, as dense does; ",
		"± over tokens", "Mean PPL(Q)/PPL(base) ", "Mean KLD ", "Maximum KLD ", "99.9% KLD ", "Median KLD ", "Mean Δp ", "RMS Δp ", "Same top p ",
		"RMS logit error ", "First differing token ", "Token match rate ", "Attention output error, layer 5 ", "\nNoise floor, dense against dense ",
	} {
		if !strings.Contains(o.out, text) {
			t.Errorf("no %q in\n%s", text, o.out)
		}
	}
	for _, text := range []string{"loaded ", "read the prompt, ", "2 access codes", "built teams", "decoded ", "compared along ", "control: "} {
		if !strings.Contains(o.errors, text) {
			t.Errorf("no %q in\n%s", text, o.errors)
		}
	}
	// The prompt of the user, sampled twice and hard enough to differ.
	o = answer(t, "", "compare", needle, "-p", "Tell me a story about a fox that lives in a forest far away.", "--raw", "--a", "dense", "--b", "santapp",
		"--budget", "1", "--parent-size", "1", "--representatives", "1", "-n", "30", "--seeds", "2", "--control=false")
	if strings.Contains(o.out, "expected") || !strings.Contains(o.out, "The two answers differ") || !strings.Contains(o.out, "2 seeds, mean ± s.e.") || strings.Contains(o.out, "Noise floor") {
		t.Errorf("own prompt:\n%s", o.out)
	}
}

// Ten tokens or fewer give no standard error, but for that of a share.
func TestCompareFewTokens(t *testing.T) {
	for n, want := range map[string]string{
		"10": `(?m)^Mean KLD +[0-9.e-]+$`,
		"11": `(?m)^Mean KLD +[0-9.e-]+ ± [0-9.e-]+$`,
	} {
		out := answer(t, "", "compare", needle, "-p", "A story.", "-n", n, "--ignore-eos", "--control=false").out
		if !regexp.MustCompile(want).MatchString(out) || !regexp.MustCompile(`(?m)^Same top p +100.000 ± 0.000 %$`).MatchString(out) {
			t.Errorf("%s tokens:\n%s", n, out)
		}
	}
}

// A comparison says before it begins that there will be nothing to see.
func TestCompareAlike(t *testing.T) {
	args := []string{"compare", tiny + "qwen2_tied_gqa", "--prompt-ids", "3,1,4,1,5,9,2,6", "-n", "2", "--ignore-eos", "--control=false"}
	for _, c := range []struct{ args, want string }{
		{"--a dense --b dense", "--a and --b are both dense, with the same settings: no difference is to be expected\n"},
		{"--a santapp --b santapp --budget 4", "--a and --b are both santapp (kmeans, S 4), with the same settings: no difference is to be expected\n"},
		{"--a santapp --b santapp --budget 4 --seeds 2 --attention-seed 7", "--a and --b are both santapp (kmeans, S 4): with attention seed 7, the base's own, no difference is to be expected; the other seeds draw anew\n"},
		{"--a santapp --b dense --seeds 2", "--seeds is not used: dense draws nothing\n"},
		{"--a dense --b santapp --seeds 2", "loaded "},
	} {
		if o := answer(t, "", append(args, strings.Fields(c.args)...)...); !strings.HasPrefix(o.errors, c.want) {
			t.Errorf("%s: stderr\n%s", c.args, o.errors)
		}
	}
}

// A task's prompt is the one that evaluate puts, and is scored as there.
func TestCompareTask(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/two.jsonl", `{"input": "What?", "outputs": ["x"]}`+"\n"+`{"input": "And this?", "outputs": ["", "e"], "answer_prefix": " So", "max_tokens": 3}`+"\n")
	for i, task := range [][]string{{"niah_single_1", "-n", "4"}, {dir + "/two.jsonl"}} {
		path := fmt.Sprintf("%s/out%d", dir, i)
		answer(t, "", append([]string{"evaluate", needle, "--length", "450", "--samples", "2", "--attention", "dense", "-o", path, "--tasks"}, task...)...)
		r, err := eval.ReadResults(path)
		if err != nil || len(r.Answers) != 2 {
			t.Fatalf("%d answers, error %v", len(r.Answers), err)
		}
		var c struct {
			Prompt struct {
				ID     string
				Tokens int
			}
			A struct {
				Text  string
				Exact bool
			}
		}
		out := answer(t, "", append([]string{"compare", needle, "--length", "450", "--row", "1", "--b", "dense", "--control=false", "--json", "--task"}, task...)...).out
		if err := json.Unmarshal([]byte(out), &c); err != nil {
			t.Fatal(err)
		}
		want := r.Answers[1]
		if c.Prompt.ID != want.ID || c.Prompt.Tokens != want.PromptTokens || c.A.Text != want.Text || c.A.Exact != (want.Score == 1) {
			t.Errorf("%v: %+v, want %+v", task, c, want)
		}
	}
	// A variable about tasks means nothing to a prompt of the user's.
	t.Setenv("GENERATE_ROW", "1")
	answer(t, "", "compare", needle, "-p", "Hello", "-n", "1", "--control=false")
}

// contrast is a comparison's JSON object as its readers see it.
type contrast struct {
	A, B struct {
		TokenIDs     []int32 `json:"token_ids"`
		FinishReason string  `json:"finish_reason"`
		Attention    struct{ Seed *uint64 }
	}
	Seeds []struct {
		Seed         uint64
		MatchRate    float64 `json:"token_id_match_rate"`
		FirstDiffers *int    `json:"first_differing_token"`
		Access       float64 `json:"access_percent"`
		Divergence   summary
		OutputErrors []float64 `json:"attention_output_errors"`
		Tokens       []struct{ KLD float64 }
	}
	OverSeeds *struct {
		MeanKLD      estimated   `json:"mean_kld"`
		OutputErrors []estimated `json:"attention_output_errors"`
	} `json:"over_seeds"`
	Control *struct {
		Chunk      int
		Divergence summary
	}
}

type estimated struct{ Value, Error float64 }

type summary struct {
	Steps   int
	MeanKLD estimated `json:"mean_kld"`
	KLD     struct{ Maximum float64 }
	SameTop estimated `json:"same_top_p"`
}

func compare(t *testing.T, args ...string) contrast {
	t.Helper()
	o := answer(t, "", append([]string{"compare", "--json"}, args...)...)
	var c contrast
	if err := json.Unmarshal([]byte(o.out), &c); err != nil || strings.Count(o.out, "\n") != 1 {
		t.Fatalf("%v in %q", err, o.out)
	}
	return c
}

// A budget over all teams is identical, and the control stays at the noise of
// float32 (eval/comparison derives the bound), for both kinds of cache.
func TestCompareFloor(t *testing.T) {
	for _, model := range []string{"qwen2_tied_gqa", "dsv2_lite"} {
		args := []string{tiny + model, "--prompt-ids", "3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3,2,3,8,4,6,2,6,4,3,3,8,3,2,7,9,5", "-n", "12", "--ignore-eos"}
		c := compare(t, append(args, "--budget", "4096")...)
		one := c.Seeds[0]
		if one.Divergence.KLD.Maximum != 0 || one.MatchRate != 1 || one.FirstDiffers != nil || one.Access != 100 || slices.Max(one.OutputErrors) != 0 || one.Divergence.Steps != 12 {
			t.Errorf("%s: all teams: %+v", model, one)
		}
		if c.Control == nil || c.Control.Divergence.KLD.Maximum > 1e-6 || c.Control.Divergence.SameTop.Value != 1 || c.Control.Chunk >= 32 {
			t.Errorf("%s: control %+v", model, c.Control)
		}
		few := compare(t, append(args, "--budget", "4", "--control=false")...)
		if few.Seeds[0].Divergence.MeanKLD.Value < 1e-5 || slices.Min(few.Seeds[0].OutputErrors) < 1e-3 || few.Control != nil {
			t.Errorf("%s: one team: %+v", model, few.Seeds[0])
		}
	}
}

// Every seed is a run of its own; the first is that of --seeds 1.
func TestCompareSeeds(t *testing.T) {
	args := []string{tiny + "qwen2_tied_gqa", "--prompt-ids", "3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3", "-n", "6", "--ignore-eos", "--budget", "4", "--attention-seed", "7"}
	c := compare(t, append(args, "--seeds", "3")...)
	one := compare(t, args...)
	if len(c.Seeds) != 3 || c.Seeds[2].Seed != 9 || *c.B.Attention.Seed != 7 || c.OverSeeds == nil || one.OverSeeds != nil {
		t.Fatalf("%+v", c)
	}
	if a, b := c.Seeds[0], one.Seeds[0]; a.Divergence != b.Divergence || a.Divergence == c.Seeds[1].Divergence || len(a.Tokens) != 6 {
		t.Errorf("first seed %+v, alone %+v, second %+v", a, b, c.Seeds[1])
	}
	sum, squares := 0.0, 0.0
	for _, s := range c.Seeds {
		v := s.Divergence.MeanKLD.Value
		sum, squares = sum+v/3, squares+v*v
	}
	got := c.OverSeeds.MeanKLD
	if want := math.Sqrt((squares - 3*sum*sum) / 2 / 3); math.Abs(got.Value-sum) > 1e-12 || math.Abs(got.Error-want) > 1e-9 {
		t.Errorf("over seeds %+v, want %v ± %v", got, sum, want)
	}
	if len(c.OverSeeds.OutputErrors) != len(c.Seeds[0].OutputErrors) {
		t.Errorf("%d layers", len(c.OverSeeds.OutputErrors))
	}
	// Exact attention draws nothing, and either method may be the base.
	swapped := compare(t, append(args, "--a", "santapp", "--b", "dense", "--seeds", "3")...)
	if len(swapped.Seeds) != 1 || !slices.Equal(swapped.A.TokenIDs, c.B.TokenIDs) || !slices.Equal(swapped.B.TokenIDs, c.A.TokenIDs) || swapped.Control == nil {
		t.Errorf("%+v", swapped)
	}
}

// While a comparison runs nothing lies beside its page, which a program that is
// ended would leave; and where the page cannot be written in the end, the figures
// are printed all the same.
func TestCompareReportIsLost(t *testing.T) {
	dir := t.TempDir() + "/pages"
	write(t, dir+"/old.html", "")
	var stdout bytes.Buffer
	stderr := &writer{then: func() error {
		if left, err := os.ReadDir(dir); err == nil && len(left) != 1 {
			t.Errorf("while it runs there are %v", left)
		}
		return os.RemoveAll(dir)
	}}
	code := run(t.Context(), []string{"compare", tiny + "qwen2_tied_gqa", "--prompt-ids", "1,2,3", "-n", "2", "--control=false", "--report", dir + "/page.html"},
		strings.NewReader(""), &stdout, stderr)
	if code != 1 || !strings.Contains(stdout.String(), "Mean KLD") || !strings.Contains(string(stderr.got), "\ngenerate: --report: open "+dir+"/.page.html-") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.got)
	}
}

// --report leaves a whole page, and nothing where it cannot be made.
func TestCompareReport(t *testing.T) {
	dir := t.TempDir()
	page := dir + "/page.html"
	args := []string{"compare", needle, "--length", "200", "--codes", "2", "-n", "4", "--control=false", "--budget", "16", "--report"}
	if o := answer(t, "", append(args, page)...); !strings.HasSuffix(o.errors, "\nwrote "+page+"\n") {
		t.Errorf("stderr %q", o.errors)
	}
	got := read(t, page)
	for _, text := range []string{"<h1>dense and santapp (kmeans, S 16)</h1>", "The access code of", `id="kl"`, `id="map"`, `"reads":"`, "attention on rows read %", "</html>"} {
		if !strings.Contains(got, text) {
			t.Errorf("no %q in the page", text)
		}
	}
	write(t, page, "as it was")
	refused(t, generate(t, "", append(args, dir+"/none/page.html")...), 2, dir, "--report: open DIR/none: no such folder")
	refused(t, generate(t, "", append(args, dir)...), 2, dir, "--report: DIR is not a regular file")
	if o := generate(t, "", append(args, page, "--prompt-ids", "99999999")...); o.code != 2 || read(t, page) != "as it was" {
		t.Errorf("exit code %d, the page holds %q", o.code, read(t, page))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v: %v", err, left)
	}
}
