package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"blitzen/decode"
	"blitzen/eval"
	"blitzen/eval/comparison"
	"blitzen/report"
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
	seeds     int
	control   bool
	maxTokens int
	ignoreEOS bool
	json      bool
	report    string
	results   []string
}

func newCompareCommand() *cobra.Command {
	c := &compareFlags{}
	cmd := newCommand("compare [flags] MODEL", "Answer one prompt with two kinds of attention, and say how far apart they are", c.run)
	addFlags(cmd, "Attention", func(f *pflag.FlagSet) {
		f.StringVar(&c.a, "a", "dense", "the base, `NAME`: "+attentionNames)
		f.StringVar(&c.b, "b", "santapp", "second method `NAME`")
		c.attentionFlags.registerTeams(f, "0")
		f.IntVar(&c.seeds, "seeds", 1, "run the second method with `N` attention seeds, from --attention-seed on")
		f.BoolVar(&c.control, "control", true, "measure the noise floor: exact attention against itself in another order")
	})
	addFlags(cmd, "Your prompt", func(f *pflag.FlagSet) {
		c.promptFlags.register(f)
		f.Lookup("prompt").Usage = "the prompt as `TEXT`; - reads stdin" // without any, a task makes one
	})
	addFlags(cmd, "Or a prompt of a task", c.taskFlags.register)
	addFlags(cmd, "Answer", func(f *pflag.FlagSet) {
		f.IntVarP(&c.maxTokens, "max-tokens", "n", 0, "at most `N` tokens (default: by the task, else 64)")
		f.BoolVar(&c.ignoreEOS, "ignore-eos", false, "go on after an end token")
	})
	addFlags(cmd, "Model", c.modelFlags.register)
	addFlags(cmd, "Output", func(f *pflag.FlagSet) {
		f.BoolVar(&c.json, "json", false, "print one JSON object in place of tables")
		f.StringVar(&c.report, "report", "", "also write a page, HTML, with charts and a map of the prompt to `FILE`")
		f.StringArrayVar(&c.results, "results", nil, "with --report: add the curves of `FILE`, written by evaluate --output; may be repeated")
	})
	return cmd
}

func (c *compareFlags) run(cmd *cobra.Command, args []string) (err error) {
	if err := c.check(cmd.Flags()); err != nil {
		return err
	}
	wantFigures(cmd.Context())
	prompt, err := c.readPrompt(cmd)
	if err != nil {
		return err
	}
	page, err := newFile("--report", c.report)
	if err != nil {
		return err
	}
	if err := page.apart(c.results); err != nil {
		return err
	}
	curves, err := c.curves(cmd)
	if err != nil {
		return err
	}
	m, err := c.load(cmd, args, prompt)
	if err != nil {
		return err
	}
	defer m.opened.end(&err)
	result, err := m.run()
	if err != nil {
		if c.report != "" && result != nil {
			m.log.line("%s is not written: the comparison is not whole", c.report)
		}
		return showRest(cmd.ErrOrStderr(), err, result != nil, func() error { return c.show(cmd.OutOrStdout(), result) })
	}
	if c.report != "" {
		p := m.page(result)
		p.Curves = curves
		if err = page.write(p.Write); err == nil {
			m.log.line("wrote %s", c.report)
		}
	}
	// A page that cannot be written does not take the figures with it.
	return cmp.Or(err, c.show(cmd.OutOrStdout(), result))
}

// show prints the comparison.
func (c *compareFlags) show(w io.Writer, result *compared) error {
	if c.json {
		return printJSON(w, result)
	}
	return result.print(w)
}

// load opens the model, makes the prompt and reads the weights. The caller closes
// what is opened.
func (c *compareFlags) load(cmd *cobra.Command, args []string, prompt given) (*measurement, error) {
	start := time.Now()
	o, err := c.modelFlags.open(args)
	if err != nil {
		return nil, err
	}
	o.noteUnused(cmd.ErrOrStderr(), cmd.Flags(), c.as(c.a), c.as(c.b))
	c.attentionFlags = c.forModel(o.loaded)
	c.noteSides(cmd.ErrOrStderr(), cmd.Flags())
	m := &measurement{compareFlags: c, cmd: cmd, opened: o, log: &stages{w: cmd.ErrOrStderr(), bar: newProgress(cmd.ErrOrStderr())}}
	if err := m.prepare(prompt); err != nil {
		o.Close()
		return nil, err
	}
	m.log.end("loaded %s on %s", start, o.title(), o.Device.Name())
	return m, nil
}

