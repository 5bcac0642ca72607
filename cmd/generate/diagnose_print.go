package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"blitzen/eval"
	"blitzen/eval/diagnostics"
	"blitzen/report"
)

// thresholds of the window effectiveness ratio, the paper's.
var thresholds = []float64{0.5, 0.75, 0.9}

// printTables prints the figures of each task.
func (d *diagnoseFlags) printTables(w io.Writer, o *opened, found []*diagnosis) error {
	for i, f := range found {
		if i > 0 {
			fmt.Fprintln(w)
		}
		prompts := count(len(f.Task), "prompt")
		if f.limit > 0 {
			prompts += fmt.Sprintf(" of at most %s, task seed %d", count(f.limit, "token"), d.taskSeed)
		}
		fmt.Fprintf(w, "%s, %s, %s, %.1f steps of exact decoding each\n\n", o.title(), f.task, prompts, f.Steps())
		for _, print := range []func(io.Writer, *diagnosis) error{printRoutings, printWindows, printCompact, printJensen} {
			if err := print(w, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// printRoutings is Table 1 of the paper, with the parts of the divergence and the
// layers.
func printRoutings(w io.Writer, f *diagnosis) error {
	fmt.Fprintln(w, "KL of exact attention over the prompt from what a routing proposes, nats (Eq. 11)")
	t := report.Table{Head: []string{"routing", "groups", "KL", "interval", "of scores", "of grouping", "less than the first by"}}
	for i := range f.Task[0].Windows {
		t.Head = append(t.Head, fmt.Sprintf("layer %d", i))
	}
	for i, r := range f.Task[0].Routings {
		grid := func(p diagnostics.Prompt) diagnostics.Grid[diagnostics.Divergence] { return p.Routings[i].Grid }
		part := func(of func(diagnostics.Divergence) float64) string {
			return decimals(f.Mean(func(p diagnostics.Prompt) float64 { return grid(p).Mean(of) }).Mean)
		}
		groups := f.Mean(func(p diagnostics.Prompt) float64 { return p.Routings[i].Groups }).Mean
		kl, less := f.KL(i), "-"
		interval := "-"
		if kl.Known() {
			interval = decimals(kl.Low) + " to " + decimals(kl.High)
		}
		if i > 0 {
			less = signed(f.Less(i, 0))
		}
		row := []string{
			r.Name, fmt.Sprintf("%.0f", groups), decimals(kl.Mean), interval,
			part(func(d diagnostics.Divergence) float64 { return d.Scores }), part(func(d diagnostics.Divergence) float64 { return d.Grouping }), less,
		}
		byHead := diagnostics.Over(f.Task, grid, diagnostics.Divergence.KL)
		for l := range byHead {
			row = append(row, decimals(byHead.Layer(l, same)))
		}
		t.Rows = append(t.Rows, row)
	}
	return printMarkdown(w, t)
}

func decimals(v float64) string { return fixed("%.3f", v) }

// signed has an interval where that is known.
func signed(i eval.Interval) string {
	const format = "%+.3f"
	if !i.Known() {
		return fixed(format, i.Mean)
	}
	return fmt.Sprintf("%s (%s to %s)", fixed(format, i.Mean), fixed(format, i.Low), fixed(format, i.High))
}

func same(x float64) float64 { return x }

// printWindows is Table 7.
func printWindows(w io.Writer, f *diagnosis) error {
	fmt.Fprintln(w, "\nHeads whose best 32 windows of 16 tokens hold so much of the best 512 tokens' mass (Eq. 12)")
	t := report.Table{Head: []string{"ratio", "heads %", "interval"}}
	for _, x := range thresholds {
		share := f.Effective(x)
		t.Rows = append(t.Rows, []string{fmt.Sprintf("≥ %.2f", x), meanPercent(share.Mean), intervalPercent(share)})
	}
	return printMarkdown(w, t)
}

// printCompact is Figure 4.
func printCompact(w io.Writer, f *diagnosis) error {
	fmt.Fprintln(w, "\nMean distance of a key to the mean of its group (Appendix B.3)")
	t := report.Table{Head: []string{"layer", "k-means", "consecutive", "random"}}
	row := func(name string, of func(diagnostics.Prompt, func(diagnostics.Compact) float64) float64) {
		cells := []string{name}
		for _, group := range compactGroups {
			x := f.Mean(func(p diagnostics.Prompt) float64 { return of(p, group) })
			cells = append(cells, decimals(x.Mean))
		}
		t.Rows = append(t.Rows, cells)
	}
	for i := range f.Task[0].Compact {
		row(fmt.Sprint(i), func(p diagnostics.Prompt, group func(diagnostics.Compact) float64) float64 {
			return p.Compact.Layer(i, group)
		})
	}
	row("all", func(p diagnostics.Prompt, group func(diagnostics.Compact) float64) float64 {
		return p.Compact.Mean(group)
	})
	return printMarkdown(w, t)
}

var compactGroups = []func(diagnostics.Compact) float64{
	func(c diagnostics.Compact) float64 { return c.Clusters },
	func(c diagnostics.Compact) float64 { return c.Contiguous },
	func(c diagnostics.Compact) float64 { return c.Random },
}

// printJensen says what mean keys make of the clusters' masses.
func printJensen(w io.Writer, f *diagnosis) error {
	fmt.Fprintln(w, "\nExact mass of a k-means cluster over that of its mean key, for the last prompt token (Eq. 2): percentiles over")
	fmt.Fprintln(w, "clusters, and the geometric mean weighted by mass; means over heads and prompts")
	t := report.Table{Head: []string{"layer", "median", "90 %", "99 %", "largest", "by mass"}}
	for i := range f.Task[0].Jensen {
		cells := []string{fmt.Sprint(i)}
		for _, of := range jensenFigures {
			x := f.Mean(func(p diagnostics.Prompt) float64 { return p.Jensen.Layer(i, of) })
			cells = append(cells, fmt.Sprintf("%.3g", x.Mean))
		}
		t.Rows = append(t.Rows, cells)
	}
	return printMarkdown(w, t)
}

var jensenFigures = []func(diagnostics.JensenRatios) float64{
	func(j diagnostics.JensenRatios) float64 { return j.Median },
	func(j diagnostics.JensenRatios) float64 { return j.P90 },
	func(j diagnostics.JensenRatios) float64 { return j.P99 },
	func(j diagnostics.JensenRatios) float64 { return j.Max },
	func(j diagnostics.JensenRatios) float64 { return j.Weighted },
}

// diagnosisReport is the JSON object of one task. Grids are [layers][heads],
// means over prompts; of compactness, [layers][key heads].
type diagnosisReport struct {
	Model     string          `json:"model"`
	ModelHash string          `json:"model_hash"`
	Task      string          `json:"task"`
	Length    int             `json:"length"`
	TaskSeed  uint64          `json:"task_seed"`
	Prompts   int             `json:"prompts"`
	Steps     float64         `json:"steps"`
	Routings  []routingReport `json:"routings"`
	Windows   []windowReport  `json:"window_effectiveness"`
	Ratios    [][]float64     `json:"window_ratios"`
	Compact   map[string]any  `json:"compactness"`
	Jensen    map[string]any  `json:"jensen"`
}

type routingReport struct {
	Name     string      `json:"name"`
	Groups   float64     `json:"groups"`
	KL       float64     `json:"kl"`
	Low      *float64    `json:"low"` // null where there is no interval
	High     *float64    `json:"high"`
	Scores   [][]float64 `json:"kl_of_scores"`
	Grouping [][]float64 `json:"kl_of_grouping"`
}

type windowReport struct {
	AtLeast float64  `json:"at_least"`
	Heads   float64  `json:"heads_percent"`
	Low     *float64 `json:"low"`
	High    *float64 `json:"high"`
}

func (d *diagnoseFlags) printJSON(w io.Writer, o *opened, found []*diagnosis) error {
	encoder := json.NewEncoder(w)
	for _, f := range found {
		if err := encoder.Encode(d.report(o, f)); err != nil {
			return err
		}
	}
	return nil
}

// finite has null for what JSON cannot hold: a ratio of masses overflows where
// --sharpen is large.
func finite(grid diagnostics.Grid[float64]) [][]*float64 {
	out := make([][]*float64, len(grid))
	for i := range grid {
		out[i] = make([]*float64, len(grid[i]))
		for j := range grid[i] {
			if v := &grid[i][j]; !math.IsInf(*v, 0) && !math.IsNaN(*v) {
				out[i][j] = v
			}
		}
	}
	return out
}

// end is an end of an interval, nil where that is not known.
func end(of eval.Interval, at float64) *float64 {
	if !of.Known() {
		return nil
	}
	return &at
}

func (d *diagnoseFlags) report(o *opened, f *diagnosis) diagnosisReport {
	r := diagnosisReport{
		Model: o.title(), ModelHash: o.Checkpoint.Fingerprint(), Task: f.task, Length: f.limit, TaskSeed: d.taskSeed, Prompts: len(f.Task), Steps: f.Steps(),
		Ratios: diagnostics.Over(f.Task, func(p diagnostics.Prompt) diagnostics.Grid[float64] { return p.Windows }, same),
	}
	for i, own := range f.Task[0].Routings {
		grid := func(p diagnostics.Prompt) diagnostics.Grid[diagnostics.Divergence] { return p.Routings[i].Grid }
		kl := f.KL(i)
		r.Routings = append(r.Routings, routingReport{
			Name: own.Name, Groups: f.Mean(func(p diagnostics.Prompt) float64 { return p.Routings[i].Groups }).Mean, KL: kl.Mean, Low: end(kl, kl.Low), High: end(kl, kl.High),
			Scores:   diagnostics.Over(f.Task, grid, func(d diagnostics.Divergence) float64 { return d.Scores }),
			Grouping: diagnostics.Over(f.Task, grid, func(d diagnostics.Divergence) float64 { return d.Grouping }),
		})
	}
	for _, x := range thresholds {
		share := f.Effective(x)
		r.Windows = append(r.Windows, windowReport{x, 100 * share.Mean, end(share, 100*share.Low), end(share, 100*share.High)})
	}
	compact := func(p diagnostics.Prompt) diagnostics.Grid[diagnostics.Compact] { return p.Compact }
	r.Compact = map[string]any{}
	for i, name := range []string{"kmeans", "contiguous", "random"} {
		r.Compact[name] = diagnostics.Over(f.Task, compact, compactGroups[i])
	}
	ratios := func(p diagnostics.Prompt) diagnostics.Grid[diagnostics.JensenRatios] { return p.Jensen }
	r.Jensen = map[string]any{}
	for i, name := range []string{"median", "p90", "p99", "max", "by_mass"} {
		r.Jensen[name] = finite(diagnostics.Over(f.Task, ratios, jensenFigures[i]))
	}
	return r
}
