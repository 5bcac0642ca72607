// Package excerpt shows texts of files in errors: no more of them than people
// want to read, in one line.
package excerpt

import (
	"strconv"
	"strings"
)

// Most is how much of a text an error repeats, in bytes.
const Most = 200

// Of is the beginning of a text, with "…" where more follows.
func Of(text string) string {
	if len(text) <= Most {
		return text
	}
	return strings.ToValidUTF8(text[:Most], "") + "…"
}

// Quoted is the beginning of a text between quotation marks, with control
// characters escaped.
func Quoted(text string) string { return strconv.Quote(Of(text)) }
