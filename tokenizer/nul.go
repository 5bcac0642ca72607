package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The binding passes text as a C string, which ends at the first NUL. Text with NUL is encoded all the same, exactly,
// by exchanging the roles of two bytes: every NUL of the text becomes a control character c that the text does not
// hold, and a second instance of the library has the letters of byte 0 and byte c exchanged in its vocabulary and
// merges. Both see the same sequence of ids, provided that nothing before the byte level tells NUL from c. The
// candidates for c have the same Unicode properties as NUL (Cc, no white space), so only a pattern that names a control
// character could; a tokenizer.json with one is refused.

// candidates are the control characters that may stand for NUL.
const candidates = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b"

// replaceNUL returns the text with c in place of NUL.
func (t *Tokenizer) replaceNUL(text string) (replaced string, c byte, err error) {
	if t.nulSafe != nil {
		return "", 0, t.nulSafe
	}
	for i := range len(candidates) {
		if c := candidates[i]; strings.IndexByte(text, c) < 0 {
			return strings.ReplaceAll(text, "\x00", string(rune(c))), c, nil
		}
	}
	return "", 0, errors.New("no control character is free to stand for it")
}

// namesControl matches what can name a control character: itself, or an escape that gives a number or a control key.
var namesControl = regexp.MustCompile("[\x00-\x08\x0e-\x1f]" + `|\\[xuUoOcCM0-9]`)

// nulSafe says why NUL and the candidates might be treated differently, or nil.
func (s *spec) nulSafe() error {
	for _, raw := range []json.RawMessage{s.Normalizer, s.PreTokenizer} {
		var value any
		if len(raw) > 0 && json.Unmarshal(raw, &value) != nil || mentionsControl(value) {
			return errors.New("its patterns name control characters")
		}
	}
	for _, token := range s.AddedTokens {
		if namesControl.MatchString(token.Content) {
			return fmt.Errorf("the added token %q holds a control character", token.Content)
		}
	}
	// These leave control characters alone; others may remove or replace them.
	normalizers, err := types(s.Normalizer, "normalizer", []string{"Sequence", "NFC", "NFD", "NFKC", "NFKD"})
	if err != nil {
		return fmt.Errorf("its normalizer may change it: %w", err)
	}
	pre, err := types(s.PreTokenizer, "pre_tokenizer", preTokenizers)
	if err != nil {
		return err
	}
	// A pre-tokenizer after ByteLevel would see the letters that are exchanged.
	if i := slices.Index(pre, "ByteLevel"); i != len(pre)-1 {
		return fmt.Errorf("pre_tokenizers %q follow the byte level, normalizers %q", pre[i+1:], normalizers)
	}
	return nil
}

// checkNUL refuses a NUL where the library repeats what it reads in an error, over which its binding ends the program. It
// may stand in what is only looked up or written: the vocabulary, patterns, contents.
func (s *spec) checkNUL() error {
	if !bytes.Contains(s.data, []byte(`\u0000`)) {
		return nil
	}
	var doc map[string]any
	if err := json.Unmarshal(s.data, &doc); err != nil {
		return err
	}
	if model, ok := doc["model"].(map[string]any); ok {
		delete(model, "vocab")
	}
	if field := fieldWithNUL(doc, ""); field != "" {
		return fmt.Errorf("%s has a NUL in it", field)
	}
	return nil
}

// fieldWithNUL is the path of a field under value that has a NUL in it, or "".
func fieldWithNUL(value any, path string) string {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "\x00") {
			return path
		}
	case []any:
		for _, part := range v {
			if found := fieldWithNUL(part, path); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if strings.Contains(name, "\x00") {
				return "the name of a field of " + path
			}
			if name == "pattern" || name == "content" {
				continue
			}
			if found := fieldWithNUL(v[name], strings.TrimPrefix(path+"."+name, ".")); found != "" {
				return found
			}
		}
	}
	return ""
}

func mentionsControl(value any) bool {
	switch v := value.(type) {
	case string:
		return namesControl.MatchString(v)
	case []any:
		return slices.ContainsFunc(v, mentionsControl)
	case map[string]any:
		for _, part := range v {
			if mentionsControl(part) {
				return true
			}
		}
	}
	return false
}

// exchangeBytes exchanges the letters of two bytes in the vocabulary and merges of a tokenizer.json.
func exchangeBytes(data []byte, a, b byte) ([]byte, error) {
	letter := make(map[byte]string, 256)
	for r, b := range byteAlphabet() {
		letter[b] = string(r)
	}
	exchange := strings.NewReplacer(letter[a], letter[b], letter[b], letter[a])

	var doc, model map[string]json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(doc["model"], &model); err != nil {
		return nil, err
	}
	var vocab map[string]int32
	var merges []any // "a b" or ["a", "b"]
	if err := errors.Join(json.Unmarshal(model["vocab"], &vocab), json.Unmarshal(model["merges"], &merges)); err != nil {
		return nil, err
	}
	exchanged := make(map[string]int32, len(vocab))
	for piece, id := range vocab {
		exchanged[exchange.Replace(piece)] = id
	}
	for i, merge := range merges {
		switch m := merge.(type) {
		case string:
			merges[i] = exchange.Replace(m)
		case []any:
			for j, part := range m {
				if text, ok := part.(string); ok {
					m[j] = exchange.Replace(text)
				}
			}
		}
	}
	var err [4]error
	model["vocab"], err[0] = json.Marshal(exchanged)
	model["merges"], err[1] = json.Marshal(merges)
	doc["model"], err[2] = json.Marshal(model)
	data, err[3] = json.Marshal(doc)
	return data, errors.Join(err[:]...)
}
