package devicetest

import (
	"fmt"
	"math"
	"slices"

	"blitzen/device"
)

func selectCases() []testCase {
	var cs []testCase
	add := func(run func(b *bench), format string, args ...any) {
		cs = append(cs, testCase{fmt.Sprintf(format, args...), run})
	}
	for _, s := range []routeShape{
		{tokens: 1, kv: 1, group: 1, d: 8, teams: 1, logits: 1}, {tokens: 1, kv: 2, group: 7, d: 64, teams: 111, logits: 1}, {tokens: 1, kv: 1, group: 16, d: 576, teams: 65, logits: 1}, {tokens: 3, kv: 2, group: 3, d: 128, teams: 300, logits: 1},
		{tokens: 2, kv: 3, group: 2, d: 17, teams: 63, logits: 1}, {tokens: 1, kv: 4, group: 7, d: 128, teams: 1985, logits: 1}, {tokens: 1, kv: 1, group: 7, d: 64, teams: 64, logits: 1e4},
		{tokens: 1, kv: 2, group: 7, d: 64, teams: 700, logits: 1, last: []int{513}}, {tokens: 4, kv: 1, group: 3, d: 128, teams: 300, logits: 1, last: []int{255, -1, 299, 64}}, {tokens: 1, kv: 1, group: 2, d: 17, teams: 65, logits: 1, last: []int{0}},
		{tokens: 1, kv: 2, group: 7, d: 128, teams: 333, logits: 1, f8: true},
		{tokens: 1, kv: 1, group: 16, d: 576, teams: 65, logits: 1, f8: true},
		{tokens: 3, kv: 3, group: 2, d: 17, teams: 300, logits: 1, last: []int{255, -1, 299}, f8: true},
	} {
		text := ""
		if s.f8 {
			text = ", F8"
		}
		add(func(b *bench) { route(b, s) }, "Route/%d tokens, %d of %d heads, %d wide, %d teams to %v, logits %g%s",
			s.tokens, s.kv*s.group, s.kv, s.d, s.teams, s.last, s.logits, text)
	}
	for _, s := range []drawShape{
		{1, 1, 1, 1, 1}, {1, 7, 2, 1, 1}, {3, 2, 17, 16, 1}, {1, 3, 17, 17, 1}, {2, 3, 17, 40, 1}, {1, 28, 111, 7, 1},
		{1, 7, 2047, 32, 1}, {1, 4, 8191, 64, 3}, {1, 2, 4099, 512, 1}, {1, 2, 2500, 1024, 1}, {7, 3, 300, 31, 1e4},
	} {
		add(func(b *bench) { sampleTeams(b, s) }, "SampleTopK/%d tokens, %d heads, %d of %d teams, scores %g",
			s.tokens, s.heads, s.k, s.teams, s.spread)
	}
	add(sampleTeamsTies, "SampleTopK/ties")
	for _, s := range []selectedShape{
		{tokens: 1, kv: 1, group: 1, dk: 8, dv: 8, teams: 1, k: 1},
		{tokens: 1, kv: 2, group: 7, dk: 64, dv: 64, teams: 65, k: 7},
		{tokens: 1, kv: 1, group: 16, dk: 576, dv: 512, teams: 33, k: 5, prefix: true},
		{tokens: 3, kv: 2, group: 3, dk: 128, dv: 128, teams: 111, k: 17},
		{tokens: 2, kv: 3, group: 1, dk: 160, dv: 128, teams: 17, k: 1},
		{tokens: 1, kv: 4, group: 7, dk: 128, dv: 128, teams: 300, k: 64},
		{tokens: 1, kv: 2, group: 2, dk: 64, dv: 17, teams: 63, k: 63},
		{tokens: 1, kv: 1, group: 7, dk: 64, dv: 64, teams: 40, k: 8, logits: 1e4},
	} {
		add(func(b *bench) { attendSelected(b, s) }, "AttendSelected/%d tokens, %d of %d heads, %d and %d wide, %d of %d teams, logits %g",
			s.tokens, s.kv*s.group, s.kv, s.dk, s.dv, s.k, s.teams, s.logits)
	}
	return cs
}

