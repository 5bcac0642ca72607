package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"blitzen/eval"

	"github.com/spf13/pflag"
)

// small is an evaluation of prompts that take milliseconds, unless more says
// otherwise.
func small(more ...string) []string {
	args := []string{"evaluate", needle}
	for _, usual := range [][]string{{"--tasks", "access_2"}, {"--length", "160"}, {"--parents", "contiguous"}, {"--task-seed", "7"}} {
		if !slices.Contains(more, usual[0]) {
			args = append(args, usual...)
		}
	}
	return append(args, more...)
}

func TestEvaluate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.jsonl")
	args := small("--samples", "2", "--parents", "contiguous,kmeans", "--budget", "64,512", "--attention-seeds", "2", "--pairs", "santapp:dense", "-o", file)
	o := answer(t, "", args...)
	for _, row := range []string{"| dense ", "| santapp (contiguous, S 64) ", "| santapp (contiguous, S 512) ", "| santapp (kmeans, S 64) ", "| santapp (kmeans, S 512) "} {
		if strings.Count(o.out, row) != 2-strings.Count(row, "dense") {
			t.Errorf("row %q in\n%s", row, o.out)
		}
	}
	if !strings.Contains(o.errors, "2 of 2 prompts, ") {
		t.Errorf("stderr %q", o.errors)
	}
	r, err := eval.ReadResults(file)
	if err != nil || len(r.Answers) != 2*(1+4*2) || r.Missing() != 0 {
		t.Fatalf("%d answers, %d missing, error %v", len(r.Answers), r.Missing(), err)
	}
	seeds := map[uint64]bool{}
	for _, a := range r.Answers {
		if a.ID == "" || len(a.Expected) != 1 || a.Task != "access_2" || a.PromptTokens > 160 || a.Percent <= 0 {
			t.Errorf("%+v", a)
		}
		seeds[a.Seed] = true
	}
	if len(seeds) != 4 {
		t.Errorf("%d attention seeds for 2 prompts of 2 repeats", len(seeds))
	}
	// All is there: the same again reads no weights and changes nothing.
	before := read(t, file)
	if again := answer(t, "", args...); again.out != o.out || again.errors != file+" has the answers to 2 of 2 prompts\n" || read(t, file) != before {
		t.Errorf("the second run prints\n%s%s", again.out, again.errors)
	}
}

// One prompt, half right, has no interval: in the tables, the pairs and the page.
func TestEvaluateOnePrompt(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/rows.jsonl", `{"input": "What?", "outputs": ["", "no such answer"]}`+"\n")
	args := []string{"evaluate", needle, "--tasks", dir + "/rows.jsonl", "-n", "2", "--budget", "4", "--pairs", "santapp:dense", "-o", dir + "/out"}
	o := answer(t, "", args...)
	for _, row := range []string{`\| dense +\| 0 of 1 +\| 50.0 +\| - +\| 100.0 +\| - +\|`, `\| santapp \(kmeans, S 4\) − dense +\| 0.0 +\| - +\|`} {
		if !regexp.MustCompile(row).MatchString(o.out) {
			t.Errorf("no %s in\n%s", row, o.out)
		}
	}
	answer(t, "", "report", dir+"/out", "-o", dir+"/page.html", "--plot", dir+"/plot.svg")
	if page := read(t, dir+"/page.html"); strings.Contains(page, `class="interval"`) || !strings.Contains(page, "50.0 % (no interval of 1 prompt)") {
		t.Errorf("page\n%s", page)
	}
}

