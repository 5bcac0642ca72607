package report

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// The script gets every token as it is, and numbers as near as a byte holds
// them: half a step of a share is 1/510; half a step of the mass's 254 over four
// decades is a factor of exp(ln(1e4)/508).
func TestData(t *testing.T) {
	p := full()
	root, _ := render(t, p)
	d := dataOf(t, root)
	if len(d.Tokens) != len(hostile) || !slices.Equal(d.Map.Tokens, hostile) || d.Map.Layers != 3 {
		t.Fatalf("%+v", d)
	}
	for i, token := range d.Tokens {
		if token.Text != hostile[i] || !strings.HasPrefix(token.Says, "KLD ") {
			t.Errorf("token %d: %+v", i, token)
		}
	}
	mass, err := base64.StdEncoding.DecodeString(d.Map.Mass)
	if err != nil {
		t.Fatal(err)
	}
	reads, err := base64.StdEncoding.DecodeString(d.Map.Reads)
	if err != nil {
		t.Fatal(err)
	}
	n := len(hostile)
	half := math.Exp(math.Log(1e4)/508) + 1e-9
	for layer := range p.Map.Mass {
		for token, want := range p.Map.Mass[layer] {
			b := mass[layer*n+token]
			got := d.Map.Floor * math.Pow(d.Map.Top/d.Map.Floor, (float64(b)-1)/254)
			if want <= d.Map.Floor != (b == 0) || b > 0 && (got/want > half || want/got > half) {
				t.Errorf("mass %v is stored as %d, %v", want, b, got)
			}
			if got, want := float64(reads[layer*n+token])/255, p.Map.Reads[layer][token]; math.Abs(got-want) > 1.0/510+1e-9 {
				t.Errorf("reads %v are stored as %v", want, got)
			}
		}
	}
}

// Two layers and three tokens, by hand.
func TestMapTables(t *testing.T) {
	m := &Map{Tokens: []string{"a", "b\n", "c"}, Mass: [][]float64{{0.1, 0.5, 0.2}, {0.3, 0.3, 0.2}}, Reads: [][]float64{{1, 0.5, 0}, {1, 1, 1}}, Errors: []float64{0.25, 0}}
	got := m.tables()
	layers := [][]string{{"0", "80.0", "50.0", "43.8", "25.00"}, {"1", "80.0", "100.0", "100.0", "0.00"}}
	tokens := [][]string{{"1", `"b\n"`, "40.000", "75.0", "12.500"}, {"0", `"a"`, "20.000", "100.0", "0.000"}, {"2", `"c"`, "20.000", "50.0", "10.000"}}
	if fmt.Sprint(got.Layers.Rows) != fmt.Sprint(layers) || fmt.Sprint(got.Tokens.Rows) != fmt.Sprint(tokens) {
		t.Errorf("%v\n%v", got.Layers.Rows, got.Tokens.Rows)
	}
	for _, table := range []Table{got.Layers, got.Tokens} {
		if len(table.Head) != len(table.Rows[0]) {
			t.Errorf("%d heads for %d cells", len(table.Head), len(table.Rows[0]))
		}
	}
}
