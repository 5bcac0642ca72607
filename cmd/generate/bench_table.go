package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"blitzen/report"
)

// benchFormats are the values of bench's --output.
var benchFormats = []string{"md", "json", "jsonl", "csv"}

// machine is what every result says of where it comes from.
type machine struct {
	Model   string  `json:"model"`
	Device  string  `json:"device"`
	DType   string  `json:"dtype"`
	CopyGBs float64 `json:"copy_gb_per_s,omitempty"` // measured; 0 where the device has no clock of its own
	Version string  `json:"version"`
	Commit  string  `json:"commit,omitempty"`
}

// copyTime is how many microseconds large copies take to move so many bytes.
func (m machine) copyTime(bytes float64) (us float64, known bool) {
	if m.CopyGBs == 0 {
		return 0, false
	}
	return bytes / 1e3 / m.CopyGBs, true
}

// copyShare is what part of the device's copy rate it is to move so many bytes in so
// many microseconds, in percent; 0 where it is not known.
func (m machine) copyShare(bytes, us float64) float64 {
	least, known := m.copyTime(bytes)
	if !known || us == 0 {
		return 0
	}
	return 100 * least / us
}

// copyNote explains the share of what is moved; "" where it is not known.
func (m machine) copyNote(moved string) string {
	if _, known := m.copyTime(0); !known {
		return ""
	}
	return fmt.Sprintf("%% of copies: %s over the time, in percent of the %.0f GB/s that large copies on this device read and write.", moved, m.CopyGBs)
}

// commit is the revision that the program was built from, if that is known.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return revision + changed
}

// column is one of a table that people read.
type column[R any] struct {
	title string
	text  func(R) string
}

// table is results of one kind. JSON and CSV have the fields of a row, Markdown
// the columns.
type table[R any] struct {
	title   string
	columns []column[R]
	rows    []R
	notes   []string // below the table in Markdown
}

// section is a table of any kind.
type section interface {
	markdown(w io.Writer) error
	csv(w io.Writer) error
	objects() []any
}

// printSections writes results in one of benchFormats.
func printSections(w io.Writer, format string, sections ...section) error {
	var all []any
	for i, s := range sections {
		if i > 0 && (format == "md" || format == "csv") {
			fmt.Fprintln(w)
		}
		var err error
		switch format {
		case "md":
			err = s.markdown(w)
		case "csv":
			err = s.csv(w)
		default:
			all = append(all, s.objects()...)
		}
		if err != nil {
			return err
		}
	}
	if format == "json" {
		return printJSON(w, all)
	}
	for _, object := range all {
		if err := printJSON(w, object); err != nil {
			return err
		}
	}
	return nil
}

func (t table[R]) markdown(w io.Writer) error {
	if t.title != "" {
		fmt.Fprintf(w, "%s\n\n", t.title)
	}
	cells := report.Table{Rows: make([][]string, len(t.rows))}
	for _, c := range t.columns {
		cells.Head = append(cells.Head, c.title)
		for i, r := range t.rows {
			cells.Rows[i] = append(cells.Rows[i], c.text(r))
		}
	}
	if err := printMarkdown(w, cells); err != nil {
		return err
	}
	for _, note := range t.notes {
		if _, err := fmt.Fprintf(w, "\n%s\n", note); err != nil {
			return err
		}
	}
	return nil
}

func (t table[R]) objects() []any {
	out := make([]any, len(t.rows))
	for i, r := range t.rows {
		out[i] = r
	}
	return out
}

// known is a number in a table, "-" for 0: what is not known or does not apply.
func known(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