// A run that is killed again and again ends with the file of one that was not.
func TestEvaluateKilled(t *testing.T) {
	dir := t.TempDir()
	args := func(file string) []string {
		return small("--tasks", "access_1", "--length", "90", "--samples", "25", "--budget", "8,16,32", "-n", "3", "-o", filepath.Join(dir, file))
	}
	whole := answer(t, "", args("whole")...)
	want := read(t, dir+"/whole")
	if n := strings.Count(want, "\n"); n != 101 {
		t.Fatalf("%d lines for a header and 100 answers", n)
	}
	rng := rand.New(rand.NewPCG(5, 0))
	path := dir + "/killed"
	for kill := range 5 {
		lines := 20*kill + rng.IntN(15)
		cmd := exec.Command(os.Args[0], args("killed")...)
		cmd.Env = append(os.Environ(), runMain+"=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for written, tries := 0, 0; written <= lines && tries < 60_000; tries++ {
			time.Sleep(time.Millisecond)
			data, _ := os.ReadFile(path)
			written = bytes.Count(data, []byte("\n"))
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if kill == 2 { // a crash of the machine may leave half a line
			write(t, path, read(t, path)+`{"prompt":7,"arm":`)
		}
		if n := strings.Count(read(t, path), "\n"); n >= 101 {
			t.Fatal("the run was done before it was killed")
		}
	}
	if got := answer(t, "", args("killed")...); got.out != whole.out || !strings.HasPrefix(got.errors, path+" has the answers to 2") {
		t.Errorf("tables after kills:\n%s%s\nwithout:\n%s", got.errors, got.out, whole.out)
	}
	if read(t, path) != want {
		t.Error("the file differs from that of an undisturbed run")
	}
}

// Ctrl-C says what is kept and how to go on, and loses nothing.
func TestEvaluateInterrupted(t *testing.T) {
	dir := t.TempDir()
	path, rows := dir+"/answers", dir+"/rows.jsonl"
	long := strings.Repeat("long ", 400)
	write(t, rows, `{"input": "What?", "outputs": ["x"]}`+"\n"+`{"input": "`+long+`", "outputs": ["x"]}`+"\n"+`{"input": "And this?", "outputs": ["x"]}`+"\n")
	args := []string{"evaluate", needle, "--tasks", rows, "--limit", "100", "--skip-bad", "--parents", "contiguous", "--budget", "8,16", "-n", "2"}
	kept := append(slices.Clone(args), "-o", path)
	interrupt := func(args []string) (string, int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stderr := &writer{then: func() error { cancel(); return nil }} // with the line about the second row
		code := run(ctx, args, strings.NewReader(""), io.Discard, stderr)
		return string(stderr.got), code
	}
	said, code := interrupt(kept)
	if code != 130 || !strings.HasSuffix(said, "interrupted: "+path+" has 6 of 9 answers: the same command goes on there, and generate evaluate --merge prints the figures so far\n") {
		t.Errorf("exit code %d, %s", code, said)
	}
	if n := strings.Count(read(t, path), "\n"); n != 5 {
		t.Errorf("%d lines for a header, 3 answers and a row skipped", n)
	}
	whole := answer(t, "", args...)
	if again := answer(t, "", kept...); again.out != whole.out || !strings.HasPrefix(again.errors, path+" has the answers to 2 of 3 prompts\n") {
		t.Errorf("goes on with\n%s%s", again.errors, again.out)
	}
	said, code = interrupt(args)
	if code != 130 || !strings.HasSuffix(said, "interrupted: 6 of 9 answers made, none is kept: --output FILE keeps them, and a run goes on there\n") {
		t.Errorf("exit code %d, %s", code, said)
	}
}

// Two shards merged are one run, in the tables and byte for byte in the file.
func TestEvaluateShards(t *testing.T) {
	dir := t.TempDir()
	args := func(file string, more ...string) []string {
		return small(append([]string{"--tasks", "access_2,niah_single_1", "--length", "450,500", "--answer-prefix", "both", "--samples", "2", "--budget", "16", "-n", "4", "-o", dir + "/" + file}, more...)...)
	}
	whole := answer(t, "", args("whole")...)
	answer(t, "", args("a", "--shard", "0/2")...)
	answer(t, "", args("b", "--shard", "1/2")...)
	merged := answer(t, "", "evaluate", "--merge", dir+"/b", dir+"/a", "-o", dir+"/merged")
	if merged.out != whole.out || merged.errors != "wrote "+dir+"/merged\n" {
		t.Errorf("merged:\n%s%s\none run:\n%s", merged.out, merged.errors, whole.out)
	}
	if read(t, dir+"/merged") != read(t, dir+"/whole") {
		t.Error("the merged file differs from that of one run")
	}
	half := answer(t, "", "evaluate", "--merge", dir+"/a")
	if !strings.Contains(half.errors, "12 answers missing: ") {
		t.Errorf("half a run: %q", half.errors)
	}
	if o := generate(t, "", "evaluate", "--merge", dir+"/a", dir+"/b", "-o", dir+"/whole"); o.code != 2 || !strings.Contains(o.errors, "--output: open ") {
		t.Errorf("an old file is overwritten: %d, %s", o.code, o.errors)
	}
}

// A file of other settings is refused, with what differs, and left alone.
func TestEvaluateOtherSettings(t *testing.T) {
	path := t.TempDir() + "/answers"
	args := func(more ...string) []string {
		return small(append([]string{"--samples", "1", "--attention", "dense", "-n", "2", "-o", path}, more...)...)
	}
	if o := answer(t, "", args()...); !strings.Contains(o.errors, "1 of 1 prompt, ") {
		t.Errorf("stderr %q", o.errors)
	}
	before := read(t, path)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--task-seed", "8"}, "it holds answers of another run; --task-seed differs: 8, and 7 there: name another file, or ask for the same"},
		{[]string{"--raw"}, "; template differs: "},
		{[]string{"--parent-size", "8"}, `; attention flags differs: {"parent-size":"8"}, and not set there: `},
		{[]string{"--samples", "2"}, "; the number of prompts differs: 2, and 1 there: "},
		{[]string{"--attention", "santapp"}, "; attention differs: "},
		{[]string{"--shard", "1/2"}, "it holds shard 0/1, and this is 1/2: name another file"},
	} {
		if o := generate(t, "", args(c.args...)...); o.code != 2 || !strings.Contains(o.errors, c.want) || read(t, path) != before {
			t.Errorf("%v: exit code %d, %s", c.args, o.code, o.errors)
		}
	}
	changed := strings.Replace(before, `"hash":"`, `"hash":"0`, 1)
	write(t, path, changed)
	if o := generate(t, "", args()...); o.code != 2 || !strings.Contains(o.errors, "; the hash of the model's weights differs: ") || read(t, path) != changed {
		t.Errorf("another model: exit code %d, %s", o.code, o.errors)
	}
}

