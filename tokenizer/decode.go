package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Decode turns ids into text. Bytes that are not UTF-8 become U+FFFD, one for each maximal invalid part. skipSpecial
// leaves special tokens out. An id without a token is an error.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) (string, error) {
	var text strings.Builder
	stream := t.NewStream(skipSpecial)
	for i, id := range ids {
		if !t.vocab.has(id) {
			return "", fmt.Errorf("position %d: no token has the id %d: the tokenizer of %s has ids below %d", i, id, t.dir, t.VocabSize())
		}
		part, err := stream.Next(id)
		if err != nil {
			return "", fmt.Errorf("position %d: %w", i, err)
		}
		text.WriteString(part)
	}
	text.WriteString(stream.Flush())
	return text.String(), nil
}

// Stream decodes ids one at a time. What Next and Flush return, put together, is what Decode returns for all the ids, if they are tokens.
type Stream struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	tail        []byte // the beginning of a character
}

// NewStream starts a Stream.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{tokenizer: t, skipSpecial: skipSpecial}
}

// Next returns the text that the id makes final: whole characters only, "" while one is incomplete. A model's logits
// may be wider than the vocabulary: an id beyond it has no text and ends nothing. A negative id is an error.
func (s *Stream) Next(id int32) (string, error) {
	if id < 0 {
		return "", fmt.Errorf("%d is no token id", id)
	}
	if !s.tokenizer.vocab.has(id) {
		return "", nil
	}
	if s.skipSpecial && s.tokenizer.IsSpecial(id) {
		return "", nil
	}
	s.tail = append(s.tail, s.tokenizer.vocab.texts[id]...)
	return s.take(false), nil
}

// Flush ends the text: an incomplete character becomes U+FFFD. The Stream can be used anew.
func (s *Stream) Flush() string { return s.take(true) }

// take removes what is decided of the tail: whole characters, parts that no byte can complete and, at the end of the
// text, an incomplete character too.
func (s *Stream) take(atEnd bool) string {
	var text strings.Builder
	rest := s.tail
	for len(rest) > 0 && (atEnd || utf8.FullRune(rest)) {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			// FullRune is false for a prefix of a character and true as soon as it is wrong, so the maximal invalid
			// part is the longest prefix for which it is false, or one byte (Unicode 16, section 3.9, table 3-8).
			for size < len(rest) && !utf8.FullRune(rest[:size+1]) {
				size++
			}
		}
		text.WriteRune(r)
		rest = rest[size:]
	}
	s.tail = append(s.tail[:0], rest...)
	return text.String()
}
