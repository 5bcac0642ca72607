package teams

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawInput makes keys on a small grid, so that equal keys and equal distances
// are common, with any parents.
func drawInput(t *rapid.T) (keys []float32, d int, parent []int32, r int) {
	n := rapid.IntRange(0, 60).Draw(t, "n")
	d = rapid.IntRange(1, 5).Draw(t, "d")
	size := rapid.IntRange(1, 20).Draw(t, "size")
	r = rapid.IntRange(1, size).Draw(t, "r")
	keys = make([]float32, n*d)
	grid := rapid.IntRange(0, 3).Draw(t, "grid")
	for i := range keys {
		keys[i] = float32(rapid.IntRange(-grid, grid).Draw(t, "key"))
	}
	parent = spans(n, size)
	if rapid.Bool().Draw(t, "scattered") {
		for row := range parent {
			parent[row] = int32(rapid.IntRange(0, n-1).Draw(t, "parent"))
		}
	}
	return keys, d, parent, r
}

func TestDivideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys, d, parent, r := drawInput(t)
		p, err := Divide(keys, d, parent, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(len(parent)); err != nil {
			t.Fatal(err)
		}
		key := func(row int32) []float32 { return keys[int(row)*d : (int(row)+1)*d] }
		teams := map[int32][]int32{} // of each parent
		for g, rep := range p.Reps {
			if g > 0 && parent[rep] < parent[p.Reps[g-1]] {
				t.Fatalf("team %d of parent %d comes after one of parent %d", g, parent[rep], parent[p.Reps[g-1]])
			}
			teams[parent[rep]] = append(teams[parent[rep]], int32(g))
		}
		members := map[int32]int{}
		for row, own := range p.Team {
			members[parent[row]]++
			if parent[p.Reps[own]] != parent[row] {
				t.Fatalf("row %d of parent %d is in a team of parent %d", row, parent[row], parent[p.Reps[own]])
			}
			far := squared(key(int32(row)), key(p.Reps[own]))
			for _, g := range teams[parent[row]] {
				other := squared(key(int32(row)), key(p.Reps[g]))
				if p.Reps[own] != int32(row) && (other < far || other == far && g < own) {
					t.Fatalf("row %d is in team %d at %v, team %d is at %v", row, own, far, g, other)
				}
			}
		}
		for parent, n := range members {
			if len(teams[parent]) != min(r, n) {
				t.Fatalf("parent %d of %d rows has %d teams, r = %d", parent, n, len(teams[parent]), r)
			}
		}
	})
}

// TestDivideByDefinition selects again, from the definition, with distances
// that are exact: keys are small integers, so only the mean is rounded.
func TestDivideByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys, d, parent, r := drawInput(t)
		p, err := Divide(keys, d, parent, r)
		if err != nil {
			t.Fatal(err)
		}
		var want []int32
		for g := range int32(len(parent)) {
			var members []int32
			for row, have := range parent {
				if have == g {
					members = append(members, int32(row))
				}
			}
			want = append(want, selectByDefinition(keys, d, members, r)...)
		}
		if !slices.Equal(p.Reps, want) {
			t.Fatalf("representatives %v, want %v", p.Reps, want)
		}
	})
}

func selectByDefinition(keys []float32, d int, members []int32, r int) []int32 {
	n := len(members)
	mean := make([]float64, d)
	for _, row := range members {
		for j := range mean {
			mean[j] += float64(keys[int(row)*d+j])
		}
	}
	var chosen []int32
	for len(chosen) < min(r, n) {
		best, score := int32(-1), math.Inf(-1)
		for _, row := range members {
			if slices.Contains(chosen, row) {
				continue
			}
			key := keys[int(row)*d : (int(row)+1)*d]
			s := math.Inf(1)
			for _, c := range chosen {
				s = min(s, squared(key, keys[int(c)*d:(int(c)+1)*d]))
			}
			if len(chosen) == 0 {
				s = 0
				for j, x := range key {
					diff := float64(x) - mean[j]/float64(n)
					s -= float64(diff * diff)
				}
			}
			if s > score {
				best, score = row, s
			}
		}
		chosen = append(chosen, best)
	}
	return chosen
}

func TestDivideEveryRowATeam(t *testing.T) {
	keys := []float32{3, 1, 4, 1, 5, 9, 2, 6, 5}
	for _, c := range []struct{ size, r int }{{1, 1}, {4, 4}, {9, 9}, {16, 16}} {
		p, err := Divide(keys, 1, spans(len(keys), c.size), c.r)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(len(keys)); err != nil {
			t.Fatal(err)
		}
		if len(p.Reps) != len(keys) {
			t.Errorf("P = %d, R = %d: %d teams of %d rows", c.size, c.r, len(p.Reps), len(keys))
		}
	}
}

func TestDivideRefuses(t *testing.T) {
	nan := float32(math.NaN())
	for name, err := range map[string]error{
		"no representatives": divideError([]float32{1, 2}, 1, []int32{0, 0}, 0),
		"keys too short":     divideError([]float32{1, 2, 3}, 2, []int32{0, 0}, 1),
		"width 0":            divideError(nil, 0, []int32{0}, 1),
		"parent below 0":     divideError([]float32{1, 2}, 1, []int32{0, -1}, 1),
		"parent beyond rows": divideError([]float32{1, 2}, 1, []int32{0, 2}, 1),
		"a key is NaN":       divideError([]float32{1, nan}, 1, []int32{0, 0}, 1),
		"a key is infinite":  divideError([]float32{1, float32(math.Inf(-1))}, 1, []int32{0, 0}, 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func divideError(keys []float32, d int, parent []int32, r int) error {
	_, err := Divide(keys, d, parent, r)
	return err
}

func TestDivideHugeKeys(t *testing.T) {
	big := float32(math.MaxFloat32)
	p, err := Divide([]float32{big, -big, big, -big / 2}, 1, []int32{0, 0, 0, 0}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{1, 0, 1, 0}; !slices.Equal(p.Team, want) {
		t.Errorf("teams %v, want %v", p.Team, want)
	}
}
