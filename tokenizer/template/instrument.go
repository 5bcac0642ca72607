package template

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"blitzen/internal/excerpt"
)

var (
	setTag    = regexp.MustCompile(`^\s*set\s+(\w+)\s*(?:\.\s*(\w+)\s*)?=((?s).*)$`)
	forTag    = regexp.MustCompile(`^\s*for\s+\(?\s*(\w+)\s*(?:,\s*(\w+)\s*)?\)?\s*in\b`)
	callTag   = regexp.MustCompile(`^\s*call\s*(?:\(([^)]*)\))?`)
	macroTag  = regexp.MustCompile(`^\s*macro\s+\w+\s*\(([^)]*)\)`)
	parameter = regexp.MustCompile(`^\s*([A-Za-z_]\w*)\s*(?:=|$)`)

	reserved = regexp.MustCompile(`\b__(enter|leave|step|print|assign|field|indent|sized|replaced?|string|format|join|tojson|add|sub|mul|div|floordiv|mod|pow|concat|compare|neg|pos|have|item)\b`) // the names of guard.go
	mutation = regexp.MustCompile(`\.\s*(append|insert|pop|update)\b`)
	product  = regexp.MustCompile(`(?:^|[^\w.])\d+(?:\.\d+)?\s*\*|\*\s*\d{1,3}(?:[^\w.]|$)`)
)

// maxSums bounds how many texts one expression puts together, each of which can be as large as the guard allows.
const maxSums = 100

// bounded refuses tags that the guard could not watch; code is a tag with its texts left out.
func bounded(kind byte, code string) error {
	if at := strings.IndexFunc(code, func(r rune) bool { return r > unicode.MaxASCII }); at >= 0 {
		return fmt.Errorf("a tag has %.1q outside of a text: only ASCII is supported there", code[at:])
	}
	if name := reserved.FindString(code); name != "" {
		return fmt.Errorf("the name %s is reserved", name)
	}
	word := strings.TrimSpace(code)
	if kind == '%' && (strings.HasPrefix(word, "set") && strings.Contains(word, "=") && !setTag.MatchString(word) ||
		strings.HasPrefix(word, "for") && !forTag.MatchString(word)) {
		return fmt.Errorf("cannot read the tag %s", excerpt.Quoted(word))
	}
	if method := mutation.FindStringSubmatch(code); method != nil {
		return fmt.Errorf(".%s is not supported: transformers refuses methods that change a value too", method[1])
	}
	if n := strings.Count(code, "+") + strings.Count(code, "~"); n > maxSums {
		return fmt.Errorf("more than %d additions in one tag", maxSums)
	}
	// A text times a number repeats it.
	if times := strings.ReplaceAll(code, "**", "^^"); strings.Contains(times, "*") &&
		(strings.Count(times, "*") > 1 || !product.MatchString(times)) {
		return errors.New("one multiplication in a tag is supported, of or by a number of at most three digits")
	}
	if kind == '%' && strings.HasPrefix(word, "macro") {
		// A default is computed before the macro can count itself.
		_, parameters, _ := strings.Cut(code, "(")
		if strings.ContainsAny(parameters, "(|") {
			return errors.New("a macro's default value with a call or filter is not supported")
		}
	}
	return nil
}

// watched is a tag whose values pass the guard; lines are the newlines to put into it.
func watched(kind byte, body, lines string) string {
	if kind == '{' {
		return "{{ " + printed + "(" + body + ")" + lines + " }}"
	}
	if set := setTag.FindStringSubmatch(body); set != nil {
		if set[2] == "" {
			body = fmt.Sprintf("set %s = %s(%s)", set[1], assigned, set[3])
		} else {
			body = fmt.Sprintf("set %s.%s = %s(%[1]s, %[4]s)", set[1], set[2], assignField, set[3])
		}
	}
	tag := "{% " + body + lines + " %}"
	switch word := strings.TrimSpace(body); {
	case strings.HasPrefix(word, "endmacro"):
		tag = "{{" + leaveMacro + "()}}" + tag
	case strings.HasPrefix(word, "macro"):
		tag += "{{" + enterMacro + "(" + parameters(macroTag, body) + ")}}"
	case strings.HasPrefix(word, "call"):
		tag += "{{" + enterLoop + "(" + parameters(callTag, body) + ")}}"
	case strings.HasPrefix(word, "for"):
		names := forTag.FindStringSubmatch(body)
		tag += "{{" + enterLoop + "(" + strings.Trim(names[1]+","+names[2], ",") + ")}}"
	}
	return tag
}

// parameters are the names of a tag's parameters.
func parameters(tag *regexp.Regexp, body string) string {
	found := tag.FindStringSubmatch(body)
	if found == nil {
		return ""
	}
	var names []string
	for part := range strings.SplitSeq(found[1], ",") {
		if name := parameter.FindStringSubmatch(part); name != nil {
			names = append(names, name[1])
		}
	}
	return strings.Join(names, ",")
}
