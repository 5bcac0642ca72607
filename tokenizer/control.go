package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// mark stands in rendered text before each place of a message where a special token begins, or could begin or end
// together with the template's text beside it. It is a noncharacter (Unicode 16, section 23.7), which no text should
// hold. Texts without such places stay as they are, since templates compare roles and look at contents.
const mark = "\uFDD0"

// markControl puts marks into a text from outside the template.
func (v *vocabulary) markControl(text string) string {
	var marked strings.Builder
	if v.endsControl(text) {
		marked.WriteString(mark)
	}
	rest := text
	for {
		at := strings.IndexAny(rest, v.first)
		if at < 0 {
			marked.WriteString(rest)
			return marked.String()
		}
		marked.WriteString(rest[:at])
		rest = rest[at:]
		if slices.ContainsFunc(v.control, func(c addedToken) bool {
			return strings.HasPrefix(rest, c.Content) || strings.HasPrefix(c.Content, rest)
		}) {
			marked.WriteString(mark)
		}
		_, size := utf8.DecodeRuneInString(rest)
		marked.WriteString(rest[:size])
		rest = rest[size:]
	}
}

// endsControl tells whether text begins as a special token ends.
func (v *vocabulary) endsControl(text string) bool {
	return slices.ContainsFunc(v.control, func(c addedToken) bool {
		for at := 1; at < len(c.Content); at++ {
			if strings.HasPrefix(text, c.Content[at:]) {
				return true
			}
		}
		return false
	})
}

// encodeMarked encodes rendered text with marks: special tokens without a mark become their ids, the stretches between
// them are encoded with special tokens read as text.
func (t *Tokenizer) encodeMarked(text string) ([]int32, error) {
	for _, c := range t.vocab.control {
		if c.LStrip || c.RStrip || c.SingleWord {
			return nil, fmt.Errorf("messages hold special tokens, which cannot be kept apart while the special token %q takes in text around it (lstrip, rstrip, single_word): remove them", c.Content)
		}
	}
	var ids []int32
	stretch := func(text string) error {
		more, err := t.Encode(strings.ReplaceAll(text, mark, ""), EncodeOptions{ControlAsText: true})
		ids = append(ids, more...)
		return err
	}
	begin, at := 0, 0
	for {
		next := strings.IndexAny(text[at:], t.vocab.first+mark)
		if next < 0 {
			return ids, stretch(text[begin:])
		}
		at += next
		if strings.HasPrefix(text[at:], mark) {
			at += len(mark)
			if strings.HasPrefix(text[at:], mark) {
				continue
			}
		} else if c, ok := t.vocab.controlAt(text[at:]); ok {
			if err := stretch(text[begin:at]); err != nil {
				return nil, err
			}
			ids = append(ids, c.ID)
			at += len(c.Content)
			begin = at
			continue
		}
		_, size := utf8.DecodeRuneInString(text[at:]) // no special token begins here
		at += size
	}
}

// controlAt is the longest special token that text begins with.
func (v *vocabulary) controlAt(text string) (longest addedToken, ok bool) {
	for _, c := range v.control {
		if strings.HasPrefix(text, c.Content) && len(c.Content) > len(longest.Content) {
			longest, ok = c, true
		}
	}
	return longest, ok
}