// Every flag of attention decides an arm, or is remembered beside the arms: a
// new one must be told apart in results files, too.
func TestEvaluateRemembersAttention(t *testing.T) {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	new(attentionFlags).registerTeams(f, "0")
	remembered := append([]string{"budget", "parents", "cluster", "block", "draw", "attention-seed"}, commonSizes...)
	f.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(remembered, f.Name) {
			t.Errorf("a results file does not know --%s", f.Name)
		}
	})
	for name, value := range map[string]string{"parent-size": "8", "representatives": "2", "min-context": "10", "dense-layers": "0", "reps": "fp8"} {
		f := newEvaluateCommand().Flags()
		if err := f.Set(name, value); err != nil {
			t.Fatal(err)
		}
		if got := commonAttention(f); len(got) != 1 || got[name] != value {
			t.Errorf("--%s %s is remembered as %v", name, value, got)
		}
	}
}

// Rows of a file: bad ones are named by line, and left out only when asked.
func TestEvaluateFile(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/rows.jsonl"
	row := func(task, input string) string {
		line, _ := json.Marshal(map[string]any{"task": task, "input": input, "outputs": []string{"x"}, "answer_prefix": " It", "scorer": "string_match_part", "max_tokens": 3})
		return string(line) + "\n"
	}
	write(t, path, row("one", "What is it?")+"{\"input\": 3}\n"+row("two", strings.Repeat("long ", 400))+row("two", "And this?"))
	args := []string{"evaluate", needle, "--tasks", path, "--limit", "100", "--attention", "dense", "-o", dir + "/out"}
	o := generate(t, "", args...)
	if o.code != 2 || !strings.Contains(o.errors, "rows.jsonl: line 2: \"input\" is of type number: want a string: mend the row, or leave such rows out with --skip-bad\n") {
		t.Errorf("exit code %d, %s", o.code, o.errors)
	}
	o = answer(t, "", append(args, "--skip-bad")...)
	for _, named := range []string{"rows.jsonl: line 2: \"input\" is ", "rows.jsonl: line 3: the row cannot be put: the prompt has "} {
		if !strings.Contains(o.errors, named) {
			t.Errorf("no %q in %s", named, o.errors)
		}
	}
	if !strings.Contains(o.out, "\n1 prompt skipped\n") || !strings.Contains(o.out, "mean of 2 tasks (one, two), 100 tokens, with answer prefix, 2 prompts") {
		t.Errorf("printed\n%s", o.out)
	}
	if again := answer(t, "", append(args, "--skip-bad")...); again.out != o.out {
		t.Errorf("again:\n%s", again.out)
	}
	o = answer(t, "", append(args, "--skip-bad", "--truncate", "middle", "-o", dir+"/cut", "--answer-prefix", "both")...)
	if strings.Contains(o.errors, "line 3") || !strings.Contains(o.out, "100 tokens, without answer prefix, 3 prompts") {
		t.Errorf("cut in the middle:\n%s%s", o.errors, o.out)
	}
	r, err := eval.ReadResults(dir + "/cut")
	if err != nil || len(r.Answers) != 6 || slices.ContainsFunc(r.Answers, func(a eval.Answer) bool { return a.PromptTokens > 100 || a.Tokens > 3 }) {
		t.Errorf("%d answers, error %v: %+v", len(r.Answers), err, r.Answers)
	}
	if long := r.Answers[2].PromptTokens; long < 95 {
		t.Errorf("%d tokens are left of a limit of 100", long)
	}
}

