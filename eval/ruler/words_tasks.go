package ruler

import (
	"fmt"
	"slices"
	"strings"
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
		return draft{}, fmt.Errorf("%d different words are needed and the lists have %d: ask for a shorter prompt", n, len(t.words))
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

// frequentWords is frequent words extraction (fwe): which three made-up words
// occur most, with Zipf frequencies of exponent 2.
type frequentWords struct {
	opts   Options
	rng    *twister
	tokens int // of a prompt
}

const (
	codedLetters = 6
	zeta2        = 1.6449340668482264 // ζ(2) = π²/6
)

func newFrequentWords(o Options) (task, error) {
	t := &frequentWords{opts: o, rng: newTwister(o.Seed)}
	t.tokens = o.Tokens - t.answer()
	if t.tokens < 4*50 {
		return nil, fmt.Errorf("%d tokens are too few: want at least %d", o.Tokens, 4*50+t.answer())
	}
	return t, nil
}

func (t *frequentWords) answer() int { return 50 }
func (t *frequentWords) step() int   { return t.tokens / 32 }

// vocabulary draws the row's words by rank; the first are dots, which do not
// count.
func (t *frequentWords) vocabulary() []string {
	const lower = "abcdefghijklmnopqrstuvwxyz"
	size := t.tokens / 50
	set := map[string]bool{}
	var words []string
	for drawn := 0; drawn < size || len(words) < size; drawn++ {
		if w := t.rng.letters(lower, codedLetters); !set[w] {
			set[w] = true
			words = append(words, w)
		}
	}
	slices.Sort(words)
	shuffle(newTwister(t.opts.Seed), words)
	words[0] = "..."
	return words
}

// text has about n words.
func (t *frequentWords) text(vocabulary []string, n int) draft {
	var words []string
	for i, w := range vocabulary {
		k := float64(i + 1)
		words = append(words, slices.Repeat([]string{w}, int(float64(n)*(1/(k*k))/zeta2))...)
	}
	shuffle(newTwister(t.opts.Seed), words)
	const question = "Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared coded words. %s\n" +
		"Question: Do not provide any explanation. Please ignore the dots '....'. What are the three most frequently appeared words in the above coded text?"
	const prefix = " Answer: According to the coded text above, the three most frequently appeared words are:"
	return draft{fmt.Sprintf(question, strings.Join(words, " ")), prefix, vocabulary[1:4]}
}

// fit grows a text of one vocabulary until it is too long.
func (t *frequentWords) fit() (int, error) {
	words := t.vocabulary()
	for n := t.tokens / codedLetters; ; n += t.step() {
		size, err := count(t.opts, t.text(words, n))
		if err != nil {
			return 0, err
		}
		if size >= t.tokens {
			return max(n-t.step(), 1), nil
		}
		if n > t.opts.Tokens {
			return 0, fmt.Errorf("%d words have %d tokens: the count must grow with the text", n, size)
		}
	}
}

// draw takes a new vocabulary and shortens its text until it fits.
func (t *frequentWords) draw(n int) (draft, error) {
	words := t.vocabulary()
	for ; n > 0; n -= t.step() {
		d := t.text(words, n)
		size, err := count(t.opts, d)
		if err != nil || size <= t.tokens {
			return d, err
		}
	}
	return draft{}, fmt.Errorf("the question alone has more than %d tokens: ask for a longer prompt", t.tokens)
}
