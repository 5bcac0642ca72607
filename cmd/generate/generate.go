package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
	"unicode/utf8"

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
	cmd := newCommand("generate [flags] MODEL", "Answer a prompt with a language model", g.run)
	cmd.Version = version
	cmd.Long = `Answer a prompt with a language model, read from a Hugging Face checkpoint.

MODEL is a folder with config.json and *.safetensors, or org/name in the Hugging
Face cache. The answer goes to stdout, everything else to stderr.`
	cmd.Example = `  generate -p "What is a cache?" Qwen/Qwen2.5-7B-Instruct
  generate -f report.txt --attention dense -v Qwen/Qwen2.5-7B-Instruct
  generate compare models/needle-qwen2`
	addFlags(cmd, "Prompt", g.promptFlags.register)
	addFlags(cmd, "Length", func(f *pflag.FlagSet) {
		f.IntVarP(&g.maxTokens, "max-tokens", "n", 1024, "generate at most `N` tokens")
		f.IntVarP(&g.context, "ctx-size", "c", 0, "prompt and answer have at most `N` tokens (default: the model's limit)")
		f.StringArrayVar(&g.stops, "stop", nil, "end before `TEXT`; may be repeated")
		f.BoolVar(&g.ignoreEOS, "ignore-eos", false, "go on after an end token")
	})
	addFlags(cmd, "Choice of tokens (defaults: the checkpoint's generation_config.json, else greedy)", g.samplingFlags.register)
	addFlags(cmd, "Attention", g.attentionFlags.register)
	addFlags(cmd, "Model", g.modelFlags.register)
	addFlags(cmd, "Output", func(f *pflag.FlagSet) {
		f.BoolVar(&g.json, "json", false, "print one JSON object in place of the text")
		f.IntVar(&g.logprobs, "logprobs", 0, "add the `N` most probable tokens of each step to the JSON object")
		f.BoolVarP(&g.verbose, "verbose", "v", false, "print settings and timings to stderr")
	})
	return cmd
}

// aliases are the names that other programs have for the same flags.
func aliases(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "predict", "n-predict", "max-new-tokens":
		name = "max-tokens"
	case "temp":
		name = "temperature"
	case "repeat-penalty":
		name = "repetition-penalty"
	case "prompt-file":
		name = "file"
	case "max-model-len":
		name = "ctx-size"
	case "ignore-chat-template", "no-cnv", "no-conversation":
		name = "raw"
	case "attention-backend":
		name = "attention"
	}
	return pflag.NormalizedName(name)
}

func (g *generateFlags) run(cmd *cobra.Command, args []string) (err error) {
	if err := g.check(cmd.Flags()); err != nil {
		return err
	}
	if err := g.modelFlags.check(); err != nil {
		return err
	}
	src, err := g.find(args)
	if err != nil {
		return err
	}
	prompt, err := g.promptFlags.read(cmd)
	if err != nil {
		return err
	}
	start := time.Now()
	o, err := g.openSource(src)
	if err != nil {
		return err
	}
	defer o.end(&err)
	r := &generation{generateFlags: g, cmd: cmd, opened: o, report: newReport(o)}
	r.report.Timings.LoadMS = milliseconds(time.Since(start))
	o.noteUnused(cmd.ErrOrStderr(), cmd.Flags(), g.attentionFlags)
	g.attentionFlags = g.forModel(o.loaded)
	return r.run(prompt)
}

// check refuses flags before a model is loaded.
func (g *generateFlags) check(f *pflag.FlagSet) error {
	if err := g.attentionFlags.check("--attention"); err != nil {
		return err
	}
	if _, err := g.samplingFlags.settings(f, nil); err != nil {
		return err
	}
	switch {
	case g.maxTokens < 1:
		return usagef("-n %d: want at least 1", g.maxTokens)
	case g.context < 0:
		return usagef("-c %d: want at least 1, or 0 for the model's limit", g.context)
	case g.logprobs < 0:
		return usagef("--logprobs %d: want 0 or more", g.logprobs)
	case g.logprobs > 0 && !g.json:
		return usagef("--logprobs is part of the JSON object: add --json")
	case slices.Contains(g.stops, ""):
		return usagef("--stop: a stop text is empty")
	case slices.ContainsFunc(g.stops, func(s string) bool { return !utf8.ValidString(s) }):
		return usagef("--stop: a stop text is not UTF-8, as all that is generated is")
	}
	return nil
}

