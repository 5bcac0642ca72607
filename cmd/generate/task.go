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
	f.StringVar(&t.task, "task", "access-codes", "ask for `NAME`: access-codes")
	f.IntVar(&t.length, "length", 4096, "at most `N` tokens, chat template included")
	f.IntVar(&t.codes, "codes", 8, "`N` access codes in a prompt; 8 are few, 40 many")
	f.Uint64Var(&t.seed, "task-seed", 1, "seed `N` of the prompts")
}

// question is one prompt of a task, ready for a model.
type question struct {
	eval.Row
	ids []int32
}

// check refuses an unknown task before a model is loaded.
func (t *taskFlags) check() error {
	if t.task != "access-codes" {
		return usagef("--task %q: want access-codes", t.task)
	}
	return nil
}

// row makes prompt i for a model, its text encoded as p says.
func (t *taskFlags) row(o *opened, f *pflag.FlagSet, p *promptFlags, i int) (question, error) {
	if t.length > o.Config.MaxPositions {
		return question{}, usagef("--length %d: the model's limit is %d tokens", t.length, o.Config.MaxPositions)
	}
	if err := o.needTokenizer(); err != nil {
		return question{}, err
	}
	var ids []int32
	encode := func(text string) (int, error) {
		var err error
		ids, _, err = p.encodeText(f, o.Tokenizer, o.Name, text)
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
