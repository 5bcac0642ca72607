package eval

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// AccessCodes makes prompts that ask for one of several codes in a long text:
// paragraphs of prose, between them lines "The access code of K is V.", at the
// end "Question: What is the access code of K?". The exact answer is the
// sentence itself. K is two English words joined by a hyphen, and no word
// serves two keys of a prompt; V is a number of 6 or 7 digits.
type AccessCodes struct {
	Tokens int    // the most tokens of a prompt
	Codes  int    // codes in each prompt: 8 for "few", 40 for "dense keys"
	Seed   uint64 // chooses the set of rows
}

// MostCodes is how many codes a prompt has at most.
func MostCodes() int { return len(strings.Fields(keyWords)) / 2 }

// code is one line of the text to remember.
type code struct {
	key   string
	value int
	place float64 // where it stands in the text, in [0, 1)
}

func (c code) sentence() string {
	return fmt.Sprintf("The access code of %s is %d.", c.key, c.value)
}

// Row makes row i, which depends on a, i and count alone: shards agree, and
// rows that differ in Tokens only tell the same story.
//
// The prompt is as long as fits: it has at most a.Tokens tokens, and with one
// more sentence it would have more. count returns the tokens of a prompt with
// everything that the caller puts around it (chat template, special tokens);
// it is called about five times, and its error is returned wrapped.
func (a AccessCodes) Row(i int, count func(text string) (int, error)) (Row, error) {
	switch {
	case i < 0:
		return Row{}, fmt.Errorf("access codes: row %d: rows count from 0", i)
	case a.Codes < 1 || a.Codes > MostCodes():
		return Row{}, fmt.Errorf("access codes: %d codes: ask for 1 to %d", a.Codes, MostCodes())
	}
	rng := a.stream("codes", i)
	codes := drawCodes(rng, strings.Fields(keyWords), a.Codes)
	asked := codes[rng.IntN(len(codes))]
	p := prompt{codes: codes, asked: asked, prose: newProse(a.stream("prose", i))}
	text, length, err := p.fit(a.Tokens, count)
	if err != nil {
		return Row{}, fmt.Errorf("access codes: row %d: %w", i, err)
	}
	return Row{
		Index:   i,
		ID:      fmt.Sprintf("access%d-%d-seed%d-row%d", a.Codes, a.Tokens, a.Seed, i),
		Input:   text,
		Outputs: []string{asked.sentence()},
		Scorer:  ScorerExact,
		Length:  length,
		Codes:   a.Codes,
	}, nil
}

// stream returns the random numbers of one purpose and row. ChaCha8, since
// neighbouring seeds must not give related rows.
func (a AccessCodes) stream(purpose string, i int) *rand.Rand {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[0:], a.Seed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(i))
	copy(seed[16:], purpose)
	return rand.New(rand.NewChaCha8(seed))
}

// drawCodes returns n codes in the order of their places; keys and values are
// distinct. It shuffles words, which must be 2n or more.
func drawCodes(rng *rand.Rand, words []string, n int) []code {
	rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	places := make([]float64, n)
	for i := range places {
		places[i] = rng.Float64()
	}
	slices.Sort(places)
	taken := make(map[int]bool, n)
	codes := make([]code, n)
	for i := range codes {
		value := 100_000 + rng.IntN(9_900_000)
		for taken[value] {
			value = 100_000 + rng.IntN(9_900_000)
		}
		taken[value] = true
		codes[i] = code{key: words[2*i] + "-" + words[2*i+1], value: value, place: places[i]}
	}
	return codes
}

// prompt is a text of any length: the same codes and question with the first
// n sentences of the same prose.
type prompt struct {
	codes []code // in the order of their places
	asked code
	prose *prose
}

// text returns the prompt with n sentences of prose.
func (p *prompt) text(n int) string {
	paragraphs := p.prose.paragraphs(n)
	lines := make([]string, 0, len(paragraphs)+len(p.codes)+1)
	written := 0 // paragraphs
	for _, c := range p.codes {
		before := int(c.place * float64(len(paragraphs)+1))
		for written < min(before, len(paragraphs)) { // the product may round up
			lines = append(lines, paragraphs[written])
			written++
		}
		lines = append(lines, c.sentence())
	}
	lines = append(lines, paragraphs[written:]...)
	lines = append(lines, "Question: What is the access code of "+p.asked.key+"?")
	return strings.Join(lines, "\n")
}

// fit returns the prompt that has at most limit tokens and would pass the
// limit with one more sentence, and its tokens. Tokens grow nearly in
// proportion to bytes, so each count gives the next guess, within a bracket
// that always shrinks.
func (p *prompt) fit(limit int, count func(string) (int, error)) (text string, length int, err error) {
	text = p.text(0)
	base, err := count(text)
	if err != nil {
		return "", 0, fmt.Errorf("counting tokens: %w", err)
	}
	if base > limit {
		return "", 0, &LengthError{fmt.Sprintf("%d codes and the question take %d tokens of %d", len(p.codes), base, limit), "ask for fewer codes or a longer prompt"}
	}
	length = base
	fits, over := 0, -1 // sentences; over is -1 until a prompt was too long
	perByte := 0.25     // tokens of a byte of prose: the usual English to begin with
	for over < 0 || over-fits > 1 {
		n := max(p.prose.reach(fits, float64(limit-length)/perByte), fits+1)
		if over >= 0 {
			n = min(n, over-1)
		}
		longer := p.text(n)
		tokens, err := count(longer)
		if err != nil {
			return "", 0, fmt.Errorf("counting tokens: %w", err)
		}
		if tokens <= length {
			return "", 0, fmt.Errorf("counting tokens: %d with %d sentences, %d with %d: the count must grow with the text", length, fits, tokens, n)
		}
		perByte = float64(tokens-base) / float64(p.prose.bytes(n))
		if tokens > limit {
			over = n
		} else {
			fits, text, length = n, longer, tokens
		}
	}
	return text, length, nil
}
