package eval

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
)

// TaskJSONKV is the name of [JSONKV].
const TaskJSONKV = "json_kv"

// JSONKV makes prompts that ask for the value of one key of a JSON object of
// random UUIDs, with two solved examples from the same object: the recall task
// of HELMET (Yen et al., 2025), by its template. The objects are our own.
type JSONKV struct {
	Tokens int    // the most tokens of a prompt and its answer
	Seed   uint64 // chooses the set of rows
}

const (
	kvAnswer   = 100 // tokens of an answer, as HELMET allows
	kvExamples = 2
	kvPrefix   = "\nCorresponding value:"
)

// Row makes row i, which depends on k, i and count alone. The object has as
// many pairs as fit. count returns the tokens of a message and the beginning of
// its answer, with everything that the caller puts around them; its error is
// returned wrapped.
func (k JSONKV) Row(i int, count func(text, prefix string) (int, error)) (Row, error) {
	if i < 0 {
		return Row{}, fmt.Errorf("json_kv: row %d: rows count from 0", i)
	}
	o := kvObject{seed: k.Seed, row: i}
	limit := k.Tokens - kvAnswer
	fits := func(pairs int) (length int, err error) {
		length, err = count(o.text(pairs), kvPrefix)
		if err != nil {
			err = fmt.Errorf("json_kv: row %d: counting tokens: %w", i, err)
		}
		return length, err
	}
	best, length, err := most(kvExamples+1, limit, fits)
	if err != nil {
		return Row{}, err
	}
	if best == 0 {
		why := fmt.Sprintf("an object of %d pairs takes %d tokens, %d with its answer, of %d", kvExamples+1, length, length+kvAnswer, k.Tokens)
		return Row{}, fmt.Errorf("json_kv: row %d: %w", i, &LengthError{why, "ask for a longer prompt"})
	}
	asked := o.asked(best)
	return Row{
		Index: i, ID: fmt.Sprintf("json_kv-%d-seed%d-row%d", k.Tokens, k.Seed, i), Task: TaskJSONKV,
		Input: o.text(best), AnswerPrefix: kvPrefix, Outputs: []string{o.pairs[asked].value},
		Scorer: ScorerSubstring, Length: length + kvAnswer, MaxTokens: kvAnswer,
	}, nil
}

// most is the largest n, at least least, for which size(n), which grows with
// n, is at most limit, and that size; 0 and the size of least if there is none.
func most(least, limit int, size func(n int) (int, error)) (n, at int, err error) {
	first, err := size(least)
	if err != nil || first > limit {
		return 0, first, err
	}
	n, at = least, first
	over := 0 // 0: no n was too large yet
	for over == 0 || over-n > 1 {
		next := max(n+1, n*limit/at) // sizes are nearly in proportion
		if over > 0 {
			next = (n + over) / 2
		}
		got, err := size(next)
		if err != nil {
			return 0, 0, err
		}
		if got > limit {
			over = next
		} else {
			n, at = next, got
		}
	}
	return n, at, nil
}

// kvObject is the object of one row, as far as it was asked for: longer ones
// begin like shorter ones.
type kvObject struct {
	seed  uint64
	row   int
	rng   *rand.Rand
	place float64 // of the pair that is asked for, in [0, 1)
	pairs []kvPair
}

type kvPair struct{ key, value string }

func (o *kvObject) grow(n int) {
	if o.rng == nil {
		var seed [32]byte
		binary.LittleEndian.PutUint64(seed[0:], o.seed)
		binary.LittleEndian.PutUint64(seed[8:], uint64(o.row))
		copy(seed[16:], TaskJSONKV)
		o.rng = rand.New(rand.NewChaCha8(seed))
		o.place = o.rng.Float64()
	}
	for len(o.pairs) < n {
		o.pairs = append(o.pairs, kvPair{randomUUID(o.rng), randomUUID(o.rng)})
	}
}

func (o *kvObject) asked(n int) int { return min(int(o.place*float64(n)), n-1) }

// text is the message about an object of n pairs. The examples are the pairs
// that follow the asked one, around the end.
func (o *kvObject) text(n int) string {
	o.grow(n)
	var text strings.Builder
	text.WriteString("JSON data:\n{")
	for i, p := range o.pairs[:n] {
		if i > 0 {
			text.WriteString(",\n ")
		}
		fmt.Fprintf(&text, "%q: %q", p.key, p.value)
	}
	text.WriteString("}\n\nExtract the value corresponding to the specified key in the JSON object below.\n\n")
	asked := o.asked(n)
	for e := range kvExamples {
		p := o.pairs[(asked+1+e)%n]
		fmt.Fprintf(&text, "Key: %s\nCorresponding value: %s\n\n", p.key, p.value)
	}
	fmt.Fprintf(&text, "Key: %s", o.pairs[asked].key)
	return text.String()
}

// randomUUID is one of version 4 (RFC 9562).
func randomUUID(rng *rand.Rand) string {
	high, low := rng.Uint64(), rng.Uint64()
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&(1<<48-1))
}
