package teams

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBudgetGolden(t *testing.T) {
	type budget struct{ M, P, R, S, K int }
	var golden struct {
		Budget  []budget `json:"budget"`
		Refused []budget `json:"budget_refused"`
	}
	raw, err := os.ReadFile("../testdata/diagnostics/diagnostics.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Budget) == 0 || len(golden.Refused) == 0 {
		t.Fatal("no cases")
	}
	for _, b := range golden.Budget {
		c := Config{b.P, b.R}
		if err := c.Validate(b.S); err != nil {
			t.Errorf("%+v: %v", b, err)
		} else if k := c.Selected(b.S, b.M); k != b.K {
			t.Errorf("%+v: K = %d", b, k)
		}
	}
	for _, b := range golden.Refused {
		if err := (Config{b.P, b.R}).Validate(b.S); err == nil {
			t.Errorf("%+v was accepted", b)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		Config
		budget int
		want   string
	}{
		{Config{0, 1}, 8, "--parent-size 0: must be at least 1"},
		{Config{16, -1}, 8, "--representatives -1: must be at least 1"},
		{Config{16, 4}, 0, "--budget 0: must be at least 1"},
		{Config{16, 3}, 9, "--representatives 3 must divide --parent-size 16"},
		{Config{4, 8}, 8, "--representatives 8 must divide --parent-size 4"},
		{Config{16, 4}, 2, "--budget 2 must be a multiple of 4"},
	} {
		if err := c.Validate(c.budget); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, budget %d: %v, want %q", c.Config, c.budget, err, c.want)
		}
	}
}

func TestValidateFindsFaults(t *testing.T) {
	good := func() Partition {
		return Partition{Team: []int32{0, 1, 0, 1, 1}, Reps: []int32{2, 1}, N: []int32{2, 3}}
	}
	if err := good().Validate(5); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Partition){
		"row left out":             func(p *Partition) { p.Team = p.Team[:4] },
		"team below 0":             func(p *Partition) { p.Team[0] = -1 },
		"team beyond the last":     func(p *Partition) { p.Team[0] = 2 },
		"size of another":          func(p *Partition) { p.N[0]++ },
		"size missing":             func(p *Partition) { p.N = p.N[:1] },
		"representative elsewhere": func(p *Partition) { p.Reps[0] = 1 },
		"representative below 0":   func(p *Partition) { p.Reps[0] = -1 },
		"representative beyond":    func(p *Partition) { p.Reps[1] = 5 },
		"empty team":               func(p *Partition) { p.Reps = append(p.Reps, 4); p.N = append(p.N, 0) },
	} {
		p := good()
		spoil(&p)
		if p.Validate(5) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys, d, parent, r := drawInput(t)
		p, err := Divide(keys, d, parent, r)
		if err != nil {
			t.Fatal(err)
		}
		l := p.Layout()
		if len(l.Order) != len(parent) || int(l.Offsets[len(p.Reps)]) != len(parent) {
			t.Fatalf("%d places, last offset %d, of %d rows", len(l.Order), l.Offsets[len(p.Reps)], len(parent))
		}
		places := slices.Sorted(slices.Values(l.Order))
		for place, row := range places {
			if row != int32(place) {
				t.Fatalf("row %d is nowhere or twice", place)
			}
		}
		for g, n := range p.N {
			rows := l.Order[l.Offsets[g]:l.Offsets[g+1]]
			if len(rows) != int(n) || !slices.IsSorted(rows) {
				t.Fatalf("team %d of %d rows has %v", g, n, rows)
			}
			for _, row := range rows {
				if p.Team[row] != int32(g) {
					t.Fatalf("row %d of team %d lies in team %d", row, p.Team[row], g)
				}
			}
			if want := float32(math.Log(float64(n))); l.LogN[g] != want {
				t.Fatalf("ln %d is %v, want %v", n, l.LogN[g], want)
			}
		}
	})
}
