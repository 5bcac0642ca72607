package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"unicode/utf8"
)

// lostShare is the share of pieces without a merge, one in so many, above which a file is taken for damaged: of published
// vocabularies every piece has one.
const lostShare = 10

// checkMerges refuses a vocabulary whose merges are lost: text would be split into other tokens than the model knows.
func (s *spec) checkMerges(v *vocabulary) error {
	if s.Model.IgnoreMerges { // a piece that is a whole word needs none
		return nil
	}
	if lost, all := s.lostPieces(v); lost*lostShare > all {
		return fmt.Errorf("%d of %d pieces of several characters cannot be made by merges: the file is damaged, download it again", lost, all)
	}
	return nil
}

// lostPieces is how many pieces of several characters no merge makes, so that no text has them, of how many. Added tokens
// need no merge.
func (s *spec) lostPieces(v *vocabulary) (lost, all int) {
	made := make([]bool, len(v.pieces))
	for piece := range mergedPieces(s.Model.Merges) {
		if id, ok := v.ids[string(piece)]; ok {
			made[id] = true
		}
	}
	added := make([]bool, len(v.pieces))
	for _, token := range s.AddedTokens {
		added[token.ID] = true
	}
	for id, piece := range v.pieces {
		if added[id] || utf8.RuneCountInString(piece) < 2 {
			continue
		}
		all++
		if !made[id] {
			lost++
		}
	}
	return lost, all
}

// mergedPieces are the pieces that merges make: JSON, of which each is "a b" or ["a", "b"]; of another form it has some or
// none, since the library says what is wrong there. It takes a quarter of the time of json.Unmarshal. A piece is valid until
// the next one.
func mergedPieces(merges json.RawMessage) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var piece []byte
		depth := 0
		for at := 0; at < len(merges); at++ {
			whole := false
			switch merges[at] {
			case '[':
				depth++
				piece = piece[:0]
			case ']':
				whole = depth == 2 && len(piece) > 0
				depth--
			case '"':
				end := textEnd(merges, at)
				text := unescaped(merges[at:end])
				at = end - 1
				if depth == 1 {
					a, b, _ := bytes.Cut(text, []byte(" "))
					piece, whole = append(append(piece[:0], a...), b...), true
				} else if depth == 2 {
					piece = append(piece, text...)
				}
			}
			if whole && !yield(piece) {
				return
			}
		}
	}
}

// textEnd is where the JSON text ends that begins at a place.
func textEnd(document []byte, at int) int {
	for at++; document[at] != '"'; at++ {
		if document[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// unescaped is what a JSON text stands for.
func unescaped(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // as part of the document it has been parsed
	return []byte(text)
}
