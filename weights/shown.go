package weights

import (
	"fmt"
	"strconv"
	"strings"

	"blitzen/internal/excerpt"
)

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
	return excerpt.Of(s)
}

// quoted is a text between quotation marks, not too long.
func quoted(s string) string { return excerpt.Of(strconv.Quote(s)) }
