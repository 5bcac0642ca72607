package main

import (
	"strings"
	"testing"

	"blitzen/device"
)

// Settings on the command line that mean nothing to the methods asked for, or to
// the model, are named once on stderr; those of a variable are not.
func TestUnusedSettings(t *testing.T) {
	ids := []string{"--prompt-ids", "1,2,3", "-n", "1"}
	qwen, latent := tiny+"qwen2_tied_gqa", tiny+"dsv2_lite"
	rows := t.TempDir() + "/rows.jsonl"
	write(t, rows, `{"input": "What?", "outputs": ["x"]}`+"\n")
	const noLatent = "--cluster is not used: it is for latent caches (DeepSeek-V2), and this model has none\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(ids, qwen, "--attention", "dense", "--budget", "64", "--parents", "contiguous"), "dense attention does not use --budget, --parents\n"},
		{append(ids, qwen, "--attention", "dense", "--revision", "v1"), "--revision is not used: " + qwen + " is a folder\n"},
		{append(ids, qwen, "--budget", "64", "--representatives", "2", "--reps", "fp8", "--dense-layers", "0"), ""},
		{append(ids, qwen, "--draw", "systematic", "--block", "4"), "santapp attention does not use --draw, --block\n"},
		{append(ids, qwen, "--attention", "oracle", "--reps", "fp8", "--attention-seed", "1"), "oracle attention does not use --reps\n"},
		{append(ids, qwen, "--attention", "santa", "--draw", "systematic", "--parent-size", "8"), "santa attention does not use --parent-size\n"},
		{append(ids, qwen, "--attention", "centroid", "--block", "4", "--budget", "4"), ""},
		{append(ids, qwen, "--cluster", "row"), noLatent},
		{append(ids, qwen, "--attention", "dense", "--cluster", "row"), "dense attention does not use --cluster\n"},
		{append(ids, latent, "--cluster", "row"), ""},
		{append(ids, "compare", qwen, "--control=false", "--budget", "4", "--draw", "systematic"), "none of dense, santapp uses --draw\n"},
		{[]string{"bench", qwen, "-p", "8", "-n", "1", "-r", "1", "--attention", "dense,santa", "--budget", "4", "--parents", "contiguous"}, "none of dense, santa uses --parents\n"},
		{append(ids, qwen, "--top-p", "0.5", "--temperature", "0", "--min-p", "0.1"), "a greedy choice of tokens does not use --top-p, --min-p\n"},
		{append(ids, qwen, "--top-p", "0.5"), ""},
		{[]string{"diagnose", needle, "--tasks", "access_1", "--length", "90", "--samples", "1", "-n", "1", "--parents", "", "--block", "16"}, ""},
		{append(small(), "--samples", "1", "-n", "1", "--attention", "dense", "--truncate", "middle", "--answer-prefix", "both"),
			"dense attention does not use --parents\nnot used, for want of a file of rows: --truncate\nnot used, since no prompt has a prefix: --answer-prefix\n"},
		{[]string{"compare", needle, "--task", rows, "--length", "200", "--task-seed", "3", "-n", "1", "--b", "dense", "--control=false"}, "not used, since prompts are rows of a file: --length, --task-seed\n"},
		{append(small(), "--samples", "1", "-n", "1", "--attention", "dense", "--attention-seeds", "3"), "dense attention does not use --parents, --attention-seeds\n"},
	} {
		o := answer(t, "", c.args...)
		var notes strings.Builder
		for line := range strings.Lines(o.errors) {
			if strings.Contains(line, " use") {
				notes.WriteString(line)
			}
		}
		if notes.String() != c.want {
			t.Errorf("%v: %q, want %q", c.args, notes.String(), c.want)
		}
	}
	// A GPU, as far as it is told apart.
	var gpu opened
	gpu.loaded = &loaded{Device: struct{ device.Profiler }{}}
	var said strings.Builder
	f := newGenerateCommand().Flags()
	if err := f.Parse([]string{"-t", "2", "--products", "gomlx"}); err != nil {
		t.Fatal(err)
	}
	if gpu.noteUnused(&said, f, attentionFlags{name: "dense"}); said.String() != "a GPU does not use --threads, --products\n" {
		t.Errorf("on a GPU: %q", said.String())
	}
	t.Setenv("GENERATE_BUDGET", "64")
	if o := answer(t, "", append(ids, qwen, "--attention", "dense")...); o.errors != "" {
		t.Errorf("a variable: %q", o.errors)
	}
}
