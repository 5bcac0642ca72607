package eval

import (
	"strings"
	"testing"
)

// Rows are refused that nothing can answer, or everything.
func TestCheckReferences(t *testing.T) {
	for _, c := range []struct {
		scorer  string
		outputs []string
		want    string
	}{
		{ScorerAll, []string{"", "e"}, ""},
		{ScorerAll, []string{"", ""}, "empty text"},
		{ScorerPart, []string{"e", ""}, "empty text"},
		{ScorerSubstring, []string{"", "e"}, "empty text"},
		{ScorerSubstring, []string{"The", " e"}, ""}, // as HELMET has it
		{ScorerExact, []string{""}, ""},
		{ScorerExact, []string{"It is 7."}, ""},
		{ScorerExact, []string{"7", "It is 7."}, "2 references: an answer by the scorer exact has one"},
		{ScorerExact, []string{"7\n"}, `the reference "7\n" has white space around it`},
		{ScorerChoice, []string{"D"}, ""},
		{ScorerChoice, []string{"A", "B"}, "2 references"},
		{ScorerChoice, []string{"b"}, `the reference "b": answers by the scorer choice are A, B, C or D`},
	} {
		err := CheckReferences(c.scorer, c.outputs)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %q: error %v, want %q in it", c.scorer, c.outputs, err, c.want)
		}
	}
}

func TestScore(t *testing.T) {
	for _, c := range []struct {
		scorer, prediction string
		outputs            []string
		want               float64
	}{
		{ScorerExact, " \nIt is 7.\n", []string{"It is 7."}, 1},
		{ScorerExact, "It is 7. And so on", []string{"It is 7."}, 0},
		{ScorerExact, "a", []string{"a", "b"}, 0},
		{ScorerAll, "ONE,\ttwo", []string{"one", "two", "three", "TWO"}, 0.75},
		{ScorerAll, "harmony", []string{"arm"}, 1},
		{ScorerAll, "a\x01b", []string{"ab"}, 0},
		{ScorerAll, "a\x01b", []string{"a\nb"}, 1},
		{ScorerPart, "only two", []string{"one", "two"}, 1},
		{ScorerPart, "", []string{"one", "two"}, 0},
		{ScorerSubstring, "Answer: The United  States, of America.", []string{"Canada", "united states of America"}, 1},
		{ScorerSubstring, "It was an U.S. ship", []string{"the US ship"}, 1},
		{ScorerSubstring, "Theatre", []string{"a the atre"}, 1}, // "atre" once the articles are gone
		{ScorerSubstring, "voilàa", []string{"voilà b"}, 0},
		{ScorerSubstring, "voilàa", []string{"àa"}, 1}, // à is part of a word: no article
		{ScorerSubstring, "no", []string{"yes"}, 0},
		{ScorerChoice, "Final Answer: [A]\nNo.\nFinal Answer: [C]", []string{"C"}, 1},
		{ScorerChoice, "Final Answer: [A]\nNo.\nFinal Answer: [C]", []string{"A"}, 0},
		{ScorerChoice, "Final Answer: C", []string{"C"}, 0},
		{ScorerChoice, "Final Answer: [X]", []string{""}, 0},
	} {
		got, err := Score(c.prediction, Row{Scorer: c.scorer, Outputs: c.outputs})
		if err != nil || got != c.want {
			t.Errorf("%s of %q for %q: %v (error %v), want %v", c.scorer, c.prediction, c.outputs, got, err, c.want)
		}
	}
	if _, err := Score("a", Row{Scorer: "rouge", Outputs: []string{"a"}}); err == nil || !strings.Contains(err.Error(), `scorer "rouge": want one of choice, exact,`) {
		t.Errorf("error %v", err)
	}
}

// References answer their own row, in any case; nothing answers none.
func TestScoreReferences(t *testing.T) {
	outputs := []string{"Alpha", "beta 2"}
	for _, scorer := range []string{ScorerAll, ScorerPart, ScorerSubstring} {
		row := Row{Scorer: scorer, Outputs: outputs}
		text := strings.Join(outputs, ", ")
		for _, c := range []struct {
			text string
			want float64
		}{{text, 1}, {strings.ToUpper(text), 1}, {"", 0}} {
			if got, err := Score(c.text, row); err != nil || got != c.want {
				t.Errorf("%s of %q: %v (error %v)", scorer, c.text, got, err)
			}
		}
	}
	if !Null(" \n\x02\t") || Null("\x02a") {
		t.Error("what says nothing is told by what is left once control characters are white space")
	}
}

// FuzzScore: every text has a score, and one that repeats the references scores
// no less than any other.
func FuzzScore(f *testing.F) {
	f.Add("Final Answer: [B]", "B")
	f.Add("the \xff a", "A\x00n")
	f.Fuzz(func(t *testing.T, prediction, output string) {
		for name := range scorers {
			got, err := Score(prediction, Row{Scorer: name, Outputs: []string{output}})
			if err != nil || got < 0 || got > 1 {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		if got := scorers[ScorerSubstring](output, []string{output}); got != 1 {
			t.Errorf("%q is not in itself", output)
		}
	})
}
