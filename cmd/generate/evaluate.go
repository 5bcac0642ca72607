package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"blitzen/eval"
	"blitzen/eval/comparison"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// evaluateFlags are those of generate evaluate.
type evaluateFlags struct {
	modelFlags
	promptFlags
	sourceFlags
	attentionFlags
	methods, budgets string
	clusters, blocks string
	repeats          int
	maxTokens        int
	output           string
	shard            string
	merge            bool
	pairs            string
	divergence       bool
}

func newEvaluateCommand() *cobra.Command {
	e := &evaluateFlags{}
	cmd := newCommand("evaluate [flags] MODEL", "Score answers over many prompts, by task, length and attention", e.run)
	addFlags(cmd, "Prompts (lists are separated by commas; all combinations are run)", e.sourceFlags.register)
	addFlags(cmd, "How a prompt is put", e.promptFlags.registerTemplate)
	addFlags(cmd, "Attention (lists are separated by commas; all combinations are run)", func(f *pflag.FlagSet) {
		listVar(f, &e.methods, "attention", "", "dense,santapp", "decode by `NAMES`: "+attentionNames)
		listVar(f, &e.budgets, "budget", "", strconv.Itoa(defaultBudget), "read about `S` prompt keys a query head and step: S/(P/R) teams, S/B clusters")
		listVar(f, &e.parents, "parents", "", "kmeans", "group keys first by `NAMES`: "+parentNames)
		listVar(f, &e.clusters, "cluster", "", clusterLatent, "group the rows of a latent cache (DeepSeek-V2) by `PARTS`: latent, row")
		listVar(f, &e.blocks, "block", "", strconv.Itoa(defaultBlock), "centroid: `B` keys on average in a cluster")
		f.StringVar(&e.draw, "draw", "independent", "santa: draw `HOW`: independent, systematic")
		f.IntVar(&e.repeats, "attention-seeds", 1, "answer each prompt `N` times, with other draws, by methods that draw")
		e.registerSizes(f, "0; each prompt has its own stream")
	})
	addFlags(cmd, "Answers", func(f *pflag.FlagSet) {
		f.IntVarP(&e.maxTokens, "max-tokens", "n", 0, "at most `N` tokens each (default: by the task, else 64)")
		f.BoolVar(&e.divergence, "divergence", false, "also follow exact attention's answer with every method: KL divergence, Same top p")
		f.StringVarP(&e.output, "output", "o", "", "keep every answer in `FILE`, as JSONL; a run that was ended goes on there")
		f.StringVar(&e.shard, "shard", "0/1", "take the prompts whose number is I modulo N, `I/N`: a part of a run")
		f.BoolVar(&e.merge, "merge", false, "the arguments are files of --output in place of a model: print the figures of all together")
		listVar(f, &e.pairs, "pairs", "", "", "print differences between methods on the same prompts too, `A:B`,...: oracle:santapp")
	})
	addFlags(cmd, "Model", e.modelFlags.register)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if e.merge {
			return nil
		}
		return oneModel(cmd, args)
	}
	return cmd
}

// evaluation is a run under way.
type evaluation struct {
	*evaluateFlags
	cmd    *cobra.Command
	opened *opened
	plan   *promptPlan
	arms   []attentionFlags
	log    *eval.Log // nil without --output
	eval.Results
	left atomic.Int64 // answers that are missing, for onInterrupt
}

