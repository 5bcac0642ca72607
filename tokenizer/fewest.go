package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"
)

// maxText is the longest text that is split, in bytes: the library takes some 80 times its memory.
const maxText = 64 << 20

// composed is how many times shorter NFC can make a text: three letters of Hangul of 3 bytes become one.
const composed = 3

// longest is the most bytes of text that a token stands for; 0 where tokenizer.json may leave text out.
func (s *spec) longest(v *vocabulary) (int, error) {
	normalizers, err := types(s.Normalizer, "normalizer", normalizers)
	if err != nil {
		return 0, err
	}
	pre, err := types(s.PreTokenizer, "pre_tokenizer", preTokenizers)
	if err != nil {
		return 0, err
	}
	unlike := func(known ...string) func(string) bool {
		return func(name string) bool { return !slices.Contains(known, name) }
	}
	if slices.ContainsFunc(normalizers, unlike("NFC")) || slices.ContainsFunc(pre, unlike("Split", "ByteLevel", "Digits")) ||
		bytes.Contains(s.PreTokenizer, []byte(`"Removed"`)) ||
		slices.ContainsFunc(s.AddedTokens, func(t addedToken) bool { return t.LStrip || t.RStrip }) {
		return 0, nil
	}
	most := 0
	for _, text := range v.texts {
		most = max(most, len(text))
	}
	return most, nil
}

// Fewest is a number of tokens that text has at least, told by its length: splitting a text takes much more memory than
// it has. why says how.
func (t *Tokenizer) Fewest(text string) (n int, why string) {
	if t.longest == 0 {
		return 0, ""
	}
	n, why = len(text)/t.longest, fmt.Sprintf("%d bytes, of which a token has at most %d", len(text), t.longest)
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return n / composed, why
		}
	}
	return n, why
}
