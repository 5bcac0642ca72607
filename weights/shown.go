package weights

import (
	"fmt"
	"strconv"
	"strings"
)

// mostShown is how much an error repeats of what a file says, in bytes.
const mostShown = 200

// shown is a value out of a file as errors repeat it: not too long, and quoted
// where it holds what a terminal would act on.
func shown(value any) string {
	s := fmt.Sprint(value)
	if value == nil {
		s = "null" // as JSON has it
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return quoted(s)
	}
	return cut(s)
}

// quoted is a text between quotation marks, not too long.
func quoted(s string) string { return cut(strconv.Quote(s)) }

// cut ends a text that is too long by "…".
func cut(s string) string {
	if len(s) <= mostShown {
		return s
	}
	return strings.ToValidUTF8(s[:mostShown], "") + "…"
}
