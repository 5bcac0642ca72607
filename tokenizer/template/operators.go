package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"blitzen/internal/excerpt"
)

// The engine computes "a" + 1, 1 < "a", 7 / 0 or "%s" % x where Jinja2 has an error or another result, binds some operators
// in another order, and says nothing. So each operation of a tag becomes a call of a function of the guard (arithmetic.go,
// comparison.go), which does what Python does or is an error, and what is left for the engine stands in brackets. The order of
// binding is that of jinja2/parser.py, version 3.1.

// maxDepth bounds how deep brackets and the like stand in each other, and maxOperations what one tag computes: a row of
// operations becomes a nest of calls, whose depth the engine does not watch.
const maxDepth, maxOperations = 200, 500

// operations are the guard's functions by operator.
var operations = map[string]string{
	"+": "__add", "-": "__sub", "*": "__mul", "/": "__div", "//": "__floordiv", "%": "__mod", "**": "__pow", "~": "__concat",
	"compare": "__compare", "neg": "__neg", "pos": "__pos", "field": "__have", "item": "__item",
}

// parser reads the inside of a tag. The first error stays.
type parser struct {
	t         tagBody
	at, depth int
	calls     int  // of the guard's functions
	computes  bool // one of them is more than a field or item
	err       error
}

// operators is the inside of a tag with calls in place of operations; kind is the second byte of the tag's opening.
func (t tagBody) operators(kind byte) (string, error) {
	p := &parser{t: t}
	var body string
	if kind == '{' {
		body = p.list("")
	} else {
		body = p.statement()
	}
	if left := p.next(); left != "" {
		p.fail(left)
	}
	return body, p.err
}

// fail notes that a token does not belong where it stands.
func (p *parser) fail(token string) {
	p.stop(fmt.Errorf("cannot read the tag %s: %s is not expected there", excerpt.Quoted(strings.TrimSpace(p.t.code())), excerpt.Quoted(token)))
}

// stop ends reading.
func (p *parser) stop(err error) {
	if p.err == nil {
		p.err = err
	}
	p.at = len(p.t)
}

// count counts an operation.
func (p *parser) count() {
	if p.calls++; p.calls > maxOperations {
		p.stop(fmt.Errorf("more than %d operations in one tag", maxOperations))
	}
}

var longOperators = []string{"**", "//", "==", "!=", "<=", ">="}

// next is the code of the token to come, "" at the end.
func (p *parser) next() string {
	return strings.TrimSpace(p.t[p.begin():p.end()].code())
}

func (p *parser) begin() int {
	at := p.at
	for at < len(p.t) && strings.TrimSpace(p.t[at].code) == "" {
		at++
	}
	return at
}

func (p *parser) end() int {
	begin := p.begin()
	at := begin
	for at < len(p.t) && isWord(p.t[at].code) {
		at++
	}
	switch {
	case at > begin || at == len(p.t):
		return at
	case at+1 < len(p.t) && slices.Contains(longOperators, p.t[at].code+p.t[at+1].code):
		return at + 2
	}
	return at + 1
}

// take consumes the next token and returns its body.
func (p *parser) take() string {
	begin, end := p.begin(), p.end()
	p.at = end
	return p.t[begin:end].body()
}

// accept takes the next token if it is this one.
func (p *parser) accept(token string) bool {
	if p.next() != token {
		return false
	}
	p.take()
	return true
}

// deeper counts what stands in something.
func (p *parser) deeper(f func() string) string {
	if p.depth++; p.depth > maxDepth {
		p.stop(fmt.Errorf("brackets and operators stand more than %d deep in each other", maxDepth))
	}
	defer func() { p.depth-- }()
	return f()
}

// statement rewrites the inside of {% %}.
func (p *parser) statement() string {
	switch p.next() {
	case "if", "elif":
		return p.take() + " " + p.or()
	case "filter":
		return p.take() + " " + p.condition()
	case "for":
		return p.verbatim("in") + " " + p.loop()
	case "set":
		return p.verbatim("=") + p.ifMore(func() string { return " " + p.list("") })
	case "macro":
		return p.macro()
	case "call":
		word := p.take()
		if p.next() == "(" {
			word += p.brackets()
		}
		return word + " " + p.condition()
	}
	return p.verbatim("")
}

// verbatim is what stands up to a token and with it, or up to the end.
func (p *parser) verbatim(token string) string {
	begin := p.at
	for p.begin() < len(p.t) && !p.accept(token) {
		p.take()
	}
	return p.t[begin:p.at].body()
}

func (p *parser) ifMore(f func() string) string {
	if p.next() == "" {
		return ""
	}
	return f()
}

// loop is what a for tag has after "in".
func (p *parser) loop() string {
	text := p.or()
	if p.accept("if") {
		text += " if " + p.condition()
	}
	if p.accept("recursive") {
		text += " recursive"
	}
	return text
}

// macro leaves a macro tag as it is: a default is computed before the macro can count itself.
func (p *parser) macro() string {
	body := p.t.body()
	p.take()
	p.condition()
	if p.computes {
		p.stop(errors.New("a macro's default value with an operation is not supported"))
	}
	return body
}

// list reads expressions and the marks between them, up to a closing bracket or the end.
func (p *parser) list(closing string) string {
	var text strings.Builder
	for p.next() != closing && p.err == nil {
		switch p.next() {
		case ",", ":", "=":
			text.WriteString(p.take())
		case "*", "**":
			if closing != ")" || !p.isFirst() {
				p.fail(p.next())
			}
			text.WriteString(p.take())
		default:
			text.WriteString(p.condition())
			if mark := p.next(); mark != closing && mark != "," && mark != ":" && mark != "=" {
				p.fail(mark)
			}
		}
	}
	return text.String()
}

// isFirst tells whether a bracket or comma stands before.
func (p *parser) isFirst() bool {
	at := p.t.skipSpace(p.at)
	return at > 0 && slices.Contains([]string{"(", ","}, strings.TrimSpace(p.t[at-1].code))
}

// brackets reads a bracket, what it holds and its end.
func (p *parser) brackets() string {
	closing := map[string]string{"(": ")", "[": "]", "{": "}"}[p.next()]
	return p.deeper(func() string {
		text := p.take() + p.list(closing)
		if p.next() == "" {
			p.fail("the end")
			return text
		}
		return text + p.take() + map[string]string{"}": " "}[closing] // the engine takes the first }} for the end
	})
}
