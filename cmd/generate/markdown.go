package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"blitzen/report"
)

// printMarkdown writes a table whose columns are in line in plain text, too.
func printMarkdown(w io.Writer, t report.Table) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, row := range append([][]string{t.Head}, t.Rows...) {
		for _, cell := range row {
			fmt.Fprintf(out, "| %s\t", cell)
		}
		fmt.Fprintln(out, "|")
		if i == 0 {
			fmt.Fprintln(out, strings.Repeat("|---\t", len(t.Head))+"|")
		}
	}
	return out.Flush()
}

// count is a number of things, by the name of one.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// fixed is a number with the decimals of format, without the minus of -0.000.
func fixed(format string, v float64) string {
	text := fmt.Sprintf(format, v)
	if strings.Trim(text, "-0.") == "" {
		return fmt.Sprintf(format, 0.0)
	}
	return text
}
