package main

import (
	"fmt"

	"blitzen/eval"

	"github.com/spf13/pflag"
)

// taskFlags name the prompts of an evaluation.
type taskFlags struct {
	task   string
	length int
	codes  int
	seed   uint64
}

func (t *taskFlags) register(f *pflag.FlagSet) {
	f.StringVar(&t.task, "task", "access-codes", "what is asked: access-codes")
	f.IntVar(&t.length, "length", 4096, "most tokens of a prompt, chat template included")
	f.IntVar(&t.codes, "codes", 8, "access codes in a prompt: 8 are few, 40 are dense keys")
	f.Uint64Var(&t.seed, "task-seed", 1, "chooses the prompts")
}

// question is one prompt of a task, ready for a model.
type question struct {
	eval.Row
	ids []int32
}

// row makes prompt i for a model: the row's text as the user's message in the
// checkpoint's chat template.
func (t *taskFlags) row(o *opened, f *pflag.FlagSet, i int) (question, error) {
	if t.task != "access-codes" {
		return question{}, usagef("--task %q: want access-codes", t.task)
	}
	if t.length > o.Config.MaxPositions {
		return question{}, usagef("--length %d: the model's limit is %d tokens", t.length, o.Config.MaxPositions)
	}
	if err := o.needTokenizer(); err != nil {
		return question{}, err
	}
	var ids []int32
	encode := func(text string) (int, error) {
		var err error
		ids, _, err = (&promptFlags{}).encodeText(f, o.Tokenizer, o.Name, text)
		return len(ids), err
	}
	row, err := eval.AccessCodes{Tokens: t.length, Codes: t.codes, Seed: t.seed}.Row(i, encode)
	if err != nil {
		return question{}, usageError{err}
	}
	if _, err := encode(row.Input); err != nil {
		return question{}, err
	}
	return question{row, ids}, nil
}

// describe says where a prompt came from.
func (t *taskFlags) describe(q question) string {
	return fmt.Sprintf("%d tokens with %d access codes (task seed %d, row %d)", len(q.ids), q.Codes, t.seed, q.Index)
}
