package teams

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/host"
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
			dev := openHost(t)
			parent, rows := f.Int32s("parent"), f.Rows("keys")
			x := device.RowSets{upload(t, dev, flat(rows[:len(parent)]), 1, len(parent), len(rows[0]))}
			labels, err := dev.New("parent", device.I32, 1, len(parent))
			check(t, err)
			check(t, device.Write(dev, labels, parent))
			g := &Teams{owned: device.Owner{Dev: dev}}
			check(t, g.divide(x, labels, int(slices.Max(parent))+1, c.R))
			if compareGolden(t, dev, g, 0, f, ""); g.Count[0] != c.M {
				t.Errorf("%d teams, want %d", g.Count[0], c.M)
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
			dev := openHost(t)
			var x device.RowSets
			for h := range c.KVHeads {
				rows := f.Rows("K", h)
				x = append(x, upload(t, dev, flat(rows[:c.N]), 1, c.N, len(rows[0])))
			}
			g, err := Group(context.Background(), dev, x, nil, Contiguous, Config{c.P, c.R}, nil)
			check(t, err)
			for h := range c.KVHeads {
				prefix := fmt.Sprintf("kv%d.", h)
				got := compareGolden(t, dev, g, h, f, prefix)
				want := f.Floats(prefix + "log_n")
				// One rounding to float32.
				golden.Near(t, prefix+"log_n", golden.Float64s(got.logN), want, slices.Max(want)*math.Pow(2, -24))
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
			dev := openHost(t)
			rows := f.Rows("latent")
			x := device.RowSets{upload(t, dev, flat(rows[:c.N]), 1, c.N, len(rows[0]))}
			g, err := Group(context.Background(), dev, x, nil, Contiguous, Config{c.P, c.R}, nil)
			check(t, err)
			compareGolden(t, dev, g, 0, f, "")
		})
	}
}

// compareGolden compares a head with the arrays named prefix team, reps and n.
func compareGolden(t *testing.T, dev device.Device, g *Teams, head int, f *golden.File, prefix string) grouped {
	t.Helper()
	want := f.Int32s(prefix + "team")
	got := checkTeams(t, dev, g, head, len(want))
	for what, pair := range map[string][2][]int32{
		"team": {got.team, want},
		"reps": {got.reps, f.Int32s(prefix + "reps")},
		"n":    {got.n, f.Int32s(prefix + "n")},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s%s: %v, want %v", prefix, what, pair[0], pair[1])
		}
	}
	return got
}

func flat(rows [][]float64) (all []float32) {
	for _, row := range rows {
		all = append(all, golden.Float32s(row)...)
	}
	return all
}

func openHost(t testing.TB) device.Device {
	t.Helper()
	dev, err := host.New(host.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, dev.Close()) })
	return dev
}
