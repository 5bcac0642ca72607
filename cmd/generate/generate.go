package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"blitzen/decode"
	"blitzen/sample"
	"blitzen/tokenizer"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// generateFlags are those of the plain command.
type generateFlags struct {
	modelFlags
	promptFlags
	samplingFlags
	attentionFlags
	maxTokens int
	context   int
	stops     []string
	ignoreEOS bool
	logprobs  int
	json      bool
	verbose   bool
}

func newGenerateCommand() *cobra.Command {
	g := &generateFlags{}
	cmd := newCommand("generate [flags] MODEL", "Answer a prompt with a language model", cobra.MaximumNArgs(1), g.run)
	cmd.Version = version
	f := cmd.Flags()
	g.promptFlags.register(f)
	f.IntVarP(&g.maxTokens, "max-tokens", "n", 1024, "most tokens to generate")
	f.StringArrayVar(&g.stops, "stop", nil, "end at this text, which is not printed; may be repeated")
	f.BoolVar(&g.ignoreEOS, "ignore-eos", false, "go on after an end token")
	g.samplingFlags.register(f)
	g.attentionFlags.register(f)
	g.modelFlags.register(f)
	f.IntVarP(&g.context, "ctx-size", "c", 0, "most tokens of prompt and answer (default: the prompt and -n, at most the model's limit)")
	f.IntVar(&g.logprobs, "logprobs", 0, "report the N most probable tokens at each step, with --json")
	f.BoolVar(&g.json, "json", false, "print one JSON object instead of the text")
	f.BoolVarP(&g.verbose, "verbose", "v", false, "print settings and timings to stderr")
	f.SetNormalizeFunc(aliases)
	return cmd
}

// aliases are the names that other programs have for the same flags.
func aliases(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "predict", "n-predict":
		name = "max-tokens"
	case "temp":
		name = "temperature"
	case "repeat-penalty":
		name = "repetition-penalty"
	case "prompt-file":
		name = "file"
	case "ignore-chat-template", "no-cnv":
		name = "raw"
	case "attention-backend":
		name = "attention"
	}
	return pflag.NormalizedName(name)
}

func (g *generateFlags) run(cmd *cobra.Command, args []string) error {
	if err := g.check(); err != nil {
		return err
	}
	start := time.Now()
	o, err := g.modelFlags.open(args)
	if err != nil {
		return err
	}
	defer o.Close()
	r := &generation{generateFlags: g, cmd: cmd, opened: o, report: newReport(o)}
	r.report.Timings.LoadMS = milliseconds(time.Since(start))
	return r.run()
}

func (g *generateFlags) check() error {
	switch {
	case g.maxTokens < 1:
		return usagef("-n %d: want at least 1", g.maxTokens)
	case g.context < 0:
		return usagef("-c %d: want 1 or more", g.context)
	case g.logprobs < 0:
		return usagef("--logprobs %d: want 0 or more", g.logprobs)
	case g.logprobs > 0 && !g.json:
		return usagef("--logprobs is part of the JSON object: add --json")
	}
	return nil
}

// generation is one run of the plain command.
type generation struct {
	*generateFlags
	*opened
	cmd      *cobra.Command
	settings sample.Settings
	report   report
}

func (r *generation) run() error {
	ids, how, err := r.promptFlags.encode(r.cmd, r.Tokenizer, r.Name)
	if err != nil {
		return err
	}
	if r.settings, err = r.samplingFlags.settings(r.cmd.Flags(), r.Generation); err != nil {
		return err
	}
	bar := newProgress(r.cmd.ErrOrStderr())
	build, err := r.builder(r.cmd.Context(), r.loaded, r.cmd.Flags(), r.settings.Seed, bar.stage("building teams"))
	if err != nil {
		return err
	}
	capacity, err := contextSize(len(ids), r.maxTokens, r.context, r.Config)
	if err != nil {
		return err
	}
	limits, err := r.limits()
	if err != nil {
		return err
	}
	s, err := decode.New(r.Device, r.Model, decode.Options{Capacity: capacity, Sampling: r.settings, TopLogProbs: r.logprobs})
	if err != nil {
		return asUsage(err)
	}
	defer s.Close()
	r.verbosef("%s on %s; %s; attention %s; seed %d", r.Name, r.Device.Name(), how, r.label(), r.settings.Seed)
	if err := timed(&r.report.Timings.PromptMS, func() error { return s.Prefill(r.cmd.Context(), ids, bar.stage("reading the prompt")) }); err != nil {
		return asUsagePrompt(err)
	}
	if err := timed(&r.report.Timings.BuildMS, func() error { return s.Build(build) }); err != nil {
		return err
	}
	bar.done()
	return r.answer(s, ids, limits)
}

// answer decodes and prints.
func (r *generation) answer(s *decode.Session, ids []int32, limits decode.Limits) error {
	out := r.cmd.OutOrStdout()
	var emit func(string) error
	if !r.json {
		emit = func(text string) error { _, err := io.WriteString(out, text); return err }
	}
	result, err := s.Generate(r.cmd.Context(), limits, emit)
	r.report.fill(r, s, ids, result)
	if r.json && err == nil {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(r.report)
	} else if r.Tokenizer == nil && !r.json {
		_, err = fmt.Fprintln(out, idList(result.IDs()))
	} else if isTerminal(out) {
		fmt.Fprintln(out)
	}
	if r.verbose {
		r.report.print(r.cmd.ErrOrStderr())
	}
	return err
}

func (r *generation) limits() (decode.Limits, error) {
	l := decode.Limits{MaxTokens: r.maxTokens, EOS: r.EOS}
	if r.ignoreEOS {
		l.EOS = nil
	}
	if r.Tokenizer != nil {
		l.Decoder = r.Tokenizer.NewStream(true)
	}
	if len(r.stops) > 0 {
		if r.Tokenizer == nil {
			return l, usagef("--stop needs a tokenizer, and %s has none", r.Name)
		}
		filter, err := tokenizer.NewStopFilter(r.stops...)
		if err != nil {
			return l, usagef("--stop: %v", err)
		}
		l.Stop = filter
	}
	return l, nil
}

func (r *generation) verbosef(format string, args ...any) {
	if r.verbose {
		fmt.Fprintf(r.cmd.ErrOrStderr(), format+"\n", args...)
	}
}

// asUsagePrompt makes a prompt that does not fit a usage error.
func asUsagePrompt(err error) error {
	if errors.Is(err, decode.ErrFull) {
		return usageError{err}
	}
	return err
}

// timed adds what fn takes to *ms.
func timed(ms *float64, fn func() error) error {
	start := time.Now()
	err := fn()
	*ms += milliseconds(time.Since(start))
	return err
}

func milliseconds(d time.Duration) float64 { return math.Round(float64(d.Microseconds())) / 1000 }
