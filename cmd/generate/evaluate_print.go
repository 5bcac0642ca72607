package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"blitzen/decode"
	"blitzen/eval"
	"blitzen/report"
)

// printResults prints a table for every task, length and way of the answer
// prefix.
func printResults(w io.Writer, r eval.Results, pairs string) error {
	as, bs, err := parsePairs(pairs)
	if err != nil {
		return err
	}
	skipped, cut := 0, 0
	for _, a := range r.Answers {
		switch {
		case a.Skipped != "":
			skipped++
		case a.Finish == decode.FinishContext:
			cut++
		}
	}
	fmt.Fprintf(w, "%s (%s), %s on %s; task seed %s, attention seed %s; %s\n", r.Model.Path, r.Model.Hash, r.Model.DType, r.Model.Device,
		r.Settings["--task-seed"], r.Settings["--attention-seed"], strings.Trim(string(r.Settings["template"]), `"`))
	fmt.Fprintf(w, "95 %% intervals by bootstrap over prompts within tasks (%d resamples, seed %d)\n", eval.Resamples, bootstrapSeed)
	if skipped > 0 {
		fmt.Fprintf(w, "%s skipped\n", count(skipped, "prompt"))
	}
	if cut > 0 {
		fmt.Fprintf(w, "%s cut off at the model's limit of tokens\n", count(cut, "answer"))
	}
	above := false
	for _, t := range eval.Summarize(r, bootstrapSeed) {
		above = above || readsAboveAll(t.Lines)
		if err := printTable(w, t); err != nil {
			return err
		}
		for i := range as {
			if err := printPairs(w, t.Pairs(as[i], bs[i])); err != nil {
				return err
			}
		}
	}
	if above {
		_, err = fmt.Fprintf(w, "\n%s\n", aboveAll)
	}
	return err
}

// readsAboveAll reports whether a method read more than dense attention does.
func readsAboveAll(lines []eval.Line) bool {
	return slices.ContainsFunc(lines, func(l eval.Line) bool { return l.Percent > 100 })
}

// tableTitle says what a table's prompts are.
func tableTitle(t eval.Table) string {
	title := strings.Join(t.Tasks, ", ")
	if len(t.Tasks) > 1 {
		title = fmt.Sprintf("mean of %d tasks (%s)", len(t.Tasks), title)
	}
	if t.Limit > 0 {
		title += ", " + count(t.Limit, "token")
	}
	if t.Prefix != "" {
		title += ", " + t.Prefix + " answer prefix"
	}
	return title
}

func printTable(w io.Writer, t eval.Table) error {
	diverged := false
	for _, l := range t.Lines {
		diverged = diverged || l.Divergence.Steps > 0
	}
	fmt.Fprintf(w, "\n%s, %s\n\n", tableTitle(t), count(t.Lines[0].Prompts, "prompt"))
	out := report.Table{Head: []string{"attention", "full score", "score %", "interval", "of dense %", "interval", "KV access %", "bytes %", "null"}}
	if diverged {
		out.Head = append(out.Head, "Mean KLD", "Maximum KLD", "Same top p %")
	}
	for _, l := range t.Lines {
		row := []string{
			l.Label, fmt.Sprintf("%d of %d", l.Exact, l.Answers), meanPercent(l.Score.Mean), intervalPercent(l.Score), meanPercent(l.Normalised.Mean), intervalPercent(l.Normalised),
			fmt.Sprintf("%.1f", l.Percent), fmt.Sprintf("%.1f", l.Access.BytesPercent()), fmt.Sprint(l.Nulls),
		}
		if diverged {
			row = append(row, divergenceCells(l.Divergence)...)
		}
		out.Rows = append(out.Rows, row)
	}
	if err := printMarkdown(w, out); err != nil {
		return err
	}
	if note := unvaried(t.Lines); note != "" {
		_, err := fmt.Fprintf(w, "\n%s\n", note)
		return err
	}
	return nil
}

// unvaried says what an interval is worth where all answers of a method
// were right, or none: resamples of such prompts are all alike. The other
// outcome's rate is then below 1 − 0.05^(1/n) with 95 % confidence, about 3/n
// for large n (Hanley and Lippman-Hand, If nothing goes wrong, is everything all
// right?, JAMA 1983).
func unvaried(lines []eval.Line) string {
	for _, l := range lines {
		if l.Score.Known() && (l.Exact == l.Answers || l.Score.Mean == 0) {
			n := float64(l.Prompts)
			return fmt.Sprintf("All or none of %s right: an interval without width says only that the other outcome's rate is below %.1f %% (95 %%; about 3/n)",
				count(l.Prompts, "prompt"), 100*(1-math.Pow(0.05, 1/n)))
		}
	}
	return ""
}

// divergenceCells are a table's last three.
func divergenceCells(d eval.Divergence) []string {
	if d.Steps == 0 {
		return []string{"-", "-", "-"}
	}
	n := float64(d.Steps)
	return []string{fmt.Sprintf("%.3g", d.KL/n), fmt.Sprintf("%.3g", d.Max), fmt.Sprintf("%.2f", 100*float64(d.Same)/n)}
}

// meanPercent is a share in percent.
func meanPercent(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fixed("%.1f", 100*v)
}

// intervalPercent is an interval in percent.
func intervalPercent(i eval.Interval) string {
	if !i.Known() {
		return "-"
	}
	return fixed("%.1f", 100*i.Low) + " to " + fixed("%.1f", 100*i.High)
}

// printPairs prints differences on the same prompts, in points.
func printPairs(w io.Writer, pairs []eval.Pair) error {
	if len(pairs) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	out := report.Table{Head: []string{"difference", "points", "interval"}}
	for _, p := range pairs {
		out.Rows = append(out.Rows, []string{p.A.Label + " − " + p.B.Label, meanPercent(p.Difference.Mean), intervalPercent(p.Difference)})
	}
	return printMarkdown(w, out)
}
