package main

import (
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Objects within rows have plain columns of their own, as many as the row with
// most of them needs. What JSON leaves out is empty.
func TestCSVObjects(t *testing.T) {
	type spot struct {
		X int `json:"x"`
	}
	type row struct {
		machine
		Name  string       `json:"name"`
		At    spot         `json:"at"`
		US    []float64    `json:"us"`
		Than  []fasterThan `json:"than,omitempty"`
		After int          `json:"after"`
	}
	rows := []row{
		{Name: "none", At: spot{7}},
		{Name: "[two]", US: []float64{1.5, 2}, Than: []fasterThan{{"dense", 0.5, 0.25, 0.75}, {"a, b", 3, 0, 0}}, After: 4},
		{Name: "one", Than: []fasterThan{{Method: "dense", Times: 2}}, After: 5},
	}
	var out strings.Builder
	if err := (table[row]{rows: rows}).csv(&out); err != nil {
		t.Fatal(err)
	}
	const want = `model,device,dtype,copy_gb_per_s,version,commit,name,at_x,us,than_1_method,than_1_times,than_1_low,than_1_high,than_2_method,than_2_times,than_2_low,than_2_high,after
,,,,,,none,7,,,,,,,,,,0
,,,,,,[two],0,1.5 2,dense,0.5,0.25,0.75,"a, b",3,,,4
,,,,,,one,0,,dense,2,,,,,,,5
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// What attention by itself is faster than stands in CSV as in JSON.
func TestBenchOperatorCSV(t *testing.T) {
	out := answer(t, "", "bench", tiny+"qwen2_tied_gqa", "--attention-op", "--heads", "14/2", "--dim", "16", "--rows", "60", "--drawn", "2", "--parents", "contiguous", "-o", "csv").out
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(lines) != 3 {
		t.Fatalf("%v in\n%s", err, out)
	}
	cell := func(row int, name string) string {
		i := slices.Index(lines[0], name)
		if i < 0 {
			t.Fatalf("no column %s in %v", name, lines[0])
		}
		return lines[row][i]
	}
	number := func(row int, name string) float64 {
		v, err := strconv.ParseFloat(cell(row, name), 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	sampled, dense, times := number(1, "us"), number(2, "us"), number(1, "faster_than_1_times")
	if method := cell(1, "faster_than_1_method"); method != "dense" || times != dense/sampled {
		t.Errorf("%s %v times, of %v and %v µs", method, times, dense, sampled)
	}
	if got := cell(2, "faster_than_1_method") + cell(2, "faster_than_1_times"); got != "" {
		t.Errorf("the row of dense has %q", got)
	}
	if strings.ContainsAny(out, "{}[]") {
		t.Errorf("braces or brackets in\n%s", out)
	}
}
