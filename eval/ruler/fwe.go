package ruler

import (
	"fmt"
	"slices"
	"strings"

	"blitzen/eval"
)

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
		return nil, &eval.LengthError{Why: fmt.Sprintf("%d tokens are too few", o.Tokens), Advice: fmt.Sprintf("want at least %d", 4*50+t.answer())}
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
	return draft{}, &eval.LengthError{Why: fmt.Sprintf("the question alone has more than %d tokens", t.tokens), Advice: longer}
}
