package teams

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"blitzen/device"
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
		{Config{1<<30 + 1, 1}, 8, "--parent-size 1073741825: must be at most 1073741824"},
		{Config{16, -1}, 8, "--representatives -1: must be at least 1"},
		{Config{16, 4}, 0, "--budget 0: must be at least 1"},
		{Config{16, 3}, 9, "--representatives 3 must divide --parent-size 16"},
		{Config{4, 8}, 8, "--representatives 8 must divide --parent-size 4: give a number that divides it, or another --parent-size"},
		{Config{4, 8}, 0, "--representatives 8 must divide --parent-size 4"}, // whatever the budget
		{Config{16, 4}, 2, "--budget 2 must be a multiple of 4"},
	} {
		if err := c.Validate(c.budget); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, budget %d: %v, want %q", c.Config, c.budget, err, c.want)
		}
	}
}

// grouped is the teams of one head as the tests look at them.
type grouped struct {
	team, reps, n []int32 // of each row; of each team
	logN          []float32
}

// read fetches the teams of a head of n rows and checks that they partition the
// rows: places are a permutation, in the order of teams and rows, every team owns
// its representative, and nothing is beyond the last.
func checkTeams(t testing.TB, dev device.Device, g *Teams, head, n int) grouped {
	t.Helper()
	all := func(x *device.Tensor) []int32 {
		v, err := device.Read[int32](dev, x.Index(0, head))
		check(t, err)
		return v
	}
	reps, offsets, slots := all(g.Reps), all(g.Offsets), all(g.Slots)
	logN, err := device.Read[float32](dev, g.LogN.Index(0, head))
	check(t, err)
	count := g.Count[head]
	at := make([]int32, n) // row at each place
	for i := range at {
		at[i] = -1
	}
	for row, place := range slots {
		if place < 0 || int(place) >= n || at[place] >= 0 {
			t.Fatalf("row %d has place %d of %d, or it is taken", row, place, n)
		}
		at[place] = int32(row)
	}
	o := grouped{team: make([]int32, n), reps: reps[:count], logN: logN[:count]}
	for team := range reps {
		from, to := offsets[team], offsets[team+1]
		if team >= count {
			if from != int32(n) || to != int32(n) || !math.IsInf(float64(logN[team]), -1) || reps[team] != 0 {
				t.Fatalf("beyond the last of %d teams: places %d to %d, ln n %v, representative %d", count, from, to, logN[team], reps[team])
			}
			continue
		}
		rows := at[from:to]
		if !slices.IsSorted(rows) || !slices.Contains(rows, reps[team]) {
			t.Fatalf("team %d of row %d has rows %v", team, reps[team], rows)
		}
		// Rounded to within one unit in the last place.
		if want := math.Log(float64(to - from)); math.Abs(float64(logN[team])-want) > 0x1p-23*want {
			t.Fatalf("ln %d is %v", to-from, logN[team])
		}
		for _, row := range rows {
			o.team[row] = int32(team)
		}
		o.n = append(o.n, to-from)
	}
	if offsets[0] != 0 || offsets[count] != int32(n) {
		t.Fatalf("%d teams have places %d to %d of %d", count, offsets[0], offsets[count], n)
	}
	return o
}
