package tokenizer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"blitzen/internal/excerpt"
)

// vocabulary holds each token's piece and text by id. An id without a token has an empty piece.
type vocabulary struct {
	pieces  []string // [ids] as tokenizer.json spells them
	texts   []string // [ids] the bytes they stand for
	ids     map[string]int32
	special []int32      // sorted
	control []addedToken // the special tokens
	first   string       // the characters that those begin with
}

// maxID bounds what a damaged file can make us allocate; the largest vocabularies have a few hundred thousand tokens.
const maxID = 1 << 24

func (s *spec) vocabulary() (vocabulary, error) {
	v := vocabulary{ids: s.Model.Vocab}
	if v.ids == nil {
		v.ids = map[string]int32{}
	}
	added := map[string]int32{}
	for _, token := range s.AddedTokens {
		if id, ok := added[token.Content]; ok && id != token.ID {
			return v, fmt.Errorf("the added token %s has two ids, %d and %d: download the file again", excerpt.Quoted(token.Content), id, token.ID)
		}
		added[token.Content], v.ids[token.Content] = token.ID, token.ID
		if token.Special {
			v.special = append(v.special, token.ID)
			v.control = append(v.control, token)
			first, _ := utf8.DecodeRuneInString(token.Content)
			if !strings.ContainsRune(v.first, first) {
				v.first += string(first)
			}
		}
	}
	slices.Sort(v.special)

	var size int32
	for piece, id := range v.ids {
		if id < 0 || id > maxID || piece == "" {
			return v, v.outside()
		}
		size = max(size, id+1)
	}
	v.pieces, v.texts = make([]string, size), make([]string, size)
	alphabet := byteAlphabet()
	for piece, id := range v.ids {
		if v.pieces[id] != "" {
			return v, v.shared()
		}
		v.pieces[id], v.texts[id] = piece, byteText(piece, alphabet)
	}
	// An added token stands for its content, also one made of letters of the alphabet: DeepSeek-V2 adds ø, a letter
	// that as a piece of the model would be the byte F8. (The library decodes it as that byte, to U+FFFD.)
	for _, token := range s.AddedTokens {
		v.pieces[token.ID], v.texts[token.ID] = token.Content, token.Content
	}
	return v, v.checkBytes(alphabet)
}

// outside says which token cannot be: the first, so that the message is always the
// same.
func (v *vocabulary) outside() error {
	for _, piece := range slices.Sorted(maps.Keys(v.ids)) {
		if id := v.ids[piece]; id < 0 || id > maxID || piece == "" {
			return fmt.Errorf("token %s has the id %d: pieces are not empty and ids lie in 0..%d: download the file again", excerpt.Quoted(piece), id, maxID)
		}
	}
	return nil
}

// shared says which id has two pieces: its text would depend on chance.
func (v *vocabulary) shared() error {
	owner := map[int32]string{}
	for _, piece := range slices.Sorted(maps.Keys(v.ids)) { // so that the message is always the same
		id := v.ids[piece]
		if first, ok := owner[id]; ok {
			return fmt.Errorf("the tokens %s and %s have the same id %d: download the file again", excerpt.Quoted(first), excerpt.Quoted(piece), id)
		}
		owner[id] = piece
	}
	return nil
}

// checkBytes makes sure that each byte of UTF-8 text has a token: BPE silently drops what has none.
func (v *vocabulary) checkBytes(alphabet map[rune]byte) error {
	letters := slices.SortedFunc(maps.Keys(alphabet), func(a, b rune) int { return cmp.Compare(alphabet[a], alphabet[b]) })
	for _, letter := range letters {
		b := alphabet[letter]
		if b == 0xC0 || b == 0xC1 || b >= 0xF5 {
			continue // never in UTF-8
		}
		if _, ok := v.ids[string(letter)]; !ok {
			return fmt.Errorf("the vocabulary has no token %q for the byte %02X: text with it would be lost: download the file again", letter, b)
		}
	}
	return nil
}

func (v *vocabulary) has(id int32) bool {
	return id >= 0 && int(id) < len(v.pieces) && v.pieces[id] != ""
}

// byteAlphabet maps the letters by which byte-level vocabularies write bytes: printable Latin-1 stands for itself, the
// other bytes in order for U+0100 and up. Source: GPT-2's encoder.py, bytes_to_unicode.
func byteAlphabet() map[rune]byte {
	alphabet := make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range rune(0x100) {
		if '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xAC || 0xAE <= b {
			alphabet[b] = byte(b)
			continue
		}
		alphabet[next] = byte(b)
		next++
	}
	return alphabet
}

// byteText is the text of a piece. A piece with a letter outside the alphabet stands for itself, as in the library.
func byteText(piece string, alphabet map[rune]byte) string {
	var text strings.Builder
	for _, letter := range piece {
		b, ok := alphabet[letter]
		if !ok {
			return piece
		}
		text.WriteByte(b)
	}
	return text.String()
}
