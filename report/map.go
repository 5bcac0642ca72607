package report

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Map is where exact attention looks in a prompt and what a method reads of it.
type Map struct {
	Method string
	Tokens []string
	Mass   [][]float64 // [layers][tokens]: share of exact attention, over steps and heads
	Reads  [][]float64 // [layers][tokens]: share of steps and key heads; nil where the method cannot say
	Errors []float64   // [layers] of the attention output, relative; nil without
}

// mapData is the map for the script: bytes of layers × tokens numbers, in
// base64. A mass m is stored as 0 below the floor, else as 1 + 254·ln(m/floor) /
// ln(top/floor); a share of reads as 255 times itself.
type mapData struct {
	Method string   `json:"method"`
	Layers int      `json:"layers"`
	Tokens []string `json:"tokens"`
	Mass   string   `json:"mass"`
	Floor  float64  `json:"floor"`
	Top    float64  `json:"top"`
	Reads  string   `json:"reads,omitempty"`
}

// massRange is how far below the largest mass the scale goes: what is less is
// drawn as nothing.
const massRange = 1e-4

func (m *Map) data() *mapData {
	d := &mapData{Method: m.Method, Layers: len(m.Mass), Tokens: m.Tokens}
	for _, layer := range m.Mass {
		d.Top = max(d.Top, slices.Max(append([]float64{0}, layer...)))
	}
	d.Floor = d.Top * massRange
	d.Mass = encoded(m.Mass, func(v float64) float64 {
		if v <= d.Floor || d.Top == 0 {
			return 0
		}
		return 1 + 254*math.Log(v/d.Floor)/math.Log(1/massRange)
	})
	if m.Reads != nil {
		d.Reads = encoded(m.Reads, func(v float64) float64 { return 255 * v })
	}
	return d
}

// encoded stores numbers as bytes, [layers · tokens].
func encoded(rows [][]float64, level func(float64) float64) string {
	var bytes []byte
	for _, row := range rows {
		for _, v := range row {
			bytes = append(bytes, byte(math.Round(min(max(level(v), 0), 255))))
		}
	}
	return base64.StdEncoding.EncodeToString(bytes)
}

// mapTables say in words what the map shows.
type mapTables struct{ Layers, Tokens Table }

// mostRows is how many tokens the table has.
const mostRows = 40

func (m *Map) tables() mapTables {
	t := mapTables{Layers: Table{Head: []string{"layer", "on the prompt %"}}, Tokens: Table{Head: []string{"place", "token", "attention %"}}}
	if m.Reads != nil {
		t.Layers.Head = append(t.Layers.Head, "rows read %", "attention on rows read %")
		t.Tokens.Head = append(t.Tokens.Head, "read %")
	}
	if m.Errors != nil {
		t.Layers.Head = append(t.Layers.Head, "output error %")
	}
	total := make([]float64, len(m.Tokens))
	for i, layer := range m.Mass {
		t.Layers.Rows = append(t.Layers.Rows, m.layerRow(i))
		for token, v := range layer {
			total[token] += v / float64(len(m.Mass))
		}
	}
	order := make([]int, len(total))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case total[a] > total[b]:
			return -1
		case total[a] < total[b]:
			return 1
		}
		return 0
	})
	for _, token := range order[:min(mostRows, len(order))] {
		row := []string{fmt.Sprint(token), strconv.Quote(m.Tokens[token]), fmt.Sprintf("%.3f", 100*total[token])}
		if m.Reads != nil {
			share := 0.0
			for _, layer := range m.Reads {
				share += layer[token] / float64(len(m.Reads))
			}
			row = append(row, fmt.Sprintf("%.1f", 100*share))
		}
		t.Tokens.Rows = append(t.Tokens.Rows, row)
	}
	return t
}

// layerRow sums up a layer: what exact attention has on the prompt, how many
// rows are read, and how much of that attention falls on them, by the shares of
// steps and heads.
func (m *Map) layerRow(i int) []string {
	mass, read, both := 0.0, 0.0, 0.0
	for token, v := range m.Mass[i] {
		mass += v
		if m.Reads != nil {
			read += m.Reads[i][token] / float64(len(m.Mass[i]))
			both += v * m.Reads[i][token]
		}
	}
	row := []string{fmt.Sprint(i), fmt.Sprintf("%.1f", 100*mass)}
	if m.Reads != nil {
		row = append(row, fmt.Sprintf("%.1f", 100*read), fmt.Sprintf("%.1f", 100*both/mass))
	}
	if m.Errors != nil {
		row = append(row, fmt.Sprintf("%.2f", 100*m.Errors[i]))
	}
	return row
}
