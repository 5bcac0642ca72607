package template

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The template engine trims the text nearest to a tag even where another tag stands between ("User: {{ x }}{%- endif %}"
// loses its space), and knows neither "+" signs nor the rule for the last newline. So a template is rewritten before the
// engine sees it: all its text is put into string expressions, with white space already removed as Jinja does when
// trim_blocks and lstrip_blocks are set, which leaves the engine nothing to trim. Lines keep their numbers, for its
// messages. Source of the rules: jinja2/lexer.py, version 3.1.

// space is what unicode.IsSpace and Python call white space; \s is less.
const space = `[\s\v\x{85}\p{Z}]*`

var (
	tagBegin = regexp.MustCompile(`\{[{%#][-+]?`)
	rawBegin = regexp.MustCompile(`^\{%[-+]?` + space + `raw` + space + `(-%\}` + space + `|%\})`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)` + space + `endraw` + space + `(\+%\}|-%\}` + space + `|%\}\n?)`)
	indented = regexp.MustCompile(`__tojson\s*\([^)]*indent`) // the engine would sort keys
	newline  = regexp.MustCompile(`\r\n|\r`)
)

// rewriter holds a template being rewritten.
type rewriter struct {
	src       string
	at        int  // all before is rewritten
	lineStart bool // what was consumed last ended with a newline
	out       strings.Builder
	missing   int // newlines of src[:at] that out does not have yet
}

// rewrite returns source with its text in string expressions.
func rewrite(source string) (string, error) {
	w := rewriter{src: newline.ReplaceAllString(source, "\n"), lineStart: true}
	w.src = strings.TrimSuffix(w.src, "\n")
	for {
		tag := tagBegin.FindStringIndex(w.src[w.at:])
		if tag == nil {
			w.text(w.src[w.at:])
			return w.out.String(), nil
		}
		begin, end := w.at+tag[0], w.at+tag[1]
		text := w.strip(w.src[w.at:begin], w.src[begin:end])
		w.consume(begin)
		w.text(text)
		if raw := rawBegin.FindString(w.src[begin:]); raw != "" {
			w.consume(begin + len(raw))
			if err := w.raw(); err != nil {
				return "", err
			}
			continue
		}
		w.consume(end)
		if err := w.tag(w.src[begin+1]); err != nil {
			return "", err
		}
	}
}

// strip removes what the tag that opens after text removes from its end.
func (w *rewriter) strip(text, open string) string {
	switch {
	case open[len(open)-1] == '-':
		return strings.TrimRightFunc(text, unicode.IsSpace)
	case open[len(open)-1] == '+' || open[1] == '{':
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if (line > 0 || w.lineStart) && strings.TrimFunc(text[line:], unicode.IsSpace) == "" {
		return text[:line]
	}
	return text
}

// tag rewrites the inside of a tag and its end; kind is the second byte of its opening.
func (w *rewriter) tag(kind byte) error {
	line := 1 + strings.Count(w.src[:w.at], "\n")
	if kind == '#' {
		end := strings.Index(w.src[w.at:], "#}")
		if end < 0 {
			return fmt.Errorf("line %d: comment without #}", line)
		}
		w.close(w.at+end, kind)
		return nil
	}
	var body tagBody
	depth := 0
	for at := w.at; at < len(w.src); {
		c := w.src[at]
		switch {
		case depth == 0 && strings.HasPrefix(w.src[at:], closing(kind)):
			if indented.MatchString(body.body()) {
				return fmt.Errorf("line %d: tojson with an indent is not supported", line)
			}
			if err := bounded(kind, body.code()); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			rewritten, err := body.operators(kind)
			if err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			w.emit(kind, rewritten)
			w.close(at, kind)
			return nil
		case depth == 0 && (c == '-' || c == '+' && kind == '%') && strings.HasPrefix(w.src[at+1:], closing(kind)):
			at++ // the sign; close sees it again
			continue
		case c == '"' || c == '\'':
			value, next, err := stringLiteral(w.src, at)
			if err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			body = append(body, piece{`""`, quote(value)})
			at = next
			continue
		case c == '|':
			at += body.filter(w.src[at:])
			continue
		case c == '.' && growing.MatchString(w.src[at:]):
			taken, err := body.call(w.src[at:])
			if err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			at += taken
			continue
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
			body.add("}")
			c = ' ' // the engine takes the first }} for the end
		case c == '\n':
			c = ' ' // emit adds the newlines
		}
		body.add(string([]byte{c}))
		at++
	}
	return fmt.Errorf("line %d: tag without %s", line, closing(kind))
}

func closing(kind byte) string {
	if kind == '{' {
		return "}}"
	}
	return string(kind) + "}"
}

// close consumes the end of a tag, which stands at at, with the white space that it removes.
func (w *rewriter) close(at int, kind byte) {
	end := at + 2
	switch sign := w.src[at-1]; {
	case sign == '-':
		rest := strings.TrimLeftFunc(w.src[end:], unicode.IsSpace)
		end = len(w.src) - len(rest)
	case sign == '+' || kind == '{':
	case strings.HasPrefix(w.src[end:], "\n"):
		end++
	}
	w.consume(end)
}

// raw rewrites what stands between raw and endraw.
func (w *rewriter) raw() error {
	end := rawEnd.FindStringSubmatchIndex(w.src[w.at:])
	if end == nil {
		return fmt.Errorf("line %d: raw without endraw", 1+strings.Count(w.src[:w.at], "\n"))
	}
	w.text(w.strip(w.src[w.at:w.at+end[0]], w.src[w.at+end[0]:w.at+end[3]]))
	w.consume(w.at + end[1])
	return nil
}

func (w *rewriter) consume(end int) {
	if end > w.at {
		w.missing += strings.Count(w.src[w.at:end], "\n")
		w.lineStart = w.src[end-1] == '\n'
		w.at = end
	}
}

// text writes text as an expression.
func (w *rewriter) text(text string) {
	if text != "" {
		w.emit('{', quote(text))
	}
}

// emit writes a tag (see guard).
func (w *rewriter) emit(kind byte, body string) {
	w.out.WriteString(watched(kind, body, strings.Repeat("\n", w.missing)))
	w.missing = 0
}

// quote writes a string literal as the engine reads it.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// stringLiteral reads the literal at src[at:] with Python's escapes, of which the engine knows few.
func stringLiteral(src string, at int) (value string, end int, err error) {
	var text strings.Builder
	rest := src[at+1:]
	for rest != "" {
		switch {
		case rest[0] == src[at]:
			return text.String(), len(src) - len(rest) + 1, nil
		case rest[0] != '\\':
			text.WriteByte(rest[0])
			rest = rest[1:]
			continue
		case strings.HasPrefix(rest, "\\\n"): // joins two lines
			rest = rest[2:]
			continue
		}
		r, _, tail, err := strconv.UnquoteChar(rest, 0)
		if strings.HasPrefix(rest, `\'`) || strings.HasPrefix(rest, `\"`) {
			r, tail, err = rune(rest[1]), rest[2:], nil
		}
		if err != nil || !utf8.ValidRune(r) { // an unknown escape stands for itself
			text.WriteByte('\\')
			rest = rest[1:]
			continue
		}
		text.WriteRune(r)
		rest = tail
	}
	return "", 0, fmt.Errorf("string without closing %c", src[at])
}
