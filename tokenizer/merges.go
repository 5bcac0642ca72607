package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
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
	pieces, ok := mergedPieces(s.Model.Merges)
	if lost, all := s.lostPieces(v, pieces); ok && lost*lostShare > all {
		return fmt.Errorf("%d of %d pieces of several characters cannot be made by merges: the file is damaged, download it again", lost, all)
	}
	return nil
}

// lostPieces is how many pieces of several characters are not among those that merges make, so that no text has them, of how
// many. Added tokens need no merge.
func (s *spec) lostPieces(v *vocabulary, merged []string) (lost, all int) {
	made := make([]bool, len(v.pieces))
	for _, piece := range merged {
		if id, ok := v.ids[piece]; ok {
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

// mergedPieces are the pieces that merges make, "a b" each or each ["a", "b"]. They are not ok where they have another form,
// of which the library says what is wrong.
func mergedPieces(merges json.RawMessage) (pieces []string, ok bool) {
	if json.Unmarshal(merges, &pieces) == nil {
		for i, text := range pieces {
			a, b, _ := strings.Cut(text, " ")
			pieces[i] = a + b
		}
		return pieces, true
	}
	var pairs [][2]string
	if json.Unmarshal(merges, &pairs) != nil {
		return nil, false
	}
	pieces = nil
	for _, pair := range pairs {
		pieces = append(pieces, pair[0]+pair[1])
	}
	return pieces, true
}