// prepare makes the prompt and reads the weights.
func (m *measurement) prepare(prompt given) (err error) {
	if prompt.ids == nil {
		if err := m.needTokenizer(); err != nil {
			return err
		}
	}
	f := m.cmd.Flags()
	if m.question, err = m.compareFlags.question(m.cmd, m.opened, prompt); err != nil {
		return err
	}
	if m.capacity, err = contextSize(len(m.ids), m.question.maxTokens, 0, f.Changed("max-tokens"), m.Config); err != nil {
		return err
	}
	a := m.as(m.a)
	a.watched = m.report != ""
	return m.opened.load(m.capacity, a, m.as(m.b))
}

// noteSides says what is not to be expected of two sides that are alike, and of
// seeds where nothing is drawn.
func (c *compareFlags) noteSides(w io.Writer, f *pflag.FlagSet) {
	b := c.as(c.b)
	switch {
	case c.a == c.b && c.seeds > 1 && b.samples():
		fmt.Fprintf(w, "--a and --b are both %s: with attention seed %d, the base's own, no difference is to be expected; the other seeds draw anew\n", b.label(), c.attentionFlags.seed)
	case c.a == c.b:
		fmt.Fprintf(w, "--a and --b are both %s, with the same settings: no difference is to be expected\n", b.label())
	case !b.samples() && onCommandLine(f, "seeds"):
		fmt.Fprintf(w, "--seeds is not used: %s draws nothing\n", b.name)
	}
}

// readPrompt is the user's prompt, read before anything costly is done; nothing where
// the task makes one.
func (c *compareFlags) readPrompt(cmd *cobra.Command) (given, error) {
	if !c.promptFlags.asked(cmd.Flags()) {
		return given{}, nil
	}
	return c.promptFlags.read(cmd)
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
			if onCommandLine(f, name) {
				return usagef("--%s makes a prompt, and another is given: use one", name)
			}
		}
	}
	if err := checkAnswer(f, c.maxTokens); err != nil {
		return err
	}
	if c.seeds < 1 || c.seeds > eval.MaxRepeats {
		return usagef("--seeds %d: want 1 to %d", c.seeds, eval.MaxRepeats)
	}
	if len(c.results) > 0 && c.report == "" {
		return usagef("--results is drawn on a page: add --report FILE.html")
	}
	if err := c.promptFlags.check(); err != nil {
		return err
	}
	return c.taskFlags.check(f)
}

// curves are those of --results.
func (c *compareFlags) curves(cmd *cobra.Command) ([]report.Curve, error) {
	if len(c.results) == 0 {
		return nil, nil
	}
	results, err := readResults(cmd.ErrOrStderr(), c.results)
	return curvesOf(results), err
}

// question is the user's prompt if there is one, else the task's.
func (c *compareFlags) question(cmd *cobra.Command, o *opened, prompt given) (question, error) {
	if !c.promptFlags.asked(cmd.Flags()) {
		return c.taskFlags.question(cmd, o, &c.promptFlags, c.maxTokens)
	}
	ids, _, err := c.promptFlags.encode(cmd, o, prompt)
	return question{ids: ids, maxTokens: cmp.Or(c.maxTokens, defaultAnswer)}, err
}

func (c *compareFlags) describe(q question) string {
	if len(q.Outputs) == 0 {
		return count(len(q.ids), "token")
	}
	return c.taskFlags.describe(q)
}

// prefill reads the prompt, at most chunk tokens at once; 0 for the model's
// choice.
func (m *measurement) prefill(chunk int) (comparison.Prompt, error) {
	p := comparison.Prompt{Device: m.Device, Model: m.Model}
	s, err := m.session(decode.Options{Capacity: m.capacity, Sampling: sample.Greedy(), Chunk: chunk})
	if err != nil {
		return p, err
	}
	p.Session = s
	if err := s.Prefill(m.cmd.Context(), m.ids, m.log.bar.stage("reading the prompt")); err != nil {
		s.Close()
		return p, err
	}
	return p, nil
}

// stages tells on stderr what has been done and how long it took.
type stages struct {
	w   io.Writer
	bar *progress
}

func (s *stages) end(format string, since time.Time, args ...any) {
	s.line("%s (%.2f s)", fmt.Sprintf(format, args...), time.Since(since).Seconds())
}

func (s *stages) line(format string, args ...any) {
	s.bar.done()
	fmt.Fprintf(s.w, format+"\n", args...)
}
