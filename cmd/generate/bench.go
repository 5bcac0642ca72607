package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"blitzen/decode"
	"blitzen/sample"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gonum.org/v1/gonum/stat"
)

// benchFlags are those of generate bench.
type benchFlags struct {
	modelFlags
	attentionFlags
	prompts, methods string
	tokens           int
	repeats          int
	output           string
}

func newBenchCommand() *cobra.Command {
	b := &benchFlags{}
	cmd := newCommand("bench [flags] MODEL", "Time reading a prompt and decoding after it", b.run)
	addFlags(cmd, "Measurement", func(f *pflag.FlagSet) {
		f.StringVarP(&b.prompts, "n-prompt", "p", "512,4096", "prompt lengths, `N` tokens, separated by commas")
		f.IntVarP(&b.tokens, "n-gen", "n", 32, "decode `N` tokens after each prompt")
		f.IntVarP(&b.repeats, "repetitions", "r", 3, "time `N` repetitions, after one that is not counted")
		f.StringVarP(&b.output, "output", "o", "md", "`FORMAT` of the results: md, json, jsonl")
	})
	addFlags(cmd, "Attention (methods are separated by commas)", func(f *pflag.FlagSet) {
		f.StringVar(&b.methods, "attention", "dense,santapp", "decode by `NAMES`: "+attentionNames)
		b.attentionFlags.registerTeams(f, "the repetition")
	})
	addFlags(cmd, "Model", b.modelFlags.register)
	return cmd
}

// benchRow is one figure: mean and standard deviation over the repetitions.
type benchRow struct {
	Model     string  `json:"model"`
	Device    string  `json:"device"`
	Test      string  `json:"test"` // llama-bench's names: pp4096, tg32 @ d4096
	Attention string  `json:"attention"`
	Mean      float64 `json:"mean"`
	StdDev    float64 `json:"stddev"`
	Unit      string  `json:"unit"`
	Access    float64 `json:"access_percent,omitempty"`
}

// samples are the repetitions of one test.
type samples struct {
	benchRow
	values []float64
}

func (b *benchFlags) run(cmd *cobra.Command, args []string) error {
	lengths, err := b.check()
	if err != nil {
		return err
	}
	o, err := b.modelFlags.open(args)
	if err != nil {
		return err
	}
	defer o.Close()
	longest := slices.Max(lengths) + min(b.tokens, o.Config.MaxPositions)
	if longest > o.Config.MaxPositions {
		return usagef("-p %d and -n %d: the model's limit is %d tokens in all", slices.Max(lengths), b.tokens, o.Config.MaxPositions)
	}
	if err := o.load(longest, b.each()...); err != nil {
		return err
	}
	var rows []*samples
	for _, n := range lengths {
		more, err := b.length(cmd, o, n)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	return b.print(cmd.OutOrStdout(), rows)
}

// check refuses flags before a model is loaded.
func (b *benchFlags) check() (lengths []int, err error) {
	for _, s := range choices(b.prompts) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, usagef("-p %q: want numbers of tokens, separated by commas", s)
		}
		lengths = append(lengths, n)
	}
	methods := b.each()
	for _, one := range methods {
		if err := one.check("--attention"); err != nil {
			return nil, err
		}
	}
	switch {
	case len(lengths) == 0 || len(methods) == 0 || b.tokens < 1 || b.repeats < 1:
		return nil, usagef("nothing to do: -p %q, -n %d, -r %d, --attention %q", b.prompts, b.tokens, b.repeats, b.methods)
	case b.output != "md" && b.output != "json" && b.output != "jsonl":
		return nil, usagef("-o %q: want md, json or jsonl", b.output)
	}
	return lengths, nil
}

// each is the flags of every method that --attention names.
func (b *benchFlags) each() []attentionFlags {
	var all []attentionFlags
	for _, name := range choices(b.methods) {
		all = append(all, b.as(name))
	}
	return all
}

// length times one prompt length: all methods after each prefill, so that noise
// of the machine falls on all alike.
func (b *benchFlags) length(cmd *cobra.Command, o *opened, n int) ([]*samples, error) {
	at := map[string]*samples{}
	var order []*samples
	add := func(test, method, unit string, value, access float64) {
		s := at[test+method]
		if s == nil {
			s = &samples{benchRow: benchRow{Model: o.title(), Device: o.Device.Name(), Test: test, Attention: method, Unit: unit, Access: access}}
			at[test+method] = s
			order = append(order, s)
		}
		s.values = append(s.values, value)
	}
	for i := range b.repeats + 1 {
		record := add
		if i == 0 {
			record = func(string, string, string, float64, float64) {}
		}
		if err := b.once(cmd, o, n, uint64(i), record); err != nil {
			return nil, err
		}
	}
	return order, nil
}

func (b *benchFlags) once(cmd *cobra.Command, o *opened, n int, seed uint64, add func(test, method, unit string, value, access float64)) error {
	s, err := decode.New(o.Device, o.Model, decode.Options{Capacity: n + b.tokens, Sampling: sample.Greedy()})
	if err != nil {
		return err
	}
	defer s.Close()
	start := time.Now()
	if err := s.Prefill(cmd.Context(), randomIDs(n, o.Config.Vocab, seed), nil); err != nil {
		return err
	}
	add(fmt.Sprintf("pp%d", n), "dense", "tokens/s", float64(n)/time.Since(start).Seconds(), 0)
	for _, flags := range b.each() {
		build, err := flags.builder(cmd.Context(), o.loaded, cmd.Flags(), seed, nil)
		if err != nil {
			return err
		}
		start = time.Now()
		if err := s.Build(build); err != nil {
			return err
		}
		if flags.groupsKeys() {
			add(fmt.Sprintf("teams @ d%d", n), flags.label(), "s", time.Since(start).Seconds(), 0)
		}
		rate, err := decodeRate(cmd.Context(), s, b.tokens)
		if err != nil {
			return err
		}
		add(fmt.Sprintf("tg%d @ d%d", b.tokens, n), flags.label(), "tokens/s", rate, s.Access().Percent())
	}
	return nil
}

func decodeRate(ctx context.Context, s *decode.Session, tokens int) (perSecond float64, err error) {
	start := time.Now()
	for range tokens {
		if _, err := s.Next(ctx); err != nil {
			return 0, err
		}
	}
	return float64(tokens) / time.Since(start).Seconds(), nil
}

// randomIDs are a prompt without meaning, as llama-bench uses.
func randomIDs(n, vocab int, seed uint64) []int32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(rng.IntN(vocab))
	}
	return ids
}

func (b *benchFlags) print(w io.Writer, rows []*samples) error {
	var out []benchRow
	for _, s := range rows {
		s.Mean = stat.Mean(s.values, nil)
		if len(s.values) > 1 {
			s.StdDev = stat.StdDev(s.values, nil)
		}
		out = append(out, s.benchRow)
	}
	switch b.output {
	case "json":
		return json.NewEncoder(w).Encode(out)
	case "jsonl":
		for _, r := range out {
			if err := json.NewEncoder(w).Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "| model\t| device\t| test\t| attention\t| figure\t| unit\t| KV access %\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, r := range out {
		access := "-"
		if r.Access > 0 {
			access = fmt.Sprintf("%.1f", r.Access)
		}
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %s\t| %.2f ± %.2f\t| %s\t| %s\t|\n", r.Model, r.Device, r.Test, r.Attention, r.Mean, r.StdDev, r.Unit, access)
	}
	return t.Flush()
}
