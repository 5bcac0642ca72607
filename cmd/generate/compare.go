package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"blitzen/attention"
	"blitzen/decode"
	"blitzen/eval"
	"blitzen/sample"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// compareFlags are those of generate compare.
type compareFlags struct {
	modelFlags
	promptFlags
	taskFlags
	attentionFlags
	a, b      string
	maxTokens int
	row       int
}

func newCompareCommand() *cobra.Command {
	c := &compareFlags{}
	cmd := newCommand("compare [flags] MODEL", "Answer one prompt with two kinds of attention, side by side", c.run)
	addFlags(cmd, "Attention", func(f *pflag.FlagSet) {
		f.StringVar(&c.a, "a", "dense", "first method `NAME`: "+attentionNames)
		f.StringVar(&c.b, "b", "santapp", "second method `NAME`")
		c.attentionFlags.registerTeams(f, "0")
	})
	addFlags(cmd, "Your prompt", c.promptFlags.register)
	addFlags(cmd, "Or a prompt that is made", func(f *pflag.FlagSet) {
		c.taskFlags.register(f)
		f.IntVar(&c.row, "row", 0, "the `N`-th prompt of the task, from 0")
	})
	addFlags(cmd, "Answer", func(f *pflag.FlagSet) {
		f.IntVarP(&c.maxTokens, "max-tokens", "n", 64, "at most `N` tokens")
	})
	addFlags(cmd, "Model", c.modelFlags.register)
	return cmd
}

// side is one of the two answers.
type side struct {
	label   string
	result  decode.Result
	access  attention.Access
	build   time.Duration
	correct *bool // nil without a reference answer
}

func (c *compareFlags) run(cmd *cobra.Command, args []string) error {
	if err := c.check(cmd.Flags()); err != nil {
		return err
	}
	var prompt given
	if f := cmd.Flags(); c.promptFlags.asked(f) {
		var err error
		if prompt, err = c.promptFlags.read(cmd); err != nil {
			return err
		}
	}
	start := time.Now()
	o, err := c.modelFlags.open(args)
	if err != nil {
		return err
	}
	defer o.Close()
	if err := o.needTokenizer(); err != nil {
		return err
	}
	q, err := c.question(cmd.Flags(), o, prompt)
	if err != nil {
		return err
	}
	capacity, err := contextSize(len(q.ids), c.maxTokens, 0, cmd.Flags().Changed("max-tokens"), o.Config)
	if err != nil {
		return err
	}
	if err := o.load(capacity, c.as(c.a), c.as(c.b)); err != nil {
		return err
	}
	log := &stages{w: cmd.ErrOrStderr(), bar: newProgress(cmd.ErrOrStderr())}
	log.end("loaded %s on %s", start, o.Name, o.Device.Name())
	s, err := decode.New(o.Device, o.Model, decode.Options{Capacity: capacity, Sampling: sample.Greedy()})
	if err != nil {
		return err
	}
	defer s.Close()
	begin := time.Now()
	if err := s.Prefill(cmd.Context(), q.ids, log.bar.stage("reading the prompt")); err != nil {
		return err
	}
	prefill := time.Since(begin)
	log.end("read the prompt, %s", begin, c.describe(q))
	var sides []side
	for _, name := range []string{c.a, c.b} {
		one, err := c.answer(cmd, o, s, name, q, log)
		if err != nil {
			return err
		}
		sides = append(sides, one)
	}
	return printSides(cmd.OutOrStdout(), q, prefill, sides)
}

// check refuses flags before a model is loaded.
func (c *compareFlags) check(f *pflag.FlagSet) error {
	for _, side := range []struct{ flag, method string }{{"--a", c.a}, {"--b", c.b}} {
		if err := c.as(side.method).check(side.flag); err != nil {
			return err
		}
	}
	if c.promptFlags.asked(f) {
		for _, name := range []string{"task", "length", "codes", "task-seed", "row"} {
			if f.Changed(name) {
				return usagef("--%s makes a prompt, and another is given: use one", name)
			}
		}
	}
	if c.maxTokens < 1 {
		return usagef("-n %d: want at least 1", c.maxTokens)
	}
	if err := c.promptFlags.check(); err != nil {
		return err
	}
	return c.taskFlags.check()
}