// An answer ends before a row's stop string, in evaluate, compare and on the way
// that others follow.
func TestEvaluateStop(t *testing.T) {
	dir := t.TempDir()
	const input = `"input": "The access code of recipe-council is 1117335.\nQuestion: What is the access code of recipe-council?", "outputs": ["1117335"]`
	write(t, dir+"/rows.jsonl", `{`+input+`}`+"\n"+`{`+input+`, "stop": [" code", "1117335"]}`+"\n")
	answer(t, "", "evaluate", needle, "--tasks", dir+"/rows.jsonl", "--attention", "dense", "--divergence", "-o", dir+"/out")
	r, err := eval.ReadResults(dir + "/out")
	if err != nil || len(r.Answers) != 2 {
		t.Fatalf("%d answers, error %v", len(r.Answers), err)
	}
	whole, cut := r.Answers[0], r.Answers[1]
	if !strings.Contains(whole.Text, " code") || whole.Score != 1 || whole.Divergence.Steps != whole.Tokens {
		t.Fatalf("without stop strings: %+v", whole)
	}
	if before, _, _ := strings.Cut(whole.Text, " code"); cut.Text != before || cut.Score != 0 || cut.Finish != "stop_string" || cut.Tokens >= whole.Tokens || cut.Divergence.Steps != cut.Tokens {
		t.Errorf("with them: %+v", cut)
	}
	o := answer(t, "", "compare", needle, "--task", dir+"/rows.jsonl", "--row", "1", "--b", "dense", "--control=false", "--json")
	if !strings.Contains(o.out, fmt.Sprintf(`"text":%q,`, cut.Text)) {
		t.Errorf("compare: %s", o.out)
	}
}

// Along exact attention's answer, exact attention and a budget over all teams
// are no way apart; a small budget is.
func TestEvaluateDivergence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	o := answer(t, "", small("--samples", "2", "--budget", "4,4096", "-n", "6", "--divergence", "-o", file)...)
	if !strings.Contains(o.out, "Mean KLD") || !strings.Contains(o.out, "Same top p %") {
		t.Errorf("printed\n%s", o.out)
	}
	r, err := eval.ReadResults(file)
	if err != nil || len(r.Answers) != 6 {
		t.Fatalf("%d answers, error %v", len(r.Answers), err)
	}
	for _, a := range r.Answers {
		d := a.Divergence
		switch {
		case d == nil || d.Steps != 6:
			t.Fatalf("%s: %+v", a.Label, d)
		case a.Label == "santapp (contiguous, S 4)":
			if d.KL <= 0 || d.Max <= 0 || d.Max > d.KL {
				t.Errorf("%s: %+v", a.Label, d)
			}
		case d.KL != 0 || d.Max != 0 || d.Same != 6:
			t.Errorf("%s: %+v", a.Label, d)
		}
	}
}
