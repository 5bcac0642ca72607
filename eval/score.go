package eval

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// What [Row.Scorer] may be.
const (
	// ScorerExact: the text up to the end token, white space around it removed,
	// is the only reference.
	ScorerExact = "exact"
	// ScorerAll and ScorerPart are RULER's (NVIDIA/RULER, scripts/eval): the
	// share of the references that occur in the text, and 1 if any does. Case
	// does not count.
	ScorerAll  = "string_match_all"
	ScorerPart = "string_match_part"
	// ScorerSubstring is HELMET's substring_exact_match: 1 if a reference occurs
	// in the text, both without case, ASCII punctuation, articles and runs of
	// white space.
	ScorerSubstring = "substring_exact_match"
	// ScorerChoice: the letter of the last "Final Answer: [X]", X from A to D, is
	// the reference (LongBench v2 as the SANTA++ paper asks it).
	ScorerChoice = "choice"
)

var scorers = map[string]func(prediction string, outputs []string) float64{
	ScorerExact: func(p string, outputs []string) float64 {
		return one(len(outputs) == 1 && strings.TrimSpace(p) == outputs[0])
	},
	ScorerAll:       matchAll,
	ScorerPart:      func(p string, outputs []string) float64 { return one(matchAll(p, outputs) > 0) },
	ScorerSubstring: substringExactMatch,
	ScorerChoice: func(p string, outputs []string) float64 {
		return one(len(outputs) == 1 && choice(p) == outputs[0] && outputs[0] != "")
	},
}

// Scorers are the names that [Score] knows, sorted.
func Scorers() []string {
	var names []string
	for name := range scorers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CheckScorer refuses a name that [Score] does not know.
func CheckScorer(name string) error {
	if _, ok := scorers[name]; !ok {
		return fmt.Errorf("scorer %q: want one of %s", name, strings.Join(Scorers(), ", "))
	}
	return nil
}

// Score is how far prediction, the text generated up to the end token, answers
// the row: 0 to 1, by the row's scorer.
func Score(prediction string, row Row) (float64, error) {
	if err := CheckScorer(row.Scorer); err != nil {
		return 0, err
	}
	return scorers[row.Scorer](prediction, row.Outputs), nil
}

// CheckReferences refuses references that give every answer the full score, or none.
func CheckReferences(scorer string, outputs []string) error {
	only := scorer == ScorerExact || scorer == ScorerChoice
	empty := slices.Contains(outputs, "")
	if scorer == ScorerAll {
		empty = !slices.ContainsFunc(outputs, func(o string) bool { return o != "" })
	}
	switch {
	case empty && !only:
		return errors.New(`"outputs" has an empty text: every answer would be right`)
	case only && len(outputs) > 1:
		return fmt.Errorf("%d references: an answer by the scorer %s has one", len(outputs), scorer)
	case scorer == ScorerExact && strings.TrimSpace(outputs[0]) != outputs[0]:
		return fmt.Errorf("the reference %q has white space around it, which answers by the scorer %s lose", outputs[0], scorer)
	case scorer == ScorerChoice && !slices.Contains([]string{"A", "B", "C", "D"}, outputs[0]):
		return fmt.Errorf("the reference %q: answers by the scorer %s are A, B, C or D", outputs[0], scorer)
	}
	return nil
}

// Null reports whether a prediction says nothing, as RULER counts nulls.
func Null(prediction string) bool { return plain(prediction) == "" }

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// plain is RULER's view of a prediction: control characters are line ends, and
// nothing stands around the text.
func plain(prediction string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' {
			return '\n'
		}
		return r
	}, strings.TrimSpace(prediction)))
}

func matchAll(prediction string, outputs []string) float64 {
	text := strings.ToLower(plain(prediction))
	found := 0
	for _, o := range outputs {
		if strings.Contains(text, strings.ToLower(o)) {
			found++
		}
	}
	return float64(found) / float64(max(len(outputs), 1))
}

func substringExactMatch(prediction string, outputs []string) float64 {
	text := normalised(prediction)
	return one(slices.ContainsFunc(outputs, func(o string) bool { return strings.Contains(text, normalised(o)) }))
}

// normalised is the text as question answering compares it: SQuAD's
// normalize_answer, which HELMET uses.
func normalised(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsPunct(r) || unicode.IsSymbol(r)) {
			return -1
		}
		return r
	}, strings.ToLower(s))
	var out strings.Builder
	for len(s) > 0 {
		// A word is what \b of Python's re sees: letters and numbers of any script.
		end := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
		switch {
		case end < 0:
			end = len(s)
		case end == 0:
			end = strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
			if end < 0 {
				end = len(s)
			}
		}
		if word := s[:end]; word == "a" || word == "an" || word == "the" {
			out.WriteByte(' ')
		} else {
			out.WriteString(word)
		}
		s = s[end:]
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

var finalAnswer = regexp.MustCompile(`Final Answer: \[([A-D])\]`)

// choice is the letter that a prediction ends with, "" without one.
func choice(prediction string) string {
	found := finalAnswer.FindAllStringSubmatch(prediction, -1)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1][1]
}