// generation is one run of the plain command.
type generation struct {
	*generateFlags
	*opened
	cmd      *cobra.Command
	settings sample.Settings
	report   generationReport
}

func (r *generation) run(prompt given) error {
	flags := r.cmd.Flags()
	ids, how, err := r.promptFlags.encode(r.cmd, r.opened, prompt)
	if err != nil {
		return err
	}
	if r.settings, err = r.samplingFlags.settings(flags, r.Generation); err != nil {
		return err
	}
	r.samplingFlags.noteUnused(r.cmd.ErrOrStderr(), flags, r.settings.Temperature)
	noteUnread(r.cmd.ErrOrStderr(), r.Generation)
	bar := newProgress(r.cmd.ErrOrStderr())
	defer bar.done() // before an error is told
	build, err := r.builder(r.cmd.Context(), r.loaded, flags, r.settings.Seed, bar.stage("building teams"))
	if err != nil {
		return err
	}
	capacity, err := contextSize(len(ids), r.maxTokens, r.context, flags.Changed("max-tokens"), r.Config)
	if err != nil {
		return err
	}
	limits, err := r.limits()
	if err != nil {
		return err
	}
	if err := timed(&r.report.Timings.LoadMS, func() error { return r.load(capacity, r.attentionFlags) }); err != nil {
		return err
	}
	s, err := r.session(decode.Options{Capacity: capacity, Sampling: r.settings, TopLogProbs: r.logprobs})
	if err != nil {
		return err
	}
	defer s.Close()
	if r.Chosen != "" {
		r.verbosef("device %s: %s", r.Device.Name(), r.Chosen)
	}
	r.verbosef("%s on %s; %s; attention %s; seed %d", r.title(), r.Device.Name(), how, r.label(), r.settings.Seed)
	if err := timed(&r.report.Timings.PromptMS, func() error { return s.Prefill(r.cmd.Context(), ids, bar.stage("reading the prompt")) }); err != nil {
		return err
	}
	if r.verbose {
		if err := r.printSpread(r.cmd.ErrOrStderr(), r.loaded, s); err != nil {
			return err
		}
	}
	if err := timed(&r.report.Timings.BuildMS, func() error { return s.Build(build) }); err != nil {
		return err
	}
	bar.done()
	return r.answer(s, ids, limits)
}

// answer decodes and prints.
func (r *generation) answer(s *decode.Session, ids []int32, limits decode.Limits) error {
	out := exact(r.cmd.OutOrStdout())
	var emit func(string) error
	if !r.json {
		emit = func(text string) error { _, err := io.WriteString(out, text); return err }
	}
	result, err := s.Generate(r.cmd.Context(), limits, emit)
	r.report.fill(r, s, ids, result)
	if printErr := r.printEnd(out, result, err == nil); err == nil {
		err = printErr
	}
	if r.verbose {
		if !r.json && r.Tokenizer != nil && !isTerminal(out) {
			fmt.Fprintln(r.cmd.ErrOrStderr()) // with 2>&1 the answer's line is not ended
		}
		r.report.print(r.cmd.ErrOrStderr())
	}
	return err
}

// printEnd prints what does not stream: the object, if the answer is complete,
// ids where there is no text, a terminal's last newline.
func (r *generation) printEnd(out io.Writer, result decode.Result, complete bool) error {
	switch {
	case r.json && complete:
		return printJSON(r.cmd.OutOrStdout(), r.report)
	case r.json:
		return nil
	case r.Tokenizer == nil && len(result.Tokens) > 0:
		_, err := fmt.Fprintln(out, idList(result.IDs()))
		return err
	case isTerminal(out):
		_, err := fmt.Fprintln(out)
		return err
	}
	return nil
}

// printJSON writes one object and a newline; <|im_end|> stays as it is.
func printJSON(w io.Writer, object any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(object)
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

// timed adds what fn takes to *ms.
func timed(ms *float64, fn func() error) error {
	start := time.Now()
	err := fn()
	*ms += milliseconds(time.Since(start))
	return err
}

func milliseconds(d time.Duration) float64 { return math.Round(float64(d.Microseconds())) / 1000 }