func (e *evaluateFlags) run(cmd *cobra.Command, args []string) (err error) {
	if e.merge {
		return e.mergeFiles(cmd, args)
	}
	arms, err := e.combinations()
	if err != nil {
		return err
	}
	if err := e.check(cmd.Flags()); err != nil {
		return err
	}
	shard, shards, err := e.parseShard()
	if err != nil {
		return err
	}
	if err := checkPairs(e.pairs, choices(e.methods)); err != nil {
		return err
	}
	o, err := e.modelFlags.open(args)
	if err != nil {
		return err
	}
	defer o.end(&err)
	if err := o.needTokenizer(); err != nil {
		return err
	}
	o.noteUnused(cmd.ErrOrStderr(), cmd.Flags(), arms...)
	run := &evaluation{evaluateFlags: e, cmd: cmd, opened: o, arms: armsOf(o.loaded, arms)}
	if run.plan, err = e.sourceFlags.plan(cmd, o, &e.promptFlags, e.maxTokens); err != nil {
		return err
	}
	if run.Header, err = run.header(shard, shards); err != nil {
		return err
	}
	// First prompts show whether the tasks can be made at all, before weights are
	// read.
	if err := run.plan.firsts(); err != nil {
		return err
	}
	if err := run.first(); err != nil {
		return err
	}
	if shard >= run.Prompts {
		fmt.Fprintf(cmd.ErrOrStderr(), "--shard %s: the run has %s, none in this shard\n", e.shard, count(run.Prompts, "prompt"))
	}
	if e.output != "" {
		if run.log, run.Answers, err = eval.OpenLog(e.output, run.Header); err != nil {
			return usagef("--output: %w", err)
		}
		defer run.log.Close()
	}
	run.left.Store(int64(run.Missing()))
	ended := run.onInterrupt()
	err = run.answerAll()
	ended()
	if err != nil {
		return err
	}
	return printResults(cmd.OutOrStdout(), run.Results, e.pairs)
}

// check refuses flags beside those of the arms.
func (e *evaluateFlags) check(f *pflag.FlagSet) error {
	if err := checkAnswer(f, e.maxTokens); err != nil {
		return err
	}
	if e.repeats < 1 || e.repeats > eval.MaxRepeats {
		return usagef("--attention-seeds %d: want 1 to %d", e.repeats, eval.MaxRepeats)
	}
	return errors.Join(e.sourceFlags.check(f), e.promptFlags.check())
}

// onInterrupt says after Ctrl-C what is kept of the answers and how to go on: when
// the run has ended, or before the program does without waiting for it. ended tells
// of the end, and waits until that is said.
func (r *evaluation) onInterrupt() (ended func()) {
	end, said := make(chan struct{}), make(chan struct{})
	all := eval.Results{Header: r.Header}.Missing()
	stop := context.AfterFunc(r.cmd.Context(), func() {
		defer close(said)
		select {
		case <-end:
		case <-time.After(patience / 2):
		}
		answers := fmt.Sprintf("%d of %s", all-int(r.left.Load()), count(all, "answer"))
		if r.log == nil {
			fmt.Fprintf(r.cmd.ErrOrStderr(), "interrupted: %s made, none is kept: --output FILE keeps them, and a run goes on there\n", answers)
			return
		}
		fmt.Fprintf(r.cmd.ErrOrStderr(), "interrupted: %s has %s: the same command goes on there, and generate evaluate --merge prints the figures so far\n", r.output, answers)
	})
	return func() {
		close(end)
		if !stop() {
			<-said
		}
	}
}

// parseShard reads --shard.
func (e *evaluateFlags) parseShard() (shard, shards int, err error) {
	if n, err := fmt.Sscanf(e.shard+"\n", "%d/%d\n", &shard, &shards); n != 2 || err != nil || shard < 0 || shard >= shards {
		return 0, 0, usagef("--shard %q: want I/N, with I from 0 to N-1", e.shard)
	}
	return shard, shards, nil
}

// first makes the first prompt that there is to answer.
func (r *evaluation) first() error {
	for n := r.Shard; n < r.Prompts; n += r.Shards {
		_, err := r.plan.question(n)
		if err == nil || !r.skipBad {
			return err
		}
	}
	return nil
}

