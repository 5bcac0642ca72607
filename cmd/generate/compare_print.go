package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"blitzen/eval/divergence"
	"blitzen/report"
)

// print is the comparison for people.
func (c *compared) print(w io.Writer) error {
	if c.Prompt.Expected != "" {
		fmt.Fprintf(w, "expected  %s\n", c.Prompt.Expected)
	}
	for _, s := range []sideResult{c.A, c.B} {
		fmt.Fprintf(w, "%s\n  %s\n", s.Label, strings.ReplaceAll(strings.TrimSpace(s.shown()), "\n", "\n  "))
	}
	if err := c.printSides(w); err != nil {
		return err
	}
	verdict := "The two answers are the same."
	if c.A.shown() != c.B.shown() {
		verdict = "The two answers differ."
	}
	fmt.Fprintf(w, "\n%s\n", verdict)
	for _, s := range []sideResult{c.A, c.B} {
		s.Attention.printExhaustive(w, s.Label)
	}
	if c.aboveAll() {
		fmt.Fprintln(w, aboveAll)
	}
	fmt.Fprintf(w, "\n%s along %s's %s, %s as the base\n\n", c.B.Label, c.A.Label, count(len(c.A.TokenIDs), "token"), c.A.Label)
	if err := c.printFigures(w); err != nil {
		return err
	}
	if c.Control != nil {
		d := c.Control.Divergence
		_, err := fmt.Fprintf(w, "\nNoise floor, dense against dense (prompt read %d in place of %d tokens at once, rows shuffled): Mean KLD %s, Maximum KLD %s, RMS logit error %s, Same top p %.3f %%\n",
			c.Control.Chunk, c.Control.UsualChunk, figure(d.MeanKLD.Value), figure(d.KLD.Maximum), figure(d.RMSLogit.Value), 100*d.SameTop.Value)
		return err
	}
	return nil
}

// aboveAll reports whether a method read more than dense attention does.
func (c *compared) aboveAll() bool {
	above := func(s seedResult) bool { return s.AccessPercent > 100 }
	return c.A.Attention.AccessPercent > 100 || slices.ContainsFunc(c.Seeds, above)
}

// shown is the answer's text, or its ids where there is no tokenizer.
func (s sideResult) shown() string {
	if s.Text == "" {
		return idList(s.TokenIDs)
	}
	return s.Text
}

func (c *compared) printSides(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, value func(sideResult) string) {
		fmt.Fprintf(t, "%s\t%s\t%s\t\n", name, value(c.A), value(c.B))
	}
	fmt.Fprintln(t)
	row("", func(s sideResult) string { return s.Label })
	row("correct", func(s sideResult) string { return yesNo(s.Exact) })
	row("KV access %", func(s sideResult) string { return fmt.Sprintf("%.1f", s.Attention.AccessPercent) })
	row("bytes read %", func(s sideResult) string { return fmt.Sprintf("%.1f", s.Attention.BytesPercent) })
	row("prefill s", func(sideResult) string { return fmt.Sprintf("%.2f", c.Prompt.PrefillMS/1000) })
	row("teams s", func(s sideResult) string { return fmt.Sprintf("%.2f", s.BuildMS/1000) })
	row("decode s", func(s sideResult) string { return fmt.Sprintf("%.2f", s.DecodeMS/1000) })
	row("ms a token", func(s sideResult) string { return fmt.Sprintf("%.1f", s.DecodeMS/float64(len(s.TokenIDs))) })
	return t.Flush()
}

