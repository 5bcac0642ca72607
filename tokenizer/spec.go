package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"blitzen/internal/excerpt"
)

// spec is what this package reads of tokenizer.json.
type spec struct {
	path string
	data []byte

	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         struct {
		Type         string           `json:"type"`
		Dropout      float64          `json:"dropout"`
		Vocab        map[string]int32 `json:"vocab"`
		Merges       json.RawMessage  `json:"merges"`
		IgnoreMerges bool             `json:"ignore_merges"`
		Prefix       string           `json:"continuing_subword_prefix"`
		Suffix       string           `json:"end_of_word_suffix"`
	} `json:"model"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// What the library knows. It reports anything else without naming it, so names are checked first. Precompiled, of
// SentencePiece, is left out: the library ends the program over a damaged one.
var (
	normalizers = []string{"Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Prepend",
		"Replace", "Nmt", "BertNormalizer", "ByteLevel"}
	preTokenizers = []string{"Sequence", "Split", "ByteLevel", "Digits", "Whitespace", "WhitespaceSplit", "Punctuation",
		"BertPreTokenizer", "CharDelimiterSplit", "Metaspace", "UnicodeScripts"}
)

// half matches the escape of a half of a character.
var half = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// readSpec reads and checks dir/tokenizer.json.
func readSpec(dir string) (*spec, error) {
	s := &spec{path: filepath.Join(dir, "tokenizer.json")}
	var err error
	if s.data, err = readFile(s.path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: a checkpoint folder needs one (vocab.json, merges.txt and tokenizer.model are not read)", err)
		}
		return nil, err
	}
	if err = parseJSON(s.path, s.data, s); err != nil {
		return nil, err
	}
	if err = s.check(); err == nil {
		err = errors.Join(s.checkFatal(), s.checkNUL(), s.forgetLength())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return s, nil
}

// maxAdded bounds the added tokens, which the library compares with each other; published files have up to some thousand.
const maxAdded = 1 << 14

// maxParts bounds the steps before a text is split into tokens: published files have up to five.
const maxParts = 16

func (s *spec) check() error {
	if s.Model.Type != "BPE" && s.Model.Type != "" {
		return fmt.Errorf("model type %s is not supported, only byte-level BPE", excerpt.Quoted(s.Model.Type))
	}
	if s.Model.Dropout != 0 {
		return fmt.Errorf("model dropout %v would split text at random: set it to null", s.Model.Dropout)
	}
	if s.Model.Prefix != "" || s.Model.Suffix != "" {
		return fmt.Errorf("continuing_subword_prefix %s and end_of_word_suffix %s are not supported: byte-level BPE has none", excerpt.Quoted(s.Model.Prefix), excerpt.Quoted(s.Model.Suffix))
	}
	if n := len(s.AddedTokens); n > maxAdded {
		return fmt.Errorf("%d added tokens: at most %d are supported", n, maxAdded)
	}
	normal, err := types(s.Normalizer, "normalizer", normalizers)
	if err != nil {
		return err
	}
	pre, err := types(s.PreTokenizer, "pre_tokenizer", preTokenizers)
	if err != nil {
		return err
	}
	if !slices.Contains(pre, "ByteLevel") {
		return fmt.Errorf("no ByteLevel pre_tokenizer in %q: only byte-level BPE is supported", pre)
	}
	// Each writes most bytes anew as two: some dozens would fill the memory.
	bytewise := 0
	for _, name := range slices.Concat(normal, pre) {
		if name == "ByteLevel" {
			bytewise++
		}
	}
	if bytewise > 1 || len(normal)+len(pre) > maxParts {
		return fmt.Errorf("%d normalizers and pre_tokenizers, %d of them ByteLevel: at most %d and one are supported", len(normal)+len(pre), bytewise, maxParts)
	}
	if err := errors.Join(checkPatterns(s.Normalizer, "normalizer"), checkPatterns(s.PreTokenizer, "pre_tokenizer")); err != nil {
		return err
	}
	decoder, err := types(s.Decoder, "decoder", []string{"ByteLevel"})
	if err == nil && decoder == nil {
		err = errors.New("decoder is missing: ByteLevel is needed")
	}
	switch {
	case err != nil:
	case s.Model.Vocab == nil:
		err = errors.New("model.vocab is missing: download it again")
	case isNull(s.Model.Merges):
		err = errors.New("model.merges is missing: download it again")
	}
	return err
}

// types lists the types of a component and of its parts in order, and refuses one that is not in known.
func types(raw json.RawMessage, what string, known []string) ([]string, error) {
	var c struct {
		Type          string
		Normalizers   []json.RawMessage
		Pretokenizers []json.RawMessage
	}
	if isNull(raw) {
		return nil, nil
	}
	if err := parseJSON(what, raw, &c); err != nil {
		return nil, err
	}
	if !slices.Contains(known, c.Type) {
		return nil, fmt.Errorf("unknown %s type %s: known are %s", what, excerpt.Quoted(c.Type), strings.Join(known, ", "))
	}
	if c.Type != "Sequence" {
		return []string{c.Type}, nil
	}
	var all []string
	for _, part := range append(c.Normalizers, c.Pretokenizers...) {
		t, err := types(part, what, known)
		if err != nil {
			return nil, err
		}
		all = append(all, t...)
	}
	return all, nil
}

// forgetLength removes truncation and padding from the document: training scripts leave them in the file, and the
// library would cut or fill every text accordingly.
func (s *spec) forgetLength() error {
	if isNull(s.Truncation) && isNull(s.Padding) {
		return nil
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(s.data, &doc); err != nil {
		return err
	}
	delete(doc, "truncation")
	delete(doc, "padding")
	var err error
	s.data, err = json.Marshal(doc)
	return err
}

// isNull tells whether a JSON value is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
