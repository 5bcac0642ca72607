package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"blitzen/attention"
	"blitzen/decode"
	"blitzen/eval"
	"blitzen/sample"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// evaluateFlags are those of generate evaluate.
type evaluateFlags struct {
	modelFlags
	taskFlags
	attentionFlags
	methods, budgets string
	clusters, blocks string
	samples          int
	maxTokens        int
	output           string
}

func newEvaluateCommand() *cobra.Command {
	e := &evaluateFlags{}
	cmd := newCommand("evaluate [flags] MODEL", "Count exact answers over many prompts", e.run)
	addFlags(cmd, "Prompts", func(f *pflag.FlagSet) {
		e.taskFlags.register(f)
		f.IntVar(&e.samples, "samples", 48, "`N` prompts")
	})
	addFlags(cmd, "Attention (lists are separated by commas; all combinations are run)", func(f *pflag.FlagSet) {
		f.StringVar(&e.methods, "attention", "dense,santapp", "decode by `NAMES`: "+attentionNames)
		f.StringVar(&e.budgets, "budget", strconv.Itoa(defaultBudget), "read about `S` prompt keys a query head and step: S/(P/R) teams, S/B clusters")
		f.StringVar(&e.parents, "parents", "kmeans", "group keys first by `NAMES`: kmeans, contiguous")
		f.StringVar(&e.clusters, "cluster", "latent", "group the rows of a latent cache (DeepSeek-V2) by `PARTS`: latent, row")
		f.StringVar(&e.blocks, "block", strconv.Itoa(defaultBlock), "centroid: `B` keys on average in a cluster")
		f.StringVar(&e.draw, "draw", "independent", "santa: draw `HOW`: independent, systematic")
		e.registerSizes(f, "0; each prompt has its own stream")
	})
	addFlags(cmd, "Answers", func(f *pflag.FlagSet) {
		f.IntVarP(&e.maxTokens, "max-tokens", "n", 64, "at most `N` tokens each")
		f.StringVarP(&e.output, "output", "o", "", "also write every answer to `FILE`, as JSONL")
	})
	addFlags(cmd, "Model", e.modelFlags.register)
	return cmd
}

// arm is one method with its settings and what it has scored so far.
type arm struct {
	attentionFlags
	exact  []float64 // 1 or 0, one a prompt
	access attention.Access
}

// answerRecord is a line of --output.
type answerRecord struct {
	ID        string          `json:"id"`
	Attention attentionReport `json:"attention"`
	Text      string          `json:"text"`
	Expected  string          `json:"expected"`
	Exact     bool            `json:"exact"`
	Tokens    int             `json:"prompt_tokens"`
	ModelHash string          `json:"model_hash"`
	Quantize  string          `json:"quantize"`
}

func (e *evaluateFlags) run(cmd *cobra.Command, args []string) error {
	arms, err := e.arms()
	if err != nil {
		return err
	}
	if err := e.taskFlags.check(); err != nil {
		return err
	}
	o, err := e.modelFlags.open(args)
	if err != nil {
		return err
	}
	defer o.Close()
	var attention []attentionFlags
	for _, a := range arms {
		attention = append(attention, a.attentionFlags)
	}
	out, err := e.openOutput()
	if err != nil {
		return err
	}
	defer out.Close()
	// The first prompt shows whether the task can be made at all, before weights
	// are read and an old file is overwritten.
	if err := o.needTokenizer(); err != nil {
		return err
	}
	first, err := e.taskFlags.row(o, cmd.Flags(), &promptFlags{}, 0)
	if err != nil {
		return err
	}
	room := min(e.maxTokens, o.Config.MaxPositions-len(first.ids))
	if err := o.load(min(e.length+room, o.Config.MaxPositions), attention...); err != nil {
		return err
	}
	if info, err := out.Stat(); err == nil && info.Mode().IsRegular() {
		if err := out.Truncate(0); err != nil {
			return usagef("--output: %v", err)
		}
	}
	start := time.Now()
	for i := range e.samples {
		if err := e.sample(cmd, o, i, arms, out); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d prompts, %.0f s\n", i+1, e.samples, time.Since(start).Seconds())
	}
	return e.print(cmd.OutOrStdout(), arms)
}

// openOutput opens the file for the answers, /dev/null without one. What it
// holds stays until Truncate.
func (e *evaluateFlags) openOutput() (*os.File, error) {
	name := e.output
	if name == "" {
		name = os.DevNull
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, usagef("--output: %v", err)
	}
	return file, nil
}

