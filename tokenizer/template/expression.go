package template

import (
	"slices"
	"strings"
	"unicode"
)

// The grammar of expressions, from what binds least to what binds most.

// condition is a if b else c.
func (p *parser) condition() string {
	return p.deeper(func() string {
		text := p.or()
		for p.accept("if") {
			p.count()
			text = "(" + text + " if " + p.or()
			if p.accept("else") {
				text += " else " + p.condition()
			}
			text += ")"
		}
		return text
	})
}

func (p *parser) or() string { return p.joined("or", p.and) }

func (p *parser) and() string { return p.joined("and", p.not) }

// joined puts a row of operands that the engine joins in brackets.
func (p *parser) joined(word string, operand func() string) string {
	text, more := operand(), false
	for p.accept(word) {
		text, more = text+" "+word+" "+operand(), true
	}
	if more {
		return "(" + text + ")"
	}
	return text
}

func (p *parser) not() string {
	if p.accept("not") {
		return p.deeper(func() string { return "(not " + p.not() + ")" })
	}
	return p.compare()
}

var comparisonWords = []string{"==", "!=", "<", "<=", ">", ">=", "in", "not"}

// compare is a row of comparisons: a < b < c.
func (p *parser) compare() string {
	operands := []string{p.sum()}
	for slices.Contains(comparisonWords, p.next()) {
		operator := p.take()
		if operator == "not" {
			if operator = "not in"; !p.accept("in") {
				p.fail(p.next())
			}
		}
		operands = append(operands, quote(operator), p.sum())
	}
	if len(operands) == 1 {
		return operands[0]
	}
	return p.call("compare", operands...)
}

func (p *parser) sum() string     { return p.row(p.concat, "+", "-") }
func (p *parser) concat() string  { return p.row(p.product, "~") }
func (p *parser) product() string { return p.row(p.power, "*", "/", "//", "%") }
func (p *parser) power() string   { return p.row(func() string { return p.unary(true) }, "**") }

// row is a row of operands with operators between them, computed from the left.
func (p *parser) row(operand func() string, operators ...string) string {
	text := operand()
	for slices.Contains(operators, p.next()) {
		operator := p.take()
		text = p.call(operator, text, operand())
	}
	return text
}

func (p *parser) call(operator string, operands ...string) string {
	p.count()
	p.computes = p.computes || operator != "field" && operator != "item"
	return operations[operator] + "(" + strings.Join(operands, ", ") + ")"
}

// unary is a sign or a value with all that stands behind it, of which filters belong to the sign's result.
func (p *parser) unary(filters bool) string {
	text := ""
	switch sign := p.next(); sign {
	case "-", "+":
		p.take()
		number := sign == "-" && isNumber(p.next())
		text = p.deeper(func() string { return p.unary(false) })
		switch {
		case number && isNumber(text):
			text = "-" + text
			if p.next() == "|" || p.next() == "is" {
				text = "(" + text + ")"
			}
		case sign == "-":
			text = p.call("neg", text)
		default:
			text = p.call("pos", text)
		}
	default:
		text = p.postfix(p.primary())
	}
	if filters {
		return p.filters(text)
	}
	return text
}

func isNumber(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsDigit(r) && r != '.' })
}

// primary is a name, a number, a text or a bracket.
func (p *parser) primary() string {
	token := p.next()
	switch {
	case token == "(" || token == "[" || token == "{":
		return p.brackets()
	case token == `""`:
		return p.take()
	case isNumber(token) && token != ".":
		number := p.take()
		if p.at+1 < len(p.t) && p.t[p.at].code == "." && unicode.IsDigit(rune(p.t[p.at+1].code[0])) {
			number += p.take() + p.take()
		}
		return number
	case isName(token):
		return p.take()
	}
	p.fail(token)
	return ""
}

func isName(token string) bool {
	return token != "" && isWord(token[:1]) && !unicode.IsDigit(rune(token[0])) && !slices.Contains(keywords, token)
}

// keywords are no names.
var keywords = []string{"if", "else", "in", "not", "and", "or", "is"}

// postfix is a value with its fields, indices and calls.
func (p *parser) postfix(text string) string {
	for {
		switch p.next() {
		case ".":
			text = p.call("field", text) + p.take()
			if field := p.next(); !isName(field) && !isNumber(field) {
				p.fail(field)
			}
			text += p.take()
		case "(":
			text += p.brackets()
		case "[":
			text = p.deeper(func() string { return p.item(text) })
		default:
			return text
		}
	}
}

// item is a value with an index or a slice.
func (p *parser) item(text string) string {
	p.take()
	key := ""
	if p.next() != ":" {
		key = p.condition()
		if p.accept("]") {
			return p.call("item", text, key)
		}
	}
	text = p.call("field", text) + "[" + key + p.list("]")
	if p.next() == "" {
		p.fail("the end")
	}
	return text + p.take()
}

// filters is a value with its filters and tests.
func (p *parser) filters(text string) string {
	for {
		switch p.next() {
		case "|":
			text += p.take()
			if !isWord(text[len(text)-1:]) { // not the guard's
				text += p.name()
			}
			if p.next() == "(" {
				text += p.brackets()
			}
		case "is":
			p.count()
			text = "(" + text + " " + p.test() + ")"
		case "(":
			text += p.brackets()
		default:
			return text
		}
	}
}

// name is the name of a filter or test.
func (p *parser) name() string {
	if token := p.next(); !isName(token) && token != "in" {
		p.fail(token)
	}
	return p.take()
}

// test is what stands after a value that is tested.
func (p *parser) test() string {
	text := p.take() + " "
	if p.accept("not") {
		text += "not "
	}
	text += p.name()
	switch token := p.next(); {
	case token == "(":
		return text + p.brackets()
	case slices.Contains([]string{"is", "in", "not", "if"}, token): // Jinja takes them for the test's argument
		p.fail(token)
	case token == `""` || token == "[" || token == "{" || isName(token) && token != "recursive" || isNumber(token):
		return text + " " + p.postfix(p.primary())
	}
	return text
}
