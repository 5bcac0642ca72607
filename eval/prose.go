package eval

import (
	"math/rand/v2"
	"os"
	"strings"
)

// prose is an endless text, written as far as it was asked for.
type prose struct {
	rng       *rand.Rand
	sentences []sentence
	left      int // sentences that the current paragraph still takes
}

type sentence struct {
	text  string
	opens bool // a paragraph
	end   int  // bytes of the text up to here, with a separator per sentence
}

func newProse(rng *rand.Rand) *prose { return &prose{rng: rng} }

// paragraphs returns the first n sentences, a paragraph a line; the last
// paragraph may be cut short.
func (p *prose) paragraphs(n int) []string {
	p.grow(n)
	var lines []string
	for from := 0; from < n; {
		to := from + 1
		for to < n && !p.sentences[to].opens {
			to++
		}
		texts := make([]string, 0, to-from)
		for _, s := range p.sentences[from:to] {
			texts = append(texts, s.text)
		}
		lines = append(lines, strings.Join(texts, " "))
		from = to
	}
	return lines
}

// bytes returns the size of the first n sentences.
func (p *prose) bytes(n int) int {
	if n == 0 {
		return 0
	}
	p.grow(n)
	return p.sentences[n-1].end
}

// reach returns the most sentences that are at most extra bytes longer than
// the first n.
func (p *prose) reach(n int, extra float64) int {
	room := float64(p.bytes(n)) + extra
	for float64(p.bytes(n+1)) <= room {
		n++
	}
	return n
}

// grow writes until there are n sentences.
func (p *prose) grow(n int) {
	for len(p.sentences) < n {
		rule, opens := "following", p.left == 0
		if opens {
			rule = "opening"
			p.left = 1 + p.rng.IntN(6)
		}
		p.left--
		text := p.expand(rule)
		text = strings.ToUpper(text[:1]) + text[1:]
		end := len(text) + 1
		if len(p.sentences) > 0 {
			end += p.sentences[len(p.sentences)-1].end
		}
		p.sentences = append(p.sentences, sentence{text, opens, end})
	}
}

// expand writes one of a rule's alternatives at random, and so on for the
// rules that it names.
func (p *prose) expand(rule string) string {
	choices := grammar[rule]
	return os.Expand(choices[p.rng.IntN(len(choices))], p.expand)
}