// arms are all combinations that the flags name.
func (e *evaluateFlags) arms() ([]*arm, error) {
	var arms []*arm
	for _, method := range choices(e.methods) {
		flags := e.as(method)
		if !flags.samples() {
			arms = append(arms, &arm{attentionFlags: flags})
			continue
		}
		more, err := e.sampled(flags)
		if err != nil {
			return nil, err
		}
		arms = append(arms, more...)
	}
	for flag, list := range map[string]string{"--budget": e.budgets, "--parents": e.parents, "--cluster": e.clusters, "--block": e.blocks} {
		if len(choices(list)) == 0 {
			return nil, usagef("%s %q: the list is empty", flag, list)
		}
	}
	for _, a := range arms {
		if err := a.check("--attention"); err != nil {
			return nil, err
		}
	}
	if len(arms) == 0 || e.samples < 1 || e.maxTokens < 1 {
		return nil, usagef("nothing to do: --attention %q, --samples %d, -n %d", e.methods, e.samples, e.maxTokens)
	}
	return arms, nil
}

// sampled are the arms of one sampled method: those that share groups stand
// together.
func (e *evaluateFlags) sampled(flags attentionFlags) ([]*arm, error) {
	var arms []*arm
	for _, flags.cluster = range choices(e.clusters) {
		groups := e.parents
		if flags.clustersKeys() {
			groups = e.blocks
		}
		for _, group := range choices(groups) {
			flags.parents = group
			if flags.clustersKeys() {
				var err error
				if flags.block, err = strconv.Atoi(group); err != nil {
					return nil, usagef("--block %q: want whole numbers, separated by commas", group)
				}
			}
			for _, budget := range choices(e.budgets) {
				var err error
				if flags.budget, err = strconv.Atoi(budget); err != nil {
					return nil, usagef("--budget %q: want whole numbers, separated by commas", budget)
				}
				arms = append(arms, &arm{attentionFlags: flags})
			}
		}
	}
	return arms, nil
}

// sample reads prompt i once and answers it with every arm.
func (e *evaluateFlags) sample(cmd *cobra.Command, o *opened, i int, arms []*arm, records io.Writer) error {
	q, err := e.taskFlags.row(o, cmd.Flags(), &promptFlags{}, i)
	if err != nil {
		return err
	}
	capacity, err := contextSize(len(q.ids), e.maxTokens, 0, cmd.Flags().Changed("max-tokens"), o.Config)
	if err != nil {
		return err
	}
	s, err := decode.New(o.Device, o.Model, decode.Options{Capacity: capacity, Sampling: sample.Greedy()})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Prefill(cmd.Context(), q.ids, nil); err != nil {
		return err
	}
	teams := groups{}
	for _, a := range arms {
		a.groups = teams
		seed := eval.PromptSeed(e.attentionFlags.seed, q.ID)
		record, err := e.answer(cmd, o, s, a, q, seed)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(records).Encode(record); err != nil {
			return err
		}
	}
	return nil
}

func (e *evaluateFlags) answer(cmd *cobra.Command, o *opened, s *decode.Session, a *arm, q question, seed uint64) (answerRecord, error) {
	a.attentionFlags.seed = seed
	build, err := a.builder(cmd.Context(), o.loaded, cmd.Flags(), seed, nil)
	if err != nil {
		return answerRecord{}, err
	}
	if err := s.Build(build); err != nil {
		return answerRecord{}, err
	}
	limits := decode.Limits{MaxTokens: e.maxTokens, EOS: o.EOS, Decoder: o.Tokenizer.NewStream(true)}
	result, err := s.Generate(cmd.Context(), limits, nil)
	if err != nil {
		return answerRecord{}, err
	}
	r := answerRecord{
		ID: q.ID, Attention: a.report(s.Access(), seed), Text: result.Text, Expected: q.Outputs[0],
		Exact: eval.ExactAnswer(result.Text, q.Row), Tokens: len(q.ids), ModelHash: o.Checkpoint.Fingerprint(), Quantize: o.quantize(),
	}
	score := 0.0
	if r.Exact {
		score = 1
	}
	a.exact = append(a.exact, score)
	a.access = a.access.Add(s.Access())
	return r, nil
}

// bootstrapSeed is that of the intervals, printed with them.
const bootstrapSeed = 1

func (e *evaluateFlags) print(w io.Writer, arms []*arm) error {
	fmt.Fprintf(w, "%s, %d prompts of %d tokens with %d codes, task seed %d, attention seed %d; 95 %% intervals by bootstrap over prompts (%d resamples, seed %d)\n\n",
		e.task, e.samples, e.length, e.codes, e.taskFlags.seed, e.attentionFlags.seed, eval.Resamples, bootstrapSeed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "| attention\t| exact\t| exact %\t| interval\t| KV access %\t| bytes %\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, a := range arms {
		mean, low, high := eval.Bootstrap(a.exact, bootstrapSeed)
		exact := 0
		for _, v := range a.exact {
			exact += int(v)
		}
		fmt.Fprintf(t, "| %s\t| %d of %d\t| %.1f\t| %.1f to %.1f\t| %.1f\t| %.1f\t|\n",
			a.label(), exact, len(a.exact), 100*mean, 100*low, 100*high, a.access.Percent(), a.access.BytesPercent())
	}
	return t.Flush()
}
