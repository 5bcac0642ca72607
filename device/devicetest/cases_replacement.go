package devicetest

import (
	"fmt"
	"math"
	"sort"

	"blitzen/device"
)

func replacementCases() []testCase {
	var cs []testCase
	for _, s := range []drawShape{
		{1, 1, 1, 1, 1}, {1, 7, 2, 5, 1}, {3, 2, 17, 40, 1}, {1, 28, 111, 7, 1}, {1, 7, 2047, 64, 2}, {1, 2, 8191, 1030, 3}, {7, 3, 300, 31, 30},
	} {
		for _, systematic := range []bool{false, true} {
			cs = append(cs, testCase{
				fmt.Sprintf("SampleWithReplacement/%d tokens, %d heads, %d of %d teams, scores %g, systematic %v", s.tokens, s.heads, s.k, s.teams, s.spread, systematic),
				func(b *bench) { replacement(b, s, systematic) },
			})
		}
	}
	cs = append(cs, testCase{"SampleWithReplacement/no team for some heads", replacementEmpty})
	for _, s := range []massShape{{1, 1, 1, 1, 1}, {1, 2, 7, 65, 1}, {3, 1, 16, 111, 1}, {1, 4, 7, 300, 1}, {2, 2, 3, 17, 1e4}} {
		cs = append(cs, testCase{fmt.Sprintf("GroupMass/%d tokens, %d of %d heads, %d groups, scores %g", s.tokens, s.kv*s.group, s.kv, s.groups, s.spread),
			func(b *bench) { groupMass(b, s) }})
	}
	return cs
}

// replacement leaves out every ninth team, and of the draws those whose random
// number is nearer to a border of the running sums than the rounding of their
// terms may move it: each is an exp of a float32 difference.
func replacement(b *bench, s drawShape, systematic bool) {
	phi := rounded(device.F32, b.normal(s.tokens*s.heads*s.teams, s.spread))
	for i := range phi {
		if i%9 == 4 {
			phi[i] = math.Inf(-1)
		}
	}
	seed, pos := [2]uint32{b.rng.Uint32(), b.rng.Uint32()}, b.integers(s.tokens, 1<<17)
	const layer = 27
	var skip []bool
	magnitude := math.Log(float64(s.k))
	for i := range s.tokens * s.heads {
		t, h := i/s.heads, i%s.heads
		scores := phi[i*s.teams:][:s.teams]
		sums := runningSums(scores)
		magnitude = max(magnitude, math.Abs(logSumExp(scores))+maxAbs(scores))
		for j := range s.k {
			u := device.Uniform(teamWord(seed, j, h, layer, pos[t]))
			if systematic {
				u = (float64(j) + device.Uniform(teamWord(seed, 0, h, layer, pos[t]))) / float64(s.k)
			}
			skip = append(skip, nearBorder(u, sums))
		}
	}
	b.decided(skip, 0.1)
	a := device.ReplacementArgs{
		Teams: b.blank("teams", device.I32, s.tokens, s.heads, s.k), LogC: b.blank("logC", device.F32, s.tokens, s.heads, s.k),
		Phi: b.tensor("phi", device.F32, phi, s.tokens, s.heads, s.teams), Systematic: systematic,
		Draw: device.Draw{Seed: b.tensor("seed", device.U32, []float64{float64(seed[0]), float64(seed[1])}, 2),
			Layer: layer, Pos: b.ints("pos", pos, s.tokens)},
	}
	b.wantBut("teams", a.Teams, tolerance{}, skip)
	b.wantBut("ln c", a.LogC, stored(device.F32, magnitude), skip)
	b.run(func(o *device.Ops) { o.SampleWithReplacement(a) })
}

// nearBorder reports whether a running sum of probabilities comes within its
// error of u.
func nearBorder(u float64, sums []float64) bool {
	near := func(sum float64) bool { return math.Abs(sum-u) <= f32Error(2) && sum < 1-1e-9 }
	g := sort.SearchFloat64s(sums, u)
	return g > 0 && near(sums[g-1]) || g < len(sums) && near(sums[g])
}

// replacementEmpty has one head without a team and one with a single team, the
// last.
func replacementEmpty(b *bench) {
	const heads, teams, s = 3, 70, 9
	phi := b.normal(heads*teams, 1)
	for g := range teams {
		phi[g] = math.Inf(-1)
		if g < teams-1 {
			phi[teams+g] = math.Inf(-1)
		} else {
			phi[teams+g] = -1e4
		}
		if g > 5 {
			phi[2*teams+g] = math.Inf(-1)
		}
	}
	a := device.ReplacementArgs{
		Teams: b.blank("teams", device.I32, 1, heads, s), LogC: b.blank("logC", device.F32, 1, heads, s),
		Phi:  b.tensor("phi", device.F32, phi, 1, heads, teams),
		Draw: device.Draw{Seed: b.tensor("seed", device.U32, []float64{1, 2}, 2), Layer: 3, Pos: b.ints("pos", []int{4}, 1)},
	}
	b.want("teams", a.Teams, tolerance{})
	b.want("ln c", a.LogC, stored(device.F32, 2e4))
	b.run(func(o *device.Ops) { o.SampleWithReplacement(a) })
}

type massShape struct {
	tokens, kv, group, groups int
	spread                    float64
}

// groupMass has groups of all sizes, 0 included; scores of rows outside them are
// NaN. −Inf scores occur, too, alone and among others.
func groupMass(b *bench, s massShape) {
	heads := s.kv * s.group
	offsets, rows := b.teamOffsets(s.kv, s.groups)
	scores := rounded(device.F32, b.normal(s.tokens*heads*rows, s.spread))
	for i := range scores {
		kv, r := i/rows%heads/s.group, i%rows
		at := offsets[kv*(s.groups+1):][:s.groups+1]
		switch {
		case r < at[0] || r >= at[s.groups]:
			scores[i] = math.NaN()
		case i%5 == 3:
			scores[i] = math.Inf(-1)
		}
	}
	phi := b.blank("phi", device.F32, s.tokens, heads, s.groups)
	b.want("phi", phi, stored(device.F32, 5+2*maxAbs(scores)))
	x, o := b.tensor("scores", device.F32, scores, s.tokens, heads, rows), b.ints("offsets", offsets, s.kv, s.groups+1)
	b.run(func(ops *device.Ops) { ops.GroupMass(phi, x, o) })
}
