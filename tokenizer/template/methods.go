package template

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// growing are methods of texts for which there are functions of the guard.
var growing = regexp.MustCompile(`^\.\s*(replace|format)\b\s*(\(\s*\)?)?`)

// growingFilter is a filter of that kind.
var growingFilter = regexp.MustCompile(`^\|\s*(replace|join|tojson|indent|string)\b`)

var guarded = map[string]string{"replace": replaceText, "format": formatText, "join": joinItems, "tojson": writeJSON, "indent": indentBy, "string": asText}

// methods are functions for methods, which are texts' alone.
var methods = map[string]string{"replace": replaceIn, "format": formatText}

// maxCalls bounds such methods in one tag.
const maxCalls = 100

// piece is a character of a tag, or a text in it, which code has as "".
type piece struct{ code, body string }

// tagBody is the inside of a tag as it is rewritten.
type tagBody []piece

func (t tagBody) body() string { return t.join(func(p piece) string { return p.body }) }
func (t tagBody) code() string { return t.join(func(p piece) string { return p.code }) }

func (t tagBody) join(part func(piece) string) string {
	var all strings.Builder
	for _, p := range t {
		all.WriteString(part(p))
	}
	return all.String()
}

func (t *tagBody) add(text string) { *t = append(*t, piece{text, text}) }

// filter adds the bar of a filter, with the filter's name where it is the guard's. What a filter gets is looked at first.
// It returns how much of src, which begins with the bar, it took.
func (t *tagBody) filter(src string) (taken int) {
	p := piece{"|", "|" + sized + "|"}
	taken = 1
	if found := growingFilter.FindStringSubmatch(src); found != nil {
		p.body += guarded[found[1]]
		taken = len(found[0])
	}
	*t = append(*t, p)
	return taken
}

// call adds a method of what t ends with, as a function: x.replace(y) becomes __replaced(x,y). It returns how much of
// src, which begins with the method, it took.
func (t *tagBody) call(src string) (taken int, err error) {
	found := growing.FindStringSubmatch(src)
	if found[2] == "" {
		return 0, fmt.Errorf(".%s without a call is not supported", found[1])
	}
	at, ok := t.operand()
	switch {
	case !ok:
		return 0, fmt.Errorf("cannot read what .%s is called on", found[1])
	case strings.Count(t.body(), "__") > maxCalls:
		return 0, fmt.Errorf("more than %d calls of methods and filters in one tag", maxCalls)
	}
	*t = slices.Insert(*t, at, piece{" (", " " + methods[found[1]] + "("})
	if strings.HasSuffix(found[2], ")") {
		t.add(")")
	} else {
		t.add(",")
	}
	return len(found[0]), nil
}

// words may stand before an operand, and are none.
var words = []string{"if", "elif", "else", "in", "not", "and", "or", "is", "for", "set", "call", "filter", "recursive"}

// operand is where the operand begins that t ends with: a name, a text or something in brackets, with all the calls,
// indices and fields behind it.
func (t tagBody) operand() (at int, ok bool) {
	at = t.skipSpace(len(t))
	for at > 0 {
		switch c := t[at-1].code; {
		case c == `""`:
			return at - 1, true
		case c == ")" || c == "]" || c == "}":
			if at = t.opening(at); at < 0 {
				return 0, false
			}
			before := t.skipSpace(at)
			if before == 0 || c == "}" || !t.ends(before) {
				return at, true
			}
			at = before
		case isWord(c):
			at = t.word(at)
			before := t.skipSpace(at)
			if before == 0 || t[before-1].code != "." {
				return at, true
			}
			at = t.skipSpace(before - 1)
		default:
			return 0, false
		}
	}
	return 0, false
}

// ends tells whether an operand ends before at.
func (t tagBody) ends(at int) bool {
	c := t[at-1].code
	if isWord(c) {
		return !slices.Contains(words, tagBody(t[t.word(at):at]).code())
	}
	return c == ")" || c == "]" || c == "}" || c == `""`
}

// word is where the word begins that ends before at.
func (t tagBody) word(at int) int {
	for at > 0 && isWord(t[at-1].code) {
		at--
	}
	return at
}

// opening is the bracket that belongs to the one before at, or -1.
func (t tagBody) opening(at int) int {
	depth := 0
	for at--; at >= 0; at-- {
		switch t[at].code {
		case ")", "]", "}":
			depth++
		case "(", " (", "[", "{":
			if depth--; depth == 0 {
				return at
			}
		}
	}
	return -1
}

func (t tagBody) skipSpace(at int) int {
	for at > 0 && strings.TrimSpace(t[at-1].code) == "" {
		at--
	}
	return at
}

func isWord(code string) bool {
	return len(code) == 1 && (code == "_" || unicode.IsLetter(rune(code[0])) || unicode.IsDigit(rune(code[0])))
}