type routeShape struct {
	tokens, kv, group, d, teams int
	logits                      float64
	last                        []int // [tokens], nil for all teams
	f8                          bool  // representatives
}

// route leaves out every seventh team: its bias is −Inf, its representative
// NaN, as are those beyond the last team of every token.
func route(b *bench, s routeShape) {
	heads := s.kv * s.group
	q, reps := b.normal(s.tokens*heads*s.d, 1), b.normal(s.kv*s.teams*s.d, 1)
	bias := make([]float64, s.kv*s.teams)
	for i := range bias {
		bias[i] = math.Log(float64(1 + b.rng.IntN(200)))
		beyond := s.last != nil && i%s.teams > slices.Max(s.last)
		if i%7 == 6 {
			bias[i] = math.Inf(-1)
		}
		if i%7 == 6 || beyond {
			for j := range s.d {
				reps[i*s.d+j] = math.NaN()
			}
		}
	}
	scale := s.logits / math.Sqrt(float64(s.d))
	keys, reps := b.representatives(s.f8, reps, s.kv, s.teams, s.d)
	a := device.RouteArgs{
		Phi: b.blank("phi", device.F32, s.tokens, heads, s.teams), Q: b.tensor("q", b.act(), q, s.tokens, heads, s.d),
		Reps: keys, Bias: b.tensor("bias", device.F32, bias, s.kv, s.teams),
		Scale: float32(scale), Read: b.tensor("read", device.I64, []float64{7}, 1),
	}
	if s.last != nil {
		a.Last = b.ints("last", s.last, s.tokens)
	}
	b.want("phi", a.Phi, stored(device.F32, maxAbs(bias)+scale*maxNorm(q, s.d)*maxNorm(reps, s.d)))
	b.want("read", a.Read, tolerance{})
	b.run(func(o *device.Ops) { o.Route(a) })
}

type drawShape struct {
	tokens, heads, teams, k int
	spread                  float64
}

// sampleTeams compares the places that do not hang on the rounding of float32
// scores.
func sampleTeams(b *bench, s drawShape) {
	phi := rounded(device.F32, b.normal(s.tokens*s.heads*s.teams, s.spread))
	for i := range phi {
		if i%9 == 4 {
			phi[i] = math.Inf(-1)
		}
	}
	seed, pos := [2]uint32{b.rng.Uint32(), b.rng.Uint32()}, b.integers(s.tokens, 1<<17)
	const layer = 27
	skip := make([]bool, s.tokens*s.heads*s.k)
	worst := 0.0
	for t := range s.tokens {
		for h := range s.heads {
			at := t*s.heads + h
			d := newDrawError(phi[at*s.teams:][:s.teams], func(team int) uint32 { return teamWord(seed, team, h, layer, pos[t]) })
			copy(skip[at*s.k:], d.undecided(s.k))
			worst = max(worst, d.ofTau(s.k))
		}
	}
	b.decided(skip, 0.1)
	a := device.TopKArgs{
		Teams: b.blank("teams", device.I32, s.tokens, s.heads, s.k), LogC: b.blank("logC", device.F32, s.tokens, s.heads, s.k),
		Phi: b.tensor("phi", device.F32, phi, s.tokens, s.heads, s.teams),
		Draw: device.Draw{Seed: b.tensor("seed", device.U32, []float64{float64(seed[0]), float64(seed[1])}, 2),
			Layer: layer, Pos: b.ints("pos", pos, s.tokens)},
	}
	b.wantBut("teams", a.Teams, tolerance{}, skip)
	// ln c is phi − τ or flatter, and of a relative error of a few u itself.
	b.wantBut("ln c", a.LogC, tolerance{round: f32Error(1), abs: worst}, skip)
	b.run(func(o *device.Ops) { o.SampleTopK(a) })
}

