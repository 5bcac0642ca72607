package ruler

import (
	"fmt"
	"slices"
	"strings"

	"blitzen/eval"
)

// commonWords is common words extraction (cwe): which ten words of a list occur
// more often, after one solved example.
type commonWords struct {
	opts  Options
	rng   *twister
	words []string
}

// common is how many words are asked for, the first of a sample.
const common = 10

func newCommonWords(o Options) (task, error) {
	t := &commonWords{opts: o, rng: newTwister(o.Seed), words: allWords()}
	shuffle(newTwister(o.Seed), t.words)
	return t, nil
}

func (t *commonWords) answer() int { return 120 }
func (t *commonWords) step() int   { return 10 }

// estimateWords is the size of the sample that bounds the search.
const estimateWords = 4096

func (t *commonWords) fit() (int, error) {
	size := func(n int) (int, error) {
		d, err := t.draw(n)
		if err != nil {
			return 0, err
		}
		return count(t.opts, d)
	}
	n, err := size(estimateWords)
	if err != nil {
		return 0, err
	}
	bound := 2 * int(float64(t.opts.Tokens)/(float64(n)/estimateWords))
	return largest(t.step(), max(bound, 2*t.step()), func(n int) (bool, error) {
		tokens, err := size(n)
		return tokens+t.answer() <= t.opts.Tokens, err
	})
}

func (t *commonWords) draw(n int) (draft, error) {
	if n > len(t.words) {
		return draft{}, &eval.LengthError{Why: fmt.Sprintf("%d different words are needed and the lists have %d", n, len(t.words)), Advice: "ask for a shorter prompt"}
	}
	example, often, seldom := 20, 3, 1
	rowOften, rowSeldom := 6, 1
	if t.opts.Tokens >= 4096 {
		example, often, seldom = 40, 10, 3
		rowOften, rowSeldom = 30, 3
	}
	const question = "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that appear most often.\n%s\n" +
		"Question: What are the 10 most common words in the above list?"
	const prefix = " Answer: The top 10 words that appear most often in the list are:"
	list, outputs := t.list(example, often, seldom)
	text := fmt.Sprintf(question, list) + prefix + " " + numbered(outputs) + "\n"
	list, outputs = t.list(n, rowOften, rowSeldom)
	return draft{text + fmt.Sprintf(question, list), prefix, outputs}, nil
}

// list samples n words: the first ten stand in it often times, the others
// seldom times.
func (t *commonWords) list(n, often, seldom int) (list string, outputs []string) {
	var words []string
	for _, i := range t.rng.sample(len(t.words), n) {
		words = append(words, t.words[i])
	}
	outputs = words[:min(common, n)]
	all := slices.Concat(slices.Repeat(outputs, often), slices.Repeat(words[len(outputs):], seldom))
	shuffle(newTwister(t.opts.Seed), all)
	return numbered(all), outputs
}

// numbered is "1. one 2. two".
func numbered(words []string) string {
	var out strings.Builder
	for i, w := range words {
		if i > 0 {
			out.WriteByte(' ')
		}
		fmt.Fprintf(&out, "%d. %s", i+1, w)
	}
	return out.String()
}
