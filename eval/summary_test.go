package eval

import (
	"encoding/json"
	"math"
	"testing"

	"blitzen/attention"
)

// row of answers to one prompt: dense scores d, two repeats of santapp a and b.
func triple(prompt int, task, scorer string, d, a, b float64, rows int64) []Answer {
	base := Answer{Prompt: prompt, Task: task, Scorer: scorer, Limit: 10, Text: "t", Access: attention.Access{Rows: 20, Dense: 20, Vectors: 2}}
	one, two, three := base, base, base
	one.Score = d
	two.Arm, two.Score, two.Access.Rows = 1, a, rows
	three.Arm, three.Repeat, three.Score, three.Access.Rows = 1, 1, b, rows
	return []Answer{one, two, three}
}

func TestSummarize(t *testing.T) {
	r := Results{Header: header("dense", "santapp")}
	for i, answers := range [][]Answer{
		triple(0, "x", ScorerAll, 1, 1, 0.5, 2), triple(1, "x", ScorerAll, 1, 0, 0.5, 4),
		triple(2, "y", ScorerAll, 0.5, 0.5, 0.5, 10), triple(3, "x", ScorerAll, 1, 1, 1, 20),
		triple(4, "x", ScorerAll, 1, 1, 1, 20)[:2], // a repeat is missing: the prompt waits
	} {
		if i == 2 {
			answers[0].Text = " "
		}
		r.Answers = append(r.Answers, answers...)
	}
	r.Answers = append(r.Answers, Skip(5, Row{Task: "x"}, "", "too long"))
	tables := Summarize(r, 1)
	if len(tables) != 3 || tables[0].Tasks[0] != "x" || tables[1].Tasks[0] != "y" || len(tables[2].Tasks) != 2 {
		t.Fatalf("%d tables: %+v", len(tables), tables)
	}
	x := tables[0].Lines[1]
	if x.Prompts != 3 || x.Answers != 6 || x.Exact != 3 || x.Nulls != 0 {
		t.Errorf("%+v", x)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 { // sums of fewer than 10 numbers up to 100
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("the score of x", x.Score.Mean, (0.75+0.25+1)/3)
	near("its share of dense", x.Normalised.Mean, (0.75+0.25+1)/3)
	near("access of x", x.Percent, 100*float64(2*(2+4+20))/(6*20))
	all := tables[2].Lines[1]
	near("the mean over tasks", all.Score.Mean, ((0.75+0.25+1)/3+0.5)/2)
	near("its share of dense", all.Normalised.Mean, ((0.75+0.25+1)/3+0.5)/1.5)
	near("access over all rows", all.Percent, 100*float64(2*(2+4+20+10))/(8*20))
	if dense := tables[2].Lines[0]; dense.Nulls != 1 || dense.Normalised != (Interval{1, 1, 1}) {
		t.Errorf("dense: %+v", dense)
	}
	pairs := tables[2].Pairs("santapp", "dense")
	if len(pairs) != 1 {
		t.Fatalf("%d pairs", len(pairs))
	}
	near("the difference", pairs[0].Difference.Mean, ((0.75+0.25+1)/3+0.5)/2-0.75)
	// Only prompts 0 and 1 of x differ; the sum over a resample is never above 0.
	if d := pairs[0].Difference; d.High != 0 || d.Low >= d.Mean {
		t.Errorf("%+v", d)
	}
}

// HELMET's access is the mean of the tasks' percentages.
func TestSummarizeSubstring(t *testing.T) {
	r := Results{Header: header("dense", "santapp")}
	r.Answers = append(triple(0, "nq", ScorerSubstring, 1, 1, 1, 2), triple(1, "nq", ScorerSubstring, 1, 1, 1, 2)...)
	r.Answers = append(r.Answers, triple(2, "popqa", ScorerSubstring, 1, 1, 1, 12)...)
	if got := Summarize(r, 1)[2].Lines[1].Percent; got != (10.0+60)/2 {
		t.Errorf("access %v, want the mean of 10 and 60", got)
	}
}

func TestPairsOfArms(t *testing.T) {
	arm := func(method string, budget int, parents string) Line {
		a := Arm{Method: method, Budget: budget}
		if parents != "" {
			a.Settings = json.RawMessage(`{"parents":"` + parents + `"}`)
		}
		return Line{Arm: a}
	}
	table := Table{Lines: []Line{
		arm("oracle", 8, "kmeans"), arm("oracle", 16, "kmeans"), arm("santapp", 8, "kmeans"), arm("santapp", 8, "contiguous"),
		arm("santapp", 16, "kmeans"), arm("santa", 8, ""), arm("dense", 0, ""),
	}}
	for range table.Lines {
		table.values = append(table.values, [][]float64{{0, 1}})
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"oracle", "santapp", 2}, {"santapp", "santa", 2}, {"santapp", "dense", 3}, {"dense", "santa", 1}, {"dense", "other", 0}} {
		if got := len(table.Pairs(c.a, c.b)); got != c.want {
			t.Errorf("%s and %s: %d pairs, want %d", c.a, c.b, got, c.want)
		}
	}
}
