package tokenizer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"blitzen/internal/excerpt"
)

// checkPatterns refuses regular expressions of a component and its parts for which the
// library's engine, which tries one way after another, takes time without end on a short
// text: those that repeat a choice, as (a+)+ and (a|aa)* do. After 10,000,000 steps of
// one match the engine ends the program. Published patterns repeat characters and classes
// alone. A pattern can be slow all the same: .*.*.*x is on a long line.
func checkPatterns(raw json.RawMessage, what string) error {
	var c struct {
		Pattern       struct{ Regex string }
		Normalizers   []json.RawMessage
		Pretokenizers []json.RawMessage
	}
	if isNull(raw) {
		return nil
	}
	if err := parseJSON(what, raw, &c); err != nil {
		return err
	}
	if repeatsChoice(c.Pattern.Regex) {
		return fmt.Errorf("%s: the pattern %s repeats a choice or is written in a way that hides whether it does: it could take time without end", what, excerpt.Quoted(c.Pattern.Regex))
	}
	for _, part := range append(c.Normalizers, c.Pretokenizers...) {
		if err := checkPatterns(part, what); err != nil {
			return err
		}
	}
	return nil
}

// hidden are what a pattern could hide a repetition in: comments, space without meaning,
// calls of groups.
var hidden = regexp.MustCompile(`\(\?#|\(\?[a-wyz-]*x|\\g`)

// repeatsChoice reports whether a pattern, in Oniguruma's syntax, has a group that is
// repeated and has alternatives or repetitions in it, or could hide one.
func repeatsChoice(pattern string) bool {
	if hidden.MatchString(pattern) {
		return true
	}
	open := []bool{false} // whether there is a choice, of each group that is open
	choice := false       // whether what stands before is a group with one
	for at := 0; at < len(pattern); {
		rest := pattern[at:]
		n := repetition(rest)
		if n > 0 && choice && rest[0] != '?' {
			return true
		}
		last := len(open) - 1
		open[last] = open[last] || n > 0 || rest[0] == '|'
		choice = choice && n > 0 // (a+)?{9}
		switch {
		case n > 0:
			at += n
		case rest[0] == '\\':
			at += min(2, len(rest))
		case rest[0] == '[':
			at += class(rest)
		case strings.HasPrefix(rest, "(?"): // no repetition
			open = append(open, false)
			at += 2
		case rest[0] == '(':
			open = append(open, false)
			at++
		case rest[0] == ')' && last > 0:
			choice, open = open[last], open[:last]
			open[last-1] = open[last-1] || choice
			at++
		default:
			at++
		}
	}
	return false
}

// repetition is the length of the sign of repetition that s begins with, 0 for none.
func repetition(s string) int {
	switch s[0] {
	case '?':
		if strings.HasPrefix(s, "?+") { // possessive
			return 2
		}
		return 1
	case '*', '+':
		return 1
	case '{':
		if end := strings.IndexByte(s, '}'); end > 1 && strings.Trim(s[1:end], "0123456789,") == "" {
			return end + 1
		}
	}
	return 0
}

// class is the length of the class of characters that s begins with, or what is left.
func class(s string) int {
	depth := 0
	for at := 0; at < len(s); at++ {
		switch s[at] {
		case '\\':
			at++
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return len(s)
}
