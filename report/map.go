package report

import (
	"cmp"
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
		t.Tokens.Head = append(t.Tokens.Head, "read %", "attention not read %")
	}
	if m.Errors != nil {
		t.Layers.Head = append(t.Layers.Head, "output error %")
	}
	for i := range m.Mass {
		t.Layers.Rows = append(t.Layers.Rows, m.layerRow(i))
	}
	for _, token := range m.most() {
		t.Tokens.Rows = append(t.Tokens.Rows, m.tokenRow(token))
	}
	return t
}

// overLayers is the mean over layers of what of says about each.
func (m *Map) overLayers(of func(layer int) float64) float64 {
	sum := 0.0
	for i := range m.Mass {
		sum += of(i)
	}
	return sum / float64(len(m.Mass))
}

// most are the tokens that have most of exact attention, the first first.
func (m *Map) most() []int {
	mass := make([]float64, len(m.Tokens))
	order := make([]int, len(m.Tokens))
	for token := range mass {
		mass[token], order[token] = m.overLayers(func(i int) float64 { return m.Mass[i][token] }), token
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(mass[b], mass[a]) })
	return order[:min(mostRows, len(order))]
}

func (m *Map) tokenRow(token int) []string {
	mass := m.overLayers(func(i int) float64 { return m.Mass[i][token] })
	row := []string{fmt.Sprint(token), strconv.Quote(m.Tokens[token]), fmt.Sprintf("%.3f", 100*mass)}
	if m.Reads != nil {
		read := m.overLayers(func(i int) float64 { return m.Reads[i][token] })
		missed := m.overLayers(func(i int) float64 { return m.Mass[i][token] * (1 - m.Reads[i][token]) })
		row = append(row, fmt.Sprintf("%.1f", 100*read), fmt.Sprintf("%.3f", 100*missed))
	}
	return row
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
