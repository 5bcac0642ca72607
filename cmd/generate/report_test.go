package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"blitzen/report"
)

// evaluated is a results file of two tables.
func evaluated(t *testing.T, dir string) string {
	t.Helper()
	file := dir + "/results.jsonl"
	answer(t, "", "evaluate", needle, "--tasks", "access_2", "--length", "160,170", "--samples", "2", "--budget", "16,64", "-o", file)
	return file
}

// What evaluate wrote becomes a page, plots and a part of a comparison's page.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	results := evaluated(t, dir)
	o := answer(t, "", "report", results, "-o", dir+"/page.html", "--plot", dir+"/plot.svg")
	if want := strings.ReplaceAll("wrote DIR/page.html\nwrote DIR/plot-access_2-160-tokens.svg\nwrote DIR/plot-access_2-170-tokens.svg\n", "DIR", dir); o.errors != want || o.out != "" {
		t.Errorf("stderr %q, stdout %q", o.errors, o.out)
	}
	page := read(t, dir+"/page.html")
	for _, text := range []string{
		"needle-qwen2: score against access</h1>", ">access_2, 160 tokens", ">access_2, 170 tokens", ">dense<", ">santapp (kmeans)<", ">santapp (kmeans, S 16)<", `aria-label="santapp (kmeans, S 64): `, "bootstrap over prompts", "All or none of 2 prompts right: ",
	} {
		if !strings.Contains(page, text) {
			t.Errorf("no %q in the page", text)
		}
	}
	for _, name := range []string{"plot-access_2-160-tokens.svg", "plot-access_2-170-tokens.svg"} {
		if !strings.Contains(read(t, dir+"/"+name), "<svg") {
			t.Errorf("%s is no picture", name)
		}
	}
	answer(t, "", "compare", needle, "--length", "200", "--codes", "2", "-n", "2", "--control=false", "--report", dir+"/both.html", "--results", results)
	both := read(t, dir+"/both.html")
	for _, text := range []string{">access_2, 160 tokens", `id="kl"`, `id="map"`} {
		if !strings.Contains(both, text) {
			t.Errorf("no %q in the comparison's page", text)
		}
	}
}

func TestReportRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/other.jsonl", "{}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"report"}, "no results: name the files that evaluate --output wrote"},
		{[]string{"report", dir + "/other.jsonl"}, "nothing to do: give -o FILE.html or --plot FILE.svg"},
		{[]string{"report", dir + "/other.jsonl", "--plot", "plot.pdf"}, "--plot plot.pdf: want a name that ends in .svg or .png"},
		{[]string{"report", dir + "/none.jsonl", "-o", dir + "/page.html"}, "open DIR/none.jsonl: no such file or directory"},
		{[]string{"report", dir + "/other.jsonl", "-o", dir + "/page.html"}, "DIR/other.jsonl: it is not a results file of this version: its first line is no header"},
		{[]string{"compare", needle, "--results", dir + "/other.jsonl", "--report", dir + "/other.jsonl"}, "--report: DIR/other.jsonl is read, too, and would be lost: name another file"},
		{[]string{"compare", needle, "--results", dir + "/other.jsonl"}, "--results is drawn on a page: add --report FILE.html"},
	} {
		refused(t, generate(t, "", c.args...), 2, dir, c.want)
	}
	one := func(name, seed string) string {
		path := dir + "/" + name
		answer(t, "", small("--samples", "1", "--attention", "dense", "-n", "2", "--task-seed", seed, "-o", path)...)
		return path
	}
	a, b := one("a.jsonl", "1"), one("b.jsonl", "2")
	header, _, _ := strings.Cut(read(t, a), "\n")
	write(t, dir+"/header.jsonl", header+"\n")
	if o := generate(t, "", "report", dir+"/header.jsonl", "-o", dir+"/page.html"); o.code != 2 || !strings.HasSuffix(o.errors, dir+"/header.jsonl: no prompt has been answered by all methods\n") {
		t.Errorf("exit code %d, %s", o.code, o.errors)
	}
	want := "DIR/b.jsonl cannot be joined with DIR/a.jsonl: --task-seed differs: 2, and 1 there"
	refused(t, generate(t, "", "report", a, b, "-o", dir+"/page.html"), 2, dir, want)
	refused(t, generate(t, "", "evaluate", "--merge", a, b), 2, dir, want)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 4 {
		t.Errorf("%v: %v", err, left)
	}
}

// A series is named as its arms are, without the budget.
func TestSeries(t *testing.T) {
	for _, c := range []struct {
		flags       attentionFlags
		label, want string
	}{
		{attentionFlags{name: "dense"}, "dense", "dense"},
		{attentionFlags{name: "santapp", parents: "kmeans", budget: 256}, "santapp (kmeans, S 256)", "santapp (kmeans)"},
		{attentionFlags{name: "santa", budget: 64}, "santa (S 64)", "santa"},
		{attentionFlags{name: "santa", draw: "systematic", budget: 64}, "santa (systematic, S 64)", "santa (systematic)"},
		{attentionFlags{name: "centroid", block: 16, cluster: "row", budget: 8}, "centroid (B 16 whole rows, S 8)", "centroid (B 16 whole rows)"},
		{attentionFlags{name: "santa", budget: 8, minContext: 9}, "santa (S 8; beyond the paper: exact below 9 tokens)", "santa (beyond the paper: exact below 9 tokens)"},
		{attentionFlags{name: "uniform", parents: "probe", budget: 8, minContext: 9}, "uniform (probe, S 8; beyond the paper: exact below 9 tokens)", "uniform (probe; beyond the paper: exact below 9 tokens)"},
	} {
		if arm, err := c.flags.arm(); err != nil || arm.Label != c.label || arm.Series != c.want {
			t.Errorf("%q is of the series %q, error %v; want %q, %q", arm.Label, arm.Series, err, c.label, c.want)
		}
	}
}

// Results are never written over by what is made of them, nor left in part.
func TestResultsKept(t *testing.T) {
	dir := t.TempDir()
	results := dir + "/results.svg"
	answer(t, "", small("--samples", "1", "--attention", "dense", "-n", "2", "-o", results)...)
	before := read(t, results)
	if err := os.Symlink(results, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"report", results, "-o", results}, "--output: DIR/results.svg is read, too, and would be lost: name another file"},
		{[]string{"report", results, "-o", dir + "/link"}, "--output: DIR/link is read, too, and would be lost: name another file"},
		{[]string{"report", results, "--plot", results}, "--plot: DIR/results.svg is read, too, and would be lost: name another file"},
		{[]string{"evaluate", "--merge", results, "-o", results}, "--output: open DIR/results.svg: the file exists: name another"},
	} {
		refused(t, generate(t, "", c.args...), 2, dir, c.want)
		if read(t, results) != before {
			t.Fatalf("%v: the results are gone", c.args)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("files left: %v, error %v", left, err)
	}
}

// No plot of a run takes another's place, whatever tasks are called.
func TestSlugs(t *testing.T) {
	var curves []report.Curve
	for _, title := range []string{"access_2, 160 tokens", "a b", "A-b", "a b 2", "长文", "!", "?", strings.Repeat("é", 300), strings.Repeat("é", 301), "../../x"} {
		curves = append(curves, report.Curve{Title: title})
	}
	e := strings.Repeat("é", 50)
	want := []string{"access_2-160-tokens", "a-b", "a-b-2", "a-b-2-2", "长文", "2", "3", e, e + "-2", "x"}
	if got := slugs(curves); !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}