// teamWord is the random word behind device.TeamGumbel.
func teamWord(seed [2]uint32, team, head, layer, pos int) uint32 {
	return device.Philox([4]uint32{uint32(team) / 4, uint32(head), uint32(layer), uint32(pos)}, seed)[team%4]
}

// drawError holds the perturbed scores of one head and their float32 errors,
// both in falling order of score.
type drawError struct{ y, e []float64 }

func newDrawError(phi []float64, word func(team int) uint32) drawError {
	var y, e []float64
	for g, p := range phi {
		if math.IsInf(p, -1) {
			continue
		}
		noise := device.Gumbel(word(g))
		y = append(y, p+noise)
		e = append(e, gumbelError(word(g))+f32Error(math.Abs(p)+math.Abs(noise)))
	}
	var d drawError
	for _, g := range largest(upTo(len(y)), y) {
		d.y, d.e = append(d.y, y[g]), append(d.e, e[g])
	}
	return d
}

// gumbelError: v rounded to float32 is off by u·v, which moves −ln(−ln(1−v))
// by that over (1−v)·(−ln(1−v)): little for small v, the winners.
func gumbelError(word uint32) float64 {
	v := device.Uniform(word)
	return f32Error(1) + unit(device.F32)*v/((1-v)*-math.Log1p(-v))
}

// undecided marks the first k places that errors could give to another team.
func (d drawError) undecided(k int) []bool {
	n := len(d.y)
	below := make([]float64, n+1) // the most that any later score may be
	below[n] = math.Inf(-1)
	for j := n - 1; j >= 0; j-- {
		below[j] = max(below[j+1], d.y[j]+d.e[j])
	}
	skip := make([]bool, k)
	above := math.Inf(1) // the least that any earlier score may be
	for j := range min(k, n) {
		skip[j] = d.y[j]-d.e[j] <= below[j+1] || d.y[j]+d.e[j] >= above
		above = min(above, d.y[j]-d.e[j])
	}
	return skip
}

// ofTau is the error of phi − τ.
func (d drawError) ofTau(k int) float64 {
	if k >= len(d.y) {
		return 0
	}
	return d.e[k] + f32Error(math.Abs(d.y[k])+math.Abs(d.y[0]))
}

// sampleTeamsTies has scores so large that the noise is lost in every float
// type: all are equal.
func sampleTeamsTies(b *bench) {
	const heads, teams, k = 3, 300, 63
	phi := make([]float64, heads*teams)
	for i := range phi {
		phi[i] = rounded(device.F32, []float64{1e30})[0]
		if i%5 == 0 {
			phi[i] = -phi[i]
		}
	}
	a := device.TopKArgs{
		Teams: b.blank("teams", device.I32, 1, heads, k), LogC: b.blank("logC", device.F32, 1, heads, k),
		Phi:  b.tensor("phi", device.F32, phi, 1, heads, teams),
		Draw: device.Draw{Seed: b.tensor("seed", device.U32, []float64{1, 2}, 2), Layer: 3, Pos: b.ints("pos", []int{4}, 1)},
	}
	b.want("teams", a.Teams, tolerance{})
	b.want("ln c", a.LogC, tolerance{round: f32Error(1)})
	b.run(func(o *device.Ops) { o.SampleTopK(a) })
}

type selectedShape struct {
	tokens, kv, group, dk, dv, teams, k int
	prefix                              bool
	logits                              float64
}

