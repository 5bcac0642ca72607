package main

import (
	"slices"
	"strconv"
	"strings"

	"blitzen/device"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// benchFlags are those of generate bench.
type benchFlags struct {
	modelFlags
	attentionFlags
	operatorFlags
	prompts, tokens, depths, methods string
	repeats                          int
	kernels                          bool
	output                           string
}

func newBenchCommand() *cobra.Command {
	b := &benchFlags{}
	cmd := newCommand("bench [flags] MODEL", "Time reading a prompt and decoding after it", b.run)
	cmd.Long = `Time reading a prompt and decoding after it, or with --attention-op the attention of one decode step by itself.

MB a token are the bytes that a decoded token has to read: weights, each once, and rows of the cache. % of copies is
those bytes over the time, in percent of what large copies on the device read and write (on a GPU; "-" elsewhere).`
	addFlags(cmd, "Measurement", func(f *pflag.FlagSet) {
		listVar(f, &b.prompts, "n-prompt", "p", "512,4096", "read prompts of `N` tokens; 0 for none. Lists are separated by commas")
		listVar(f, &b.tokens, "n-gen", "n", "32", "decode `N` tokens; 0 for none")
		listVar(f, &b.depths, "n-depth", "d", "", "at depth `N`, after so many tokens (default: 0; decode after each prompt)")
		f.IntVarP(&b.repeats, "repetitions", "r", 3, "time `N` repetitions, after one that is not counted")
		f.BoolVar(&b.kernels, "kernels", false, "on a GPU, time every kernel of a pass too, one after another")
		f.StringVarP(&b.output, "output", "o", "md", "`FORMAT` of the results: md, json, jsonl, csv")
	})
	addFlags(cmd, "Attention (methods are separated by commas)", func(f *pflag.FlagSet) {
		listVar(f, &b.methods, "attention", "", "dense,santapp", "decode by `NAMES`: "+attentionNames)
		b.attentionFlags.registerTeams(f, "the repetition")
	})
	addFlags(cmd, "Attention by itself, on rows of MODEL", b.operatorFlags.register)
	addFlags(cmd, "Model", b.modelFlags.register)
	return cmd
}

func (b *benchFlags) run(cmd *cobra.Command, args []string) (err error) {
	if !slices.Contains(benchFormats, b.output) {
		return usagef("-o %q: want md, json, jsonl or csv", b.output)
	}
	if err := b.operatorFlags.checkUse(cmd.Flags()); err != nil {
		return err
	}
	wantFigures(cmd.Context())
	if b.attentionOp {
		return b.runOperator(cmd, args)
	}
	visits, err := b.plan()
	if err != nil {
		return err
	}
	o, err := b.modelFlags.open(args)
	if err != nil {
		return err
	}
	defer o.end(&err)
	o.noteUnused(cmd.ErrOrStderr(), cmd.Flags(), b.each()...)
	b.attentionFlags = b.forModel(o.loaded)
	return b.runModel(cmd, o, visits)
}

// visit is one session: a prompt and what is measured at its end.
type visit struct {
	depth  int   // tokens of the prompt
	timed  bool  // reading it is a result
	more   int   // tokens read after it; 0 for none
	tokens []int // decoded at its end
}

// rows is the capacity that the session needs.
func (v visit) rows() int {
	most := v.more
	for _, n := range v.tokens {
		most = max(most, n)
	}
	return max(v.depth, 1) + most
}

// plan checks the flags and cuts the work into sessions.
func (b *benchFlags) plan() ([]visit, error) {
	prompts, err := numbers("-p", b.prompts)
	if err != nil {
		return nil, err
	}
	tokens, err := numbers("-n", b.tokens)
	if err != nil {
		return nil, err
	}
	depths, err := numbers("-d", b.depths)
	if err != nil {
		return nil, err
	}
	methods := b.each()
	for _, one := range methods {
		if err := one.check("--attention"); err != nil {
			return nil, err
		}
	}
	if b.repeats > mostRepeats {
		return nil, usagef("-r %d: want at most %d", b.repeats, mostRepeats)
	}
	visits := visitsOf(positive(prompts), positive(tokens), depths)
	if len(visits) == 0 || len(methods) == 0 || b.repeats < 1 {
		return nil, usagef("nothing to do: -p %q, -n %q, -r %d, --attention %q", b.prompts, b.tokens, b.repeats, b.methods)
	}
	return visits, nil
}

// visitsOf is the sessions for all prompts and tokens at all depths; without
// depths, tokens after each prompt, or after one token where there is none.
func visitsOf(prompts, tokens, depths []int) (visits []visit) {
	if len(depths) == 0 {
		for _, p := range prompts {
			visits = append(visits, visit{depth: p, timed: true, tokens: tokens})
		}
		if len(prompts) == 0 && len(tokens) > 0 {
			visits = append(visits, visit{tokens: tokens})
		}
		return visits
	}
	for _, d := range depths {
		for _, p := range prompts {
			if d == 0 {
				visits = append(visits, visit{depth: p, timed: true})
			} else {
				visits = append(visits, visit{depth: d, more: p})
			}
		}
		if len(tokens) > 0 {
			visits = append(visits, visit{depth: d, tokens: tokens})
		}
	}
	return visits
}

// numbers reads a list of whole numbers.
func numbers(flag, list string) (out []int, err error) {
	for _, s := range choices(list) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > mostTokens {
			return nil, usagef("%s %q: want whole numbers of 0 to %d, separated by commas", flag, list, mostTokens)
		}
		out = append(out, n)
	}
	return out, nil
}

// mostRepeats is more than anyone waits for.
const mostRepeats = 1_000_000

// mostTokens is more than any model takes; sums of a few cannot overflow.
const mostTokens = 1 << 40

func positive(list []int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(n int) bool { return n == 0 })
}

// each is the flags of every method that --attention names.
func (b *benchFlags) each() []attentionFlags {
	var all []attentionFlags
	for _, name := range choices(b.methods) {
		all = append(all, b.as(name))
	}
	return all
}

// newMachine describes what is measured, with the rate of the device's copies.
func newMachine(o *opened) (machine, error) {
	m := machine{Model: o.title(), Device: o.Device.Name(), DType: strings.ToLower(o.Device.DType().String()), Version: version, Commit: commit()}
	p, ok := o.Device.(device.Profiler)
	if !ok {
		return m, nil
	}
	rate, err := p.CopyRate()
	m.CopyGBs = rate / 1e9
	return m, err
}
