package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"blitzen/eval"
	"blitzen/report"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reportFlags are those of generate report.
type reportFlags struct {
	output string
	plot   string
}

func newReportCommand() *cobra.Command {
	r := &reportFlags{}
	cmd := newCommand("report [flags] RESULTS.jsonl ...", "Draw what evaluate --output wrote: score against access, as a page or a plot", r.run)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("no results: name the files that evaluate --output wrote")
		}
		return nil
	}
	addFlags(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVarP(&r.output, "output", "o", "", "write the page, HTML, to `FILE`")
		f.StringVar(&r.plot, "plot", "", "draw for a paper to `FILE`, by its end .svg or .png; of several tables each gets a file of its own")
	})
	return cmd
}

func (r *reportFlags) run(cmd *cobra.Command, args []string) error {
	format := strings.TrimPrefix(filepath.Ext(r.plot), ".")
	switch {
	case r.output == "" && r.plot == "":
		return usagef("nothing to do: give -o FILE.html or --plot FILE.svg")
	case r.plot != "" && !slices.Contains(report.Formats, format):
		return usagef("--plot %s: want a name that ends in .svg or .png", r.plot)
	}
	results, err := readResults(cmd.ErrOrStderr(), args)
	if err != nil {
		return err
	}
	curves := curvesOf(results)
	if len(curves) == 0 {
		return usagef("%s: no prompt has been answered by all methods", strings.Join(args, ", "))
	}
	if r.output != "" {
		if err := writeFile("--output", r.output, args, resultsPage(results, curves).Write); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", r.output)
	}
	if r.plot == "" {
		return nil
	}
	names := slugs(curves)
	for i, c := range curves {
		path := r.plot
		if len(curves) > 1 {
			path = strings.TrimSuffix(r.plot, "."+format) + "-" + names[i] + "." + format
		}
		if err := writeFile("--plot", path, args, func(w io.Writer) error { return report.WritePlot(w, c, format) }); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", path)
	}
	return nil
}

// slugs are the titles of curves as parts of files' names, each another.
func slugs(curves []report.Curve) []string {
	const longest = 100 // bytes
	others := regexp.MustCompile(`[^\p{L}\p{M}\p{N}_]+`)
	var names []string
	for _, c := range curves {
		base := strings.Trim(others.ReplaceAllString(strings.ToLower(c.Title), "-"), "-")
		if len(base) > longest {
			base = strings.ToValidUTF8(base[:longest], "")
		}
		name := base
		for n := 2; name == "" || slices.Contains(names, name); n++ {
			name = strings.TrimPrefix(fmt.Sprintf("%s-%d", base, n), "-")
		}
		names = append(names, name)
	}
	return names
}

// resultsPage is the page of an evaluation.
func resultsPage(r eval.Results, curves []report.Curve) *report.Page {
	return &report.Page{
		Title: filepath.Base(r.Model.Path) + ": score against access",
		Facts: []report.Fact{
			{Name: "model", Value: fmt.Sprintf("%s (%s)", r.Model.Path, r.Model.Architecture)},
			{Name: "weights", Value: r.Model.Hash},
			{Name: "device", Value: fmt.Sprintf("%s, %s", r.Model.Device, strings.ToLower(r.Model.DType))},
			{Name: "seeds", Value: fmt.Sprintf("task %s, attention %s; %d for each prompt", r.Settings["--task-seed"], r.Settings["--attention-seed"], r.Repeats)},
			{Name: "intervals", Value: fmt.Sprintf("bootstrap over prompts within tasks, %d resamples, seed %d", eval.Resamples, bootstrapSeed)},
		},
		Curves: curves,
	}
}

// curvesOf is a curve for each table of an evaluation.
func curvesOf(r eval.Results) []report.Curve {
	var curves []report.Curve
	for _, t := range eval.Summarize(r, bootstrapSeed) {
		c := report.Curve{Title: tableTitle(t), YName: "score, %", Note: unvaried(t.Lines)}
		if readsAboveAll(t.Lines) {
			c.Note = strings.TrimPrefix(c.Note+". "+aboveAll, ". ")
		}
		for _, l := range t.Lines {
			name := cmp.Or(l.Series, l.Label)
			i := slices.IndexFunc(c.Series, func(s report.Series) bool { return s.Name == name })
			if i < 0 {
				i = len(c.Series)
				c.Series = append(c.Series, report.Series{Name: name, Reference: l.Method == "dense"})
			}
			p := report.Point{
				Label: l.Label, X: l.Percent, Y: 100 * l.Score.Mean, Low: 100 * l.Score.Low, High: 100 * l.Score.High,
				Prompts: l.Prompts, BytesPercent: l.Access.BytesPercent(), OfReference: 100 * l.Normalised.Mean,
			}
			if !l.Score.Known() {
				p.Low, p.High = math.NaN(), math.NaN()
			}
			if l.Budget > 0 {
				p.Short = fmt.Sprint(l.Budget)
			}
			c.Series[i].Points = append(c.Series[i].Points, p)
		}
		curves = append(curves, c)
	}
	return curves
}