// attendSelected draws teams of all sizes, 0 included; rows of teams that no
// head of the group drew are NaN, as are the unused ln c.
func attendSelected(b *bench, s selectedShape) {
	heads := s.kv * s.group
	offsets, capacity := b.teamOffsets(s.kv, s.teams)
	teams, logC := b.drawnTeams(s)
	used := usedRows(s, teams, offsets, capacity)
	q, k := b.normal(s.tokens*heads*s.dk, 1), b.poisoned(used, s.dk)
	scale := max(s.logits, 1) / math.Sqrt(float64(s.dk))
	a := device.SelectedArgs{
		Out: device.Partial{Out: b.blank("out", device.F32, s.tokens, heads, s.dv), LSE: b.blank("lse", device.F32, s.tokens, heads)},
		Q:   b.tensor("q", b.act(), q, s.tokens, heads, s.dk), K: b.tensor("k", b.act(), k, s.kv, capacity, s.dk),
		Offsets: b.ints("offsets", offsets, s.kv, s.teams+1), Teams: b.ints("teams", teams, s.tokens, heads, s.k),
		LogC: b.tensor("logC", device.F32, logC, s.tokens, heads, s.k), Scale: float32(scale),
		Read: b.tensor("read", device.I64, []float64{3}, 1),
	}
	v := k
	if s.prefix {
		a.V = a.K.Slice(2, 0, s.dv)
	} else {
		v = b.poisoned(used, s.dv)
		a.V = b.tensor("v", b.act(), v, s.kv, capacity, s.dv)
	}
	e := b.softTolerance(maxAbs(logC)+scale*maxNorm(q, s.dk)*maxNorm(k, s.dk), capacity, maxAbs(v))
	narrow := a
	narrow.Out, narrow.Read = device.Partial{Out: b.blank("narrow", b.act(), s.tokens, heads, s.dv)}, nil
	b.want("out", a.Out.Out, e.out(device.F32))
	b.want("lse", a.Out.LSE, e.lse)
	b.want("narrow", narrow.Out.Out, e.out(b.act()))
	b.want("read", a.Read, tolerance{})
	b.run(func(o *device.Ops) {
		o.AttendSelected(a)
		o.AttendSelected(narrow)
	})
}

// teamOffsets are teams of mostly 1 to 9 rows, some of none and one of 150.
func (b *bench) teamOffsets(kv, teams int) (offsets []int, capacity int) {
	for range kv {
		at := 2 // the first rows belong to no team
		offsets = append(offsets, at)
		for g := range teams {
			switch {
			case g == teams/2:
				at += 150
			case g%6 != 5:
				at += 1 + b.rng.IntN(9)
			}
			offsets = append(offsets, at)
			capacity = max(capacity, at+3)
		}
	}
	return offsets, capacity
}

// drawnTeams are different for each head; the last head's list ends early, and
// that of the last head of the first token is empty.
func (b *bench) drawnTeams(s selectedShape) (teams []int, logC []float64) {
	heads := s.kv * s.group
	for t := range s.tokens {
		for h := range heads {
			n := s.k
			if h == heads-1 && heads > 1 {
				n = s.k / 2 * min(t, 1)
			}
			for j, team := range b.rng.Perm(s.teams)[:s.k] {
				if j < n {
					teams, logC = append(teams, team), append(logC, -3*b.rng.Float64())
				} else {
					teams, logC = append(teams, -1), append(logC, math.NaN())
				}
			}
		}
	}
	return teams, rounded(device.F32, logC)
}

// usedRows marks the cache rows of each key head that some query head drew.
func usedRows(s selectedShape, teams, offsets []int, capacity int) []bool {
	used := make([]bool, s.kv*capacity)
	for i, team := range teams {
		kv := i / s.k % (s.kv * s.group) / s.group
		if team < 0 {
			continue
		}
		at := offsets[kv*(s.teams+1)+team:]
		for r := at[0]; r < at[1]; r++ {
			used[kv*capacity+r] = true
		}
	}
	return used
}

// poisoned are rows of width d, NaN where not used.
func (b *bench) poisoned(used []bool, d int) []float64 {
	v := b.normal(len(used)*d, 1)
	for i := range v {
		if !used[i/d] {
			v[i] = math.NaN()
		}
	}
	return v
}