// figures are those of the first seed as llama-perplexity prints them, and
// beside them the mean over seeds, if there are several.
func (c *compared) figures() report.Table {
	one, all := c.Seeds[0], c.OverSeeds
	t := report.Table{Head: []string{"", "± over tokens"}}
	if all != nil {
		t.Head = []string{"", fmt.Sprintf("seed %d, ± over tokens", one.Seed), fmt.Sprintf("%d seeds, mean ± s.e.", len(c.Seeds))}
	} else {
		all = &overSeeds{OutputErrors: make([]divergence.Estimate, len(one.OutputErrors))}
	}
	add := func(name, first, over string) {
		t.Rows = append(t.Rows, []string{name, first, over}[:len(t.Head)])
	}
	d := overTokens(one.Divergence)
	add("Mean PPL(Q)/PPL(base)", estimate(d.PPLRatio), estimate(all.PPLRatio))
	add("Mean KLD", estimate(d.MeanKLD), estimate(all.MeanKLD))
	add("Maximum KLD", figure(d.KLD.Maximum), estimate(all.MaximumKLD))
	add("99.9% KLD", figure(d.KLD.P999), estimate(all.P999KLD))
	add("Median KLD", figure(d.KLD.Median), estimate(all.MedianKLD))
	add("Mean Δp", shareEstimate(d.MeanDeltaP), shareEstimate(all.MeanDeltaP))
	add("RMS Δp", shareEstimate(d.RMSDeltaP), shareEstimate(all.RMSDeltaP))
	add("Same top p", shareEstimate(d.SameTop), shareEstimate(all.SameTop))
	add("RMS logit error", estimate(d.RMSLogit), estimate(all.RMSLogit))
	add("First differing token", one.differs(), "")
	if one.Exact != nil {
		add("Exact answer", yesNo(one.Exact), fmt.Sprintf("%d of %d", c.exact(), len(c.Seeds)))
	}
	add("Token match rate", fmt.Sprintf("%.3f %%", 100*one.MatchRate), shareEstimate(all.MatchRate))
	add("KV access", fmt.Sprintf("%.3f %%", one.AccessPercent), percentEstimate(all.AccessPercent))
	add("Bytes read", fmt.Sprintf("%.3f %%", one.BytesPercent), percentEstimate(all.BytesPercent))
	for layer, e := range one.OutputErrors {
		add(fmt.Sprintf("Attention output error, layer %d", layer), fmt.Sprintf("%.3f %%", 100*e), shareEstimate(all.OutputErrors[layer]))
	}
	return t
}

// printFigures prints them in columns.
func (c *compared) printFigures(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	figures := c.figures()
	for _, row := range append([][]string{figures.Head}, figures.Rows...) {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

func (s seedResult) differs() string {
	if s.FirstDiffers == nil {
		return "none"
	}
	return fmt.Sprint(*s.FirstDiffers)
}

// exact is how many seeds gave the expected answer.
func (c *compared) exact() int {
	n := 0
	for _, s := range c.Seeds {
		if s.Exact != nil && *s.Exact {
			n++
		}
	}
	return n
}

// overTokens has NaN in place of the errors that so few tokens do not give.
func overTokens(d divergence.Summary) divergence.Summary {
	if d.Steps < divergence.Enough {
		for _, e := range []*divergence.Estimate{&d.PPLRatio, &d.MeanKLD, &d.MeanDeltaP, &d.RMSDeltaP, &d.RMSLogit} {
			e.Error = math.NaN()
		}
	}
	if d.Steps < 2 {
		d.SameTop.Error = math.NaN()
	}
	return d
}

// estimate prints value ± error, or the value alone where its error is not known.
func estimate(e divergence.Estimate) string {
	if math.IsNaN(e.Error) {
		return figure(e.Value)
	}
	return figure(e.Value) + " ± " + figure(e.Error)
}

// shareEstimate prints an estimate of a share.
func shareEstimate(e divergence.Estimate) string {
	return percentEstimate(divergence.Estimate{Value: 100 * e.Value, Error: 100 * e.Error})
}

func percentEstimate(e divergence.Estimate) string {
	if math.IsNaN(e.Error) {
		return fixed("%.3f", e.Value) + " %"
	}
	return fixed("%.3f", e.Value) + " ± " + fixed("%.3f", e.Error) + " %"
}

// figure has six decimals, as llama-perplexity prints, or three digits where
// that would show next to nothing.
func figure(v float64) string {
	if v != 0 && math.Abs(v) < 1e-4 {
		return fmt.Sprintf("%.2e", v)
	}
	return fixed("%.6f", v)
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
