package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"blitzen/eval"
	"blitzen/model"
)

// A prompt as long as the model reads leaves room for its answer; one that does
// not, as it stands in a file, is told of.
func TestEvaluateLeavesRoom(t *testing.T) {
	const limit = 512
	dir := t.TempDir()
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"} {
		write(t, dir+"/"+name, read(t, needle+"/"+name))
	}
	weights, err := filepath.Abs(needle + "/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(weights, dir+"/model.safetensors"); err != nil {
		t.Fatal(err)
	}
	setField(t, dir, "max_position_embeddings", limit)
	line := func(words, tokens int) string {
		row, _ := json.Marshal(map[string]any{
			"input":   "The access code of recipe-council is 1117335." + strings.Repeat(" one", words) + "\nQuestion: What is the access code of recipe-council?",
			"outputs": []string{"1117335"}, "max_tokens": tokens,
		})
		return string(row) + "\n"
	}
	write(t, dir+"/long.jsonl", line(1000, 40))
	write(t, dir+"/full.jsonl", line(limit-63, 40))
	for i, c := range []struct {
		args []string
		room int // for the answer
	}{
		{[]string{"access_2", "--length", "512", "--samples", "5"}, defaultAnswer},
		{[]string{"access_2", "--length", "512", "--samples", "5", "-n", "30"}, 30},
		{[]string{dir + "/long.jsonl", "--truncate", "middle"}, 40},
		{[]string{dir + "/long.jsonl", "--truncate", "middle", "--limit", "500"}, 40},
	} {
		path := fmt.Sprint(dir, "/out", i)
		o := answer(t, "", append([]string{"evaluate", dir, "--attention", "dense", "-o", path, "--tasks"}, c.args...)...)
		r, err := eval.ReadResults(path)
		if err != nil || len(r.Answers) == 0 || strings.Contains(o.out, "the model's limit") {
			t.Fatalf("%v: %d answers, error %v:\n%s", c.args, len(r.Answers), err, o.out)
		}
		for _, a := range r.Answers {
			if a.PromptTokens > limit-c.room || a.PromptTokens < limit-c.room-60 || a.Finish == "context" {
				t.Errorf("%v: %d tokens, then %d: %s", c.args, a.PromptTokens, a.Tokens, a.Finish)
			}
		}
	}
	if o := answer(t, "", "evaluate", dir, "--attention", "dense", "--tasks", dir+"/full.jsonl"); !strings.Contains(o.out, "\n1 answer cut off at the model's limit of tokens\n") {
		t.Errorf("printed\n%s", o.out)
	}
}

// Lengths near the largest number do not overflow, and a shard without prompts
// says so.
func TestEvaluateHuge(t *testing.T) {
	path := t.TempDir() + "/rows.jsonl"
	write(t, path, `{"input": "What is it?", "outputs": ["x"], "max_tokens": 9223372036854775807}`+"\n")
	args := []string{"evaluate", needle, "--tasks", path, "--attention", "dense", "--limit", "9223372036854775807", "-n", "2"}
	if o := answer(t, "", args...); !strings.Contains(o.out, "rows, 9223372036854775807 tokens, 1 prompt\n") {
		t.Errorf("printed\n%s", o.out)
	}
	if o := answer(t, "", append(args, "--shard", "3/9")...); o.errors != "--shard 3/9: the run has 1 prompt, none in this shard\n" {
		t.Errorf("stderr %q", o.errors)
	}
}

// What is cut is the middle.
func TestCutMiddle(t *testing.T) {
	var words []string
	for i := range 300 {
		words = append(words, fmt.Sprint("w", i))
	}
	o := &opened{Name: needle}
	var err error
	if o.Tokenizer, err = openTokenizer(needle); err != nil {
		t.Fatal(err)
	}
	defer o.Tokenizer.Close()
	p := &promptPlan{encode: encoder{flags: newEvaluateCommand().Flags(), opened: o, cuts: true}}
	row := eval.Row{Input: strings.Join(words, " "), AnswerPrefix: " So"}
	whole, err := p.encode.ids(row.Input, row.AnswerPrefix)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := p.cutMiddle(row, 200, len(whole))
	if err != nil || len(ids) > 200 || len(ids) < 195 {
		t.Fatalf("%d tokens, error %v", len(ids), err)
	}
	text, err := o.Tokenizer.Decode(ids, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"w0 w1 ", " w298 w299", " So"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
	if strings.Contains(text, "w150") {
		t.Error("the middle is there")
	}
	if _, err := p.cutMiddle(row, 5, len(whole)); err == nil {
		t.Error("a limit below the chat template's tokens is kept")
	}
}

// Without a chat template the rows are those of the original scripts.
func TestPlanOriginalRows(t *testing.T) {
	o := &opened{Name: needle, loaded: &loaded{plan: plan{Config: model.Config{MaxPositions: 32768}}}}
	var err error
	if o.Tokenizer, err = openTokenizer(needle); err != nil {
		t.Fatal(err)
	}
	defer o.Tokenizer.Close()
	cmd := newEvaluateCommand()
	s := sourceFlags{tasks: "niah_single_1", lengths: "1024", perTask: 2, taskSeed: 42, prefix: "both"}
	p, err := s.plan(cmd, o, &promptFlags{raw: true}, 0)
	if err != nil || p.prompts != 4 || p.context != 1024+128 {
		t.Fatalf("%d prompts of %d tokens with their answers, error %v", p.prompts, p.context, err)
	}
	if short, err := s.plan(cmd, o, &promptFlags{raw: true}, 16); err != nil || short.context != 1024+16 {
		t.Errorf("with answers of 16: %d tokens, error %v", short.context, err)
	}
	file, err := os.Open("../../testdata/ruler/examples.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	originals, err := eval.ReadRows(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		q, err := p.question(n)
		if err != nil {
			t.Fatal(err)
		}
		original := originals[n/2]
		if q.Input != original.Input || q.Length != original.Length || q.maxTokens != 128 || (q.prefix == eval.WithPrefix) != (q.AnswerPrefix == original.AnswerPrefix) {
			t.Errorf("prompt %d, %s: %d tokens, %q", n, q.prefix, q.Length, q.Input)
		}
		if want := original.Length - 128; q.prefix == eval.WithPrefix && len(q.ids) != want || q.prefix == eval.WithoutPrefix && len(q.ids) >= want {
			t.Errorf("prompt %d, %s: %d tokens of %d", n, q.prefix, len(q.ids), want)
		}
	}
}
