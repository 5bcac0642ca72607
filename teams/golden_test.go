package teams

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"blitzen/internal/golden"
)

const santa = "../testdata/santa/"

type santaCases struct {
	Estimator       []santaCase `json:"estimator"`
	Unbiased        santaCase   `json:"unbiased"`
	MLA             []santaCase `json:"mla"`
	Representatives []santaCase `json:"representatives"`
}

type santaCase struct {
	Name    string `json:"case"`
	N       int    `json:"N"`
	P       int    `json:"P"`
	R       int    `json:"R"`
	M       int    `json:"M"`
	KVHeads int    `json:"kv_heads"`
	Parents string `json:"parents"`
}

func readCases(t *testing.T) santaCases {
	var c santaCases
	golden.JSON(t, santa+"cases.json", &c)
	return c
}

// TestRepresentativesGolden has parents given with the case.
func TestRepresentativesGolden(t *testing.T) {
	cases := readCases(t).Representatives
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			f := golden.Open(t, santa+c.Name+".safetensors")
			p := checkPartition(t, f, "", "keys", f.Int32s("parent"), c.R)
			if len(p.Reps) != c.M {
				t.Errorf("%d teams, want %d", len(p.Reps), c.M)
			}
		})
	}
}

// TestContiguousGolden makes the parents of the estimator's cases itself, and
// compares every key head.
func TestContiguousGolden(t *testing.T) {
	done := 0
	for _, c := range readCases(t).Estimator {
		if c.Parents != Contiguous.String() {
			continue
		}
		done++
		t.Run(c.Name, func(t *testing.T) {
			f := golden.Open(t, santa+c.Name+".safetensors")
			for h := range c.KVHeads {
				prefix := fmt.Sprintf("kv%d.", h)
				p := checkPartition(t, f, prefix, "K", spans(c.N, c.P), c.R, h)
				logN := make([]float64, len(p.N))
				for g, n := range p.Layout().LogN {
					logN[g] = float64(n)
				}
				want := f.Floats(prefix + "log_n")
				// One rounding to float32.
				golden.Near(t, prefix+"log_n", logN, want, slices.Max(want)*math.Pow(2, -24))
			}
		})
	}
	if done == 0 {
		t.Fatal("no cases")
	}
}

// TestLatentGolden clusters latents without their rotary part.
func TestLatentGolden(t *testing.T) {
	cases := readCases(t).MLA
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			f := golden.Open(t, santa+c.Name+".safetensors")
			checkPartition(t, f, "", "latent", spans(c.N, c.P), c.R)
		})
	}
}

// checkPartition divides the first rows of a tensor, those that have a parent,
// and compares with the arrays named prefix team, reps and n.
func checkPartition(t *testing.T, f *golden.File, prefix, name string, parent []int32, r int, index ...int) Partition {
	t.Helper()
	rows := f.Rows(name, index...)[:len(parent)]
	var keys []float32
	for _, row := range rows {
		keys = append(keys, golden.Float32s(row)...)
	}
	p, err := Divide(keys, len(rows[0]), parent, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(len(parent)); err != nil {
		t.Error(err)
	}
	for what, pair := range map[string][2][]int32{
		"team": {p.Team, f.Int32s(prefix + "team")},
		"reps": {p.Reps, f.Int32s(prefix + "reps")},
		"n":    {p.N, f.Int32s(prefix + "n")},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s%s: %v, want %v", prefix, what, pair[0], pair[1])
		}
	}
	return p
}
