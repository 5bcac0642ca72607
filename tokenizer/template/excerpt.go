package template

import (
	"strconv"
	"strings"
)

// maxExcerpt bounds how much of a text an error repeats, in bytes.
const maxExcerpt = 200

// excerpt is the beginning of a text.
func excerpt(text string) string {
	if len(text) <= maxExcerpt {
		return text
	}
	return strings.ToValidUTF8(text[:maxExcerpt], "") + "…"
}

// quoted is the beginning of a text as an error may show it: control characters are escaped.
func quoted(text string) string { return strconv.Quote(excerpt(text)) }
