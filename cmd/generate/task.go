package main

import (
	"fmt"
	"strconv"
	"strings"

	"blitzen/eval"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// taskFlags name one prompt of those that evaluate puts.
type taskFlags struct {
	task   string
	length int
	codes  int
	seed   uint64
	row    int
}

// codesTask is the task whose number of codes is a flag.
const codesTask = "access-codes"

func (t *taskFlags) register(f *pflag.FlagSet) {
	f.StringVar(&t.task, "task", codesTask, "ask for `NAME`: access-codes, a task of evaluate, or FILE.jsonl")
	f.IntVar(&t.length, "length", 4096, "at most `N` tokens, chat template included")
	f.IntVar(&t.codes, "codes", accessTasks["access_few"], "`N` access codes in a prompt; 8 are few, 40 many")
	f.Uint64Var(&t.seed, "task-seed", defaultTaskSeed, "seed `N` of the prompts")
	f.IntVar(&t.row, "row", 0, "the `N`-th prompt of the task, from 0")
}

// check refuses flags before a model is loaded.
func (t *taskFlags) check(f *pflag.FlagSet) error {
	switch {
	case strings.Contains(t.task, ","):
		return usagef("--task %q: want one task", t.task)
	case t.task != codesTask && onCommandLine(f, "codes"):
		return usagef("--codes goes with --task %s: leave it out, or ask for access_%d", codesTask, t.codes)
	case t.codes < 1 || t.codes > eval.MostCodes():
		return usagef("--codes %d: want 1 to %d", t.codes, eval.MostCodes())
	case t.row < 0 || t.row >= eval.MaxPrompts:
		return usagef("--row %d: want 0 to %d", t.row, eval.MaxPrompts-1)
	}
	return t.source().check(f)
}

// source is the prompts up to that of --row, as evaluate names them.
func (t *taskFlags) source() *sourceFlags {
	name := t.task
	if name == codesTask {
		name = fmt.Sprintf("access_%d", t.codes)
	}
	return &sourceFlags{
		single: true, tasks: name, lengths: strconv.Itoa(t.length), perTask: t.row + 1, taskSeed: t.seed,
		prefix: eval.WithPrefix, scorer: eval.ScorerAll,
	}
}

// question makes the prompt, its text encoded as p says. Its answer is at most
// maxTokens long, or as the task says for 0.
func (t *taskFlags) question(cmd *cobra.Command, o *opened, p *promptFlags, maxTokens int) (question, error) {
	if err := o.needTokenizer(); err != nil {
		return question{}, err
	}
	plan, err := t.source().plan(cmd, o, p, maxTokens)
	if err != nil {
		return question{}, err
	}
	if t.row >= plan.prompts {
		return question{}, usagef("--row %d: %s has rows 0 to %d", t.row, t.task, plan.prompts-1)
	}
	return plan.question(t.row)
}

// describe says where a prompt came from.
func (t *taskFlags) describe(q question) string {
	if t.task == codesTask {
		return fmt.Sprintf("%s with %s (task seed %d, row %d)", count(len(q.ids), "token"), count(q.Codes, "access code"), t.seed, q.Index)
	}
	return fmt.Sprintf("%s of %s", count(len(q.ids), "token"), q.ID)
}
