package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"blitzen/decode"
	"blitzen/device"
	"blitzen/sample"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"
)

// benchRow is one figure: mean and standard deviation over the repetitions.
type benchRow struct {
	machine
	Test      string    `json:"test"` // llama-bench's names: pp4096, tg32 @ d4096
	Prompt    int       `json:"n_prompt"`
	Tokens    int       `json:"n_gen"`
	Depth     int       `json:"n_depth"`
	Attention string    `json:"attention"`
	Mean      float64   `json:"mean"`
	StdDev    float64   `json:"stddev"`
	Unit      string    `json:"unit"`
	Samples   []float64 `json:"samples"`
	Access    float64   `json:"access_percent,omitempty"`
	// Of a decoded token: its time, what it reads of weights, each once, and of
	// the cache, and what part of the device's copy rate that is.
	TokenMS     float64 `json:"ms_per_token,omitempty"`
	TokenBytes  float64 `json:"bytes_per_token,omitempty"`
	CopyPercent float64 `json:"copy_percent,omitempty"`
}

var benchColumns = []column[*benchRow]{
	{"model", func(r *benchRow) string { return r.Model }},
	{"device", func(r *benchRow) string { return r.Device }},
	{"test", func(r *benchRow) string { return r.Test }},
	{"attention", func(r *benchRow) string { return r.Attention }},
	{"figure", (*benchRow).figure},
	{"unit", func(r *benchRow) string { return r.Unit }},
	{"ms a token", func(r *benchRow) string { return known("%.3f", r.TokenMS) }},
	{"MB a token", func(r *benchRow) string { return known("%.1f", r.TokenBytes/1e6) }},
	{"% of copies", func(r *benchRow) string { return known("%.1f", r.CopyPercent) }},
	{"KV access %", func(r *benchRow) string { return known("%.1f", r.Access) }},
}

// figure is mean ± standard deviation, which one repetition does not have.
// Teams may take less than a hundredth of a second.
func (r *benchRow) figure() string {
	format := "%.2f"
	if r.Unit == "s" {
		format = "%.4f"
	}
	text := fmt.Sprintf(format, r.Mean)
	if len(r.Samples) > 1 {
		text += " ± " + fmt.Sprintf(format, r.StdDev)
	}
	return text
}

// modelBench collects the results of a model.
type modelBench struct {
	*benchFlags
	*opened
	on      machine
	cmd     *cobra.Command
	rows    []*benchRow
	at      map[string]*benchRow
	kernels []section
	notes   []string
	warm    bool // this repetition does not count
}

func (b *benchFlags) runModel(cmd *cobra.Command, o *opened, visits []visit) error {
	if b.kernels && !isGPU(o.Device) {
		return usagef("--kernels times kernels by a GPU's clock, and this is %s", o.Device.Name())
	}
	if b.loadFormat == "dummy" { // was not trained for any length
		o.Config.MaxPositions = max(o.Config.MaxPositions, mostTokens)
	}
	longest := 1
	for _, v := range visits {
		longest = max(longest, v.rows())
	}
	if longest > o.Config.MaxPositions {
		return usagef("-p %q, -n %q, -d %q: up to %d tokens: the model's limit is %d in all", b.prompts, b.tokens, b.depths, longest, o.Config.MaxPositions)
	}
	if err := o.load(longest, b.each()...); err != nil {
		return err
	}
	m := &modelBench{benchFlags: b, opened: o, cmd: cmd, at: map[string]*benchRow{}}
	var err error
	if m.on, err = newMachine(o); err != nil {
		return err
	}
	for _, v := range visits {
		if err = m.visit(v); err != nil {
			break
		}
	}
	return showRest(cmd.ErrOrStderr(), err, len(m.rows) > 0, m.print)
}