// question is the user's prompt if there is one, else the task's.
func (c *compareFlags) question(f *pflag.FlagSet, o *opened, prompt given) (question, error) {
	if !c.promptFlags.asked(f) {
		return c.taskFlags.row(o, f, &c.promptFlags, c.row)
	}
	ids, _, err := c.promptFlags.encode(f, o, prompt)
	return question{ids: ids}, err
}

func (c *compareFlags) describe(q question) string {
	if len(q.Outputs) == 0 {
		return fmt.Sprintf("%d tokens", len(q.ids))
	}
	return c.taskFlags.describe(q)
}

func (c *compareFlags) answer(cmd *cobra.Command, o *opened, s *decode.Session, name string, q question, log *stages) (side, error) {
	flags := c.as(name)
	out := side{label: flags.label()}
	build, err := flags.builder(cmd.Context(), o.loaded, cmd.Flags(), 0, log.bar.stage("building teams"))
	if err != nil {
		return out, err
	}
	if err := flags.printSpread(cmd.ErrOrStderr(), o.loaded, s); err != nil {
		return out, err
	}
	begin := time.Now()
	if err := s.Build(build); err != nil {
		return out, err
	}
	out.build = time.Since(begin)
	if flags.groupsKeys() {
		log.end("%s: built teams", begin, out.label)
	}
	begin = time.Now()
	limits := decode.Limits{MaxTokens: c.maxTokens, EOS: o.EOS, Decoder: o.Tokenizer.NewStream(true)}
	if out.result, err = s.Generate(cmd.Context(), limits, nil); err != nil {
		return out, err
	}
	out.access = s.Access()
	log.end("%s: decoded %d tokens", begin, out.label, len(out.result.Tokens))
	if len(q.Outputs) > 0 {
		ok := eval.ExactAnswer(out.result.Text, q.Row)
		out.correct = &ok
	}
	return out, nil
}

// printSides is the comparison for people.
func printSides(w io.Writer, q question, prefill time.Duration, sides []side) error {
	if len(q.Outputs) > 0 {
		fmt.Fprintf(w, "expected  %s\n", q.Outputs[0])
	}
	for _, s := range sides {
		fmt.Fprintf(w, "%s\n  %s\n", s.label, strings.ReplaceAll(strings.TrimSpace(s.result.Text), "\n", "\n  "))
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, value func(side) string) {
		fmt.Fprintf(t, "%s\t", name)
		for _, s := range sides {
			fmt.Fprintf(t, "%s\t", value(s))
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t)
	row("", func(s side) string { return s.label })
	row("correct", func(s side) string { return yesNo(s.correct) })
	row("KV access %", func(s side) string { return fmt.Sprintf("%.1f", s.access.Percent()) })
	row("bytes read %", func(s side) string { return fmt.Sprintf("%.1f", s.access.BytesPercent()) })
	row("prefill s", func(side) string { return fmt.Sprintf("%.2f", prefill.Seconds()) })
	row("teams s", func(s side) string { return fmt.Sprintf("%.2f", s.build.Seconds()) })
	row("decode s", func(s side) string { return fmt.Sprintf("%.2f", s.result.Decode.Seconds()) })
	row("ms a token", func(s side) string {
		return fmt.Sprintf("%.1f", milliseconds(s.result.Decode)/float64(len(s.result.Tokens)))
	})
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "The two answers are the same."
	if sides[0].result.Text != sides[1].result.Text {
		verdict = "The two answers differ."
	}
	_, err := fmt.Fprintf(w, "\n%s\n", verdict)
	return err
}

func yesNo(b *bool) string {
	switch {
	case b == nil:
		return "-"
	case *b:
		return "yes"
	}
	return "no"
}

// stages tells on stderr what has been done and how long it took.
type stages struct {
	w   io.Writer
	bar *progress
}

func (s *stages) end(format string, since time.Time, args ...any) {
	s.bar.done()
	fmt.Fprintf(s.w, "%s (%.2f s)\n", fmt.Sprintf(format, args...), time.Since(since).Seconds())
}
