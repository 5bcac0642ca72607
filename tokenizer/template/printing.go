package template

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// text is a value as Jinja prints it.
func (g *guard) text(v jinja.Value) (string, error) {
	switch {
	case v.IsString():
		return v.AsString(), nil
	case v.IsUndefined() || v.IsCallable():
		return "", nil
	}
	if _, err := g.size(v, g.room, 0); err != nil {
		return "", err
	}
	return literal(v), nil
}

// literal writes a value as Python's repr does, but a tuple, which the engine does not know, as a list.
func literal(v jinja.Value) string {
	var parts []string
	switch {
	case v.IsString():
		return literalText(v.AsString())
	case v.IsFloat():
		return decimal(v.AsFloat())
	case v.IsList():
		for _, item := range v.AsList().Items {
			parts = append(parts, literal(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case v.IsDict():
		for _, key := range v.AsDict().Keys {
			parts = append(parts, literalText(key)+": "+literal(v.AsDict().Data[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return v.String()
}

// literalText writes a text as Python's repr does.
func literalText(text string) string {
	quote := '\''
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		quote = '"'
	}
	var out strings.Builder
	out.WriteRune(quote)
	for _, r := range text {
		switch {
		case r == quote || r == '\\':
			out.WriteString(`\` + string(r))
		case r == '"' || r == '\'':
			out.WriteRune(r)
		case r < ' ' && !strings.ContainsRune("\n\r\t", r) || r == 0x7f:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r > 0x7f && r <= 0xff && !strconv.IsPrint(r):
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			escaped := strconv.QuoteRune(r)
			out.WriteString(escaped[1 : len(escaped)-1])
		}
	}
	out.WriteRune(quote)
	return out.String()
}

// decimal writes a fraction as Python does.
func decimal(f float64) string {
	switch size := math.Abs(f); {
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	case math.IsNaN(f):
		return "nan"
	case size != 0 && (size < 1e-4 || size >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