// visit repeats what is measured around one prompt. Where reading is no part of
// it, the prompt is read once for all repetitions.
func (m *modelBench) visit(v visit) error {
	var s *decode.Session
	shut := func() {
		if s != nil {
			s.Close()
			s = nil
		}
	}
	defer shut()
	reading := v.timed || v.more > 0
	for i := range m.repeats + 1 {
		m.warm = i == 0
		ids := randomIDs(max(v.depth, 1)+v.more, m.Config.Vocab, uint64(i))
		if s == nil {
			var err error
			if s, err = m.read(v, ids); err != nil {
				return err
			}
		}
		if err := m.after(s, v, ids, uint64(i)); err != nil {
			return err
		}
		if reading {
			shut()
		}
		if reading && m.warm && m.benchFlags.kernels {
			if err := m.prefillKernels(v, ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// read opens a session with the visit's prompt.
func (m *modelBench) read(v visit, ids []int32) (*decode.Session, error) {
	s, err := m.session(decode.Options{Capacity: v.rows(), Sampling: sample.Greedy()})
	if err != nil {
		return nil, err
	}
	start, n := time.Now(), max(v.depth, 1)
	if err := s.Prefill(m.cmd.Context(), ids[:n], nil); err != nil {
		s.Close()
		return nil, err
	}
	if v.timed {
		m.add(&benchRow{Prompt: n, Attention: "dense", Unit: "tokens/s"}, float64(n)/time.Since(start).Seconds())
	}
	return s, nil
}

// after measures all methods at the end of one prompt, so that noise of the
// machine falls on all alike, and then reads more.
func (m *modelBench) after(s *decode.Session, v visit, ids []int32, seed uint64) error {
	for _, flags := range m.each() {
		if len(v.tokens) > 0 {
			if err := m.decode(s, flags, v, seed); err != nil {
				return err
			}
		}
	}
	if v.more > 0 {
		start := time.Now()
		if err := s.Prefill(m.cmd.Context(), ids[max(v.depth, 1):], nil); err != nil {
			return err
		}
		m.add(&benchRow{Prompt: v.more, Depth: v.depth, Attention: "dense", Unit: "tokens/s"}, float64(v.more)/time.Since(start).Seconds())
	}
	return nil
}

// decode builds a method and times its tokens.
func (m *modelBench) decode(s *decode.Session, flags attentionFlags, v visit, seed uint64) error {
	build, err := flags.builder(m.cmd.Context(), m.loaded, m.cmd.Flags(), seed, nil)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := s.Build(build); err != nil {
		return err
	}
	if flags.groupsKeys() {
		m.add(&benchRow{Test: "teams", Depth: v.depth, Attention: flags.label(), Unit: "s"}, time.Since(start).Seconds())
	}
	weights, err := weightBytes(s)
	if err != nil {
		return err
	}
	for _, n := range v.tokens {
		before := s.Access()
		rate, err := decodeRate(m.cmd.Context(), s, n)
		if err != nil {
			return err
		}
		read := s.Access().Sub(before)
		row := &benchRow{
			Tokens: n, Depth: v.depth, Attention: flags.label(), Unit: "tokens/s",
			Access: read.Percent(), TokenBytes: weights + float64(read.Bytes())/float64(n),
		}
		m.add(row, rate)
		if flags.report(read, 0).exhaustive() {
			m.note(fmt.Sprintf("At depth %d %s %s.", v.depth, row.Attention, readEveryRow))
		}
		if row.Access > 100 {
			m.note(aboveAll + ".")
		}
		if err := s.Truncate(max(v.depth, 1)); err != nil {
			return err
		}
		if m.warm && m.benchFlags.kernels && n == v.tokens[0] {
			rows := float64((read.Rows+read.Suffix)*read.RowBytes) / float64(n*m.Config.Layers)
			if err := m.stepKernels(s, row, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// note adds a line below the table, once.
func (m *modelBench) note(text string) {
	if !slices.Contains(m.notes, text) {
		m.notes = append(m.notes, text)
	}
}

// add appends a repetition to the results.
func (m *modelBench) add(r *benchRow, value float64) {
	r.machine = m.on
	switch {
	case r.Test != "":
	case r.Prompt > 0:
		r.Test = fmt.Sprintf("pp%d", r.Prompt)
	default:
		r.Test = fmt.Sprintf("tg%d", r.Tokens)
	}
	if r.Depth > 0 {
		r.Test = fmt.Sprintf("%s @ d%d", r.Test, r.Depth)
	}
	if m.warm {
		return
	}
	key := r.Test + r.Attention
	if m.at[key] == nil {
		m.at[key] = r
		m.rows = append(m.rows, r)
	}
	m.at[key].Samples = append(m.at[key].Samples, value)
	haveFigures(m.cmd.Context())
}

func (m *modelBench) print() error {
	for _, r := range m.rows {
		r.Mean = stat.Mean(r.Samples, nil)
		if len(r.Samples) > 1 {
			r.StdDev = stat.StdDev(r.Samples, nil)
		}
		if r.Tokens > 0 {
			r.TokenMS = 1e3 / r.Mean
			r.CopyPercent = r.copyShare(r.TokenBytes, 1e3*r.TokenMS)
		}
	}
	results := table[*benchRow]{columns: benchColumns, rows: m.rows, notes: m.notes}
	if note := m.on.copyNote("those bytes"); note != "" {
		results.notes = append(results.notes, "MB a token: the weights that a decoded token reads, each once, and rows of the cache. "+note)
	}
	return printSections(m.cmd.OutOrStdout(), m.output, append([]section{results}, m.kernels...)...)
}

// weightBytes is what a step reads of the weights.
func weightBytes(s *decode.Session) (total float64, err error) {
	err = s.Inspect(func(step func(*device.Ops)) error {
		calls, err := device.Calls(step)
		for _, c := range calls {
			total += float64(c.WeightBytes())
		}
		return err
	})
	return total, err
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
