package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"blitzen/internal/excerpt"
)

// checkFatal refuses what the library ends the program over, on reading the file or on the first text.
func (s *spec) checkFatal() error {
	if err := fieldsOnce(s.data); err != nil {
		return err
	}
	if err := checkDecoder(s.Decoder); err != nil {
		return err
	}
	if err := checkNormalizer(s.Normalizer); err != nil {
		return err
	}
	return checkPostProcessor(s.PostProcessor)
}

// fieldsOnce refuses a document with two fields of one name, in any case: the library reads the first, too, and Go takes
// names without regard to case.
func fieldsOnce(document []byte) error {
	dec := json.NewDecoder(bytes.NewReader(document))
	if _, err := dec.Token(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		folded := strings.ToLower(fmt.Sprint(name))
		if seen[folded] {
			return fmt.Errorf("the field %s comes twice: download it again", excerpt.Quoted(folded))
		}
		seen[folded] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

// checkDecoder takes texts and truth values alone, which is what ByteLevel has: the library ends the program over numbers
// out of range, bytes that are not UTF-8 and deep nesting.
func checkDecoder(raw json.RawMessage) error {
	if !utf8.Valid(raw) {
		return errors.New("decoder is not UTF-8: download it again")
	}
	if half.Match(raw) {
		return errors.New("decoder has half a character in it: download it again")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for at := 0; ; at++ {
		token, err := dec.Token()
		if err != nil {
			return nil // the end: all of it has been parsed before
		}
		switch token.(type) {
		case string, bool:
			continue
		case nil:
			token = "null"
		}
		if at > 0 && token != json.Delim('}') {
			return fmt.Errorf("decoder has %s where a text, true or false is expected: download it again", excerpt.Quoted(fmt.Sprint(token)))
		}
	}
}

// checkNormalizer refuses to put letters in place of nothing, over which the library ends the program.
func checkNormalizer(raw json.RawMessage) error {
	var c struct {
		Type        string
		Prepend     string
		Pattern     struct{ String, Regex *string }
		Normalizers []json.RawMessage
	}
	if isNull(raw) {
		return nil
	}
	if err := parseJSON("normalizer", raw, &c); err != nil {
		return err
	}
	text, pattern := c.Pattern.String, c.Pattern.Regex
	switch {
	case c.Type == "Prepend" && c.Prepend == "":
		return errors.New("normalizer Prepend has nothing to prepend: download it again")
	case c.Type == "Replace" && text != nil && *text == "":
		return errors.New("normalizer Replace has nothing to replace: download it again")
	case c.Type == "Replace" && pattern != nil && mayBeEmpty(*pattern):
		return fmt.Errorf("normalizer Replace: the pattern %s matches an empty text, or is written in a way that hides whether it does: that is not supported", excerpt.Quoted(*pattern))
	}
	for _, part := range c.Normalizers {
		if err := checkNormalizer(part); err != nil {
			return err
		}
	}
	return nil
}

// mayBeEmpty reports whether a pattern in Oniguruma's syntax matches an empty text, or has what Go reads differently.
func mayBeEmpty(pattern string) bool {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	return err != nil || strings.Contains(pattern, "{,") || !takes(tree)
}

// takes reports whether every match has a character at least.
func takes(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return true
	case syntax.OpCapture, syntax.OpPlus:
		return takes(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min > 0 && takes(re.Sub[0])
	case syntax.OpConcat:
		return slices.ContainsFunc(re.Sub, takes)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !takes(sub) })
	}
	return false // *, ?, borders
}

// checkPostProcessor refuses a template that does not place the text once, since there is no second one, or that places a
// token without ids. It tells a template by its parts and takes names as they are: the library asks for no type, and Go
// would take names in any case.
func checkPostProcessor(raw json.RawMessage) error {
	var fields map[string]json.RawMessage
	if isNull(raw) {
		return nil
	}
	if json.Unmarshal(raw, &fields) != nil {
		return errors.New("post_processor is not an object: download it again")
	}
	var parts []json.RawMessage
	if json.Unmarshal(fields["processors"], &parts) == nil {
		for _, part := range parts {
			if err := checkPostProcessor(part); err != nil {
				return err
			}
		}
	}
	if isNull(fields["single"]) {
		return nil // not a template
	}
	var pieces []map[string]map[string]json.RawMessage
	var tokens map[string]json.RawMessage
	if json.Unmarshal(fields["single"], &pieces) != nil || !isNull(fields["special_tokens"]) && json.Unmarshal(fields["special_tokens"], &tokens) != nil {
		return errors.New("post_processor TemplateProcessing has a part of the wrong form (single, special_tokens): download it again")
	}
	places := ""
	for _, piece := range pieces {
		for kind, piece := range piece {
			var id string
			if json.Unmarshal(piece["id"], &id) != nil {
				continue // the library names what is wrong
			}
			if _, ok := tokens[id]; !ok && kind == "SpecialToken" {
				return fmt.Errorf("post_processor TemplateProcessing places the token %s in single, and special_tokens has no such token: download it again", excerpt.Quoted(id))
			}
			if kind == "Sequence" {
				places += id
			}
		}
	}
	if places != "A" {
		return fmt.Errorf("post_processor TemplateProcessing places the texts %s in single, expected A, once: download it again", excerpt.Quoted(places))
	}
	return nil
}