// answerAll puts all prompts of the shard that have no answer yet.
func (r *evaluation) answerAll() error {
	var todo []int
	held := 0
	for n := r.Shard; n < r.Prompts; n += r.Shards {
		if r.held(n) {
			held++
		} else {
			todo = append(todo, n)
		}
	}
	if held > 0 {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "%s has the answers to %d of %s\n", r.output, held, count(held+len(todo), "prompt"))
	}
	if len(todo) == 0 {
		return nil
	}
	if err := r.opened.load(r.plan.context, r.arms...); err != nil {
		return err
	}
	progress := newTimeLeft(r.cmd.ErrOrStderr(), len(todo))
	for _, n := range todo {
		q, err := r.plan.question(n)
		if r.plan.leavesOut(r.cmd.ErrOrStderr(), err) {
			err = r.keep(eval.Skip(n, q.Row, q.prefix, err.Error()))
		} else if err == nil {
			err = r.sample(n, q)
		}
		if err != nil {
			return err
		}
		progress.step()
	}
	return nil
}

// held reports whether all arms have answered prompt n.
func (r *evaluation) held(n int) bool {
	for arm := range r.Arms {
		for repeat := range r.RepeatsOf(arm) {
			if r.log == nil || !r.log.Holds(n, arm, repeat) {
				return false
			}
		}
	}
	return true
}

// keep takes an answer, on the disk first.
func (r *evaluation) keep(a eval.Answer) error {
	if r.log != nil {
		if err := r.log.Append(a); err != nil {
			return fmt.Errorf("--output: %w: the answers before it are kept: make room, and give the same command again", err)
		}
	}
	r.Answers = append(r.Answers, a)
	r.left.Store(int64(r.Missing()))
	return nil
}

// sample reads prompt n once and answers it with every arm.
func (r *evaluation) sample(n int, q question) error {
	o := r.opened
	s, err := q.read(r.cmd.Context(), o)
	if err != nil {
		return err
	}
	defer s.Close()
	p := comparison.Prompt{Session: s, Device: o.Device, Model: o.Model}
	var exact *comparison.Trajectory
	if r.divergence {
		if exact, err = r.exact(p, q); err != nil {
			return err
		}
	}
	teams := groups{}
	defer teams.close()
	for arm, flags := range r.arms {
		flags.groups = teams
		for repeat := range r.RepeatsOf(arm) {
			if r.log != nil && r.log.Holds(n, arm, repeat) {
				continue
			}
			a, err := r.answer(p, flags, q, eval.RepeatSeed(r.attentionFlags.seed, q.ID, repeat), exact)
			if err != nil {
				return err
			}
			a.Prompt, a.Arm, a.Repeat, a.Label = n, arm, repeat, r.Arms[arm].Label
			if err := r.keep(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// answer decodes with one arm, from the end of the prompt; first along exact
// attention's answer, if there is one.
func (r *evaluation) answer(p comparison.Prompt, flags attentionFlags, q question, seed uint64, exact *comparison.Trajectory) (eval.Answer, error) {
	build, err := r.builderOf(flags, seed)
	if err != nil {
		return eval.Answer{}, err
	}
	var apart *eval.Divergence
	if exact != nil {
		steps, err := p.Divergence(r.cmd.Context(), build, *exact)
		if err != nil {
			return eval.Answer{}, err
		}
		apart = sumOf(steps)
	}
	if err := p.Session.Build(build); err != nil {
		return eval.Answer{}, err
	}
	limits, err := q.limits(r.opened)
	if err != nil {
		return eval.Answer{}, err
	}
	result, err := p.Session.Generate(r.cmd.Context(), limits, nil)
	if err != nil {
		return eval.Answer{}, err
	}
	score, err := eval.Score(result.Text, q.Row)
	access := p.Session.Access()
	return eval.Answer{
		ID: q.ID, Task: q.Task, Limit: q.limit, Prefix: q.prefix, Scorer: q.Scorer, Seed: seed,
		PromptTokens: len(q.ids), Tokens: len(result.Tokens), Finish: result.Finish, Text: result.Text, Expected: q.Outputs,
		Score: score, Access: access, Percent: access.Percent(), Divergence: apart,
	}, err
}
