package devicetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"blitzen/device"
)

func teamsCases() []testCase {
	var cs []testCase
	for _, s := range []teamsShape{
		{tokens: 1, kv: 1, group: 1, dk: 8, dv: 8, teams: 1, k: 1, suffix: 2},
		{tokens: 1, kv: 2, group: 7, dk: 64, dv: 64, teams: 65, k: 7, suffix: 5},
		{tokens: 1, kv: 2, group: 7, dk: 64, dv: 64, teams: 65, k: 7, suffix: 3389},
		{tokens: 1, kv: 1, group: 16, dk: 576, dv: 512, teams: 133, k: 9, suffix: 3, prefix: true},
		{tokens: 1, kv: 1, group: 16, dk: 576, dv: 512, teams: 2000, k: 31, suffix: 71, prefix: true},
		{tokens: 1, kv: 1, group: 16, dk: 576, dv: 512, teams: 450, k: 100, suffix: 9, prefix: true},
		{tokens: 1, kv: 1, group: 3, dk: 576, dv: 512, teams: 40, k: 8, suffix: 1, prefix: true, logits: 1e4},
		{tokens: 1, kv: 2, group: 5, dk: 320, dv: 256, teams: 97, k: 9, suffix: 5, prefix: true},
		{tokens: 1, kv: 3, group: 3, dk: 256, dv: 64, teams: 65, k: 20, suffix: 0},
		{tokens: 1, kv: 1, group: 6, dk: 160, dv: 128, teams: 70, k: 31, suffix: 17, prefix: true},
		{tokens: 3, kv: 2, group: 3, dk: 128, dv: 128, teams: 111, k: 17, suffix: 4},
		{tokens: 1, kv: 4, group: 7, dk: 128, dv: 128, teams: 300, k: 64, suffix: 1},
		{tokens: 1, kv: 2, group: 2, dk: 128, dv: 128, teams: 17, k: 31, suffix: 0},
		{tokens: 1, kv: 2, group: 2, dk: 64, dv: 17, teams: 63, k: 20, suffix: 65},
		{tokens: 1, kv: 1, group: 7, dk: 64, dv: 64, teams: 40, k: 8, suffix: 1, logits: 1e4},
		{tokens: 1, kv: 1, group: 2, dk: 128, dv: 128, teams: 2500, k: 1024, suffix: 130},
		{tokens: 1, kv: 1, group: 3, dk: 64, dv: 64, teams: 3001, k: 300, suffix: 9},
		{tokens: 1, kv: 1, group: 2, dk: 64, dv: 64, teams: 1950, k: 31, suffix: 5, f8: true},
		{tokens: 1, kv: 1, group: 2, dk: 64, dv: 64, teams: 1950, k: 40, suffix: 5},
		{tokens: 1, kv: 2, group: 7, dk: 128, dv: 128, teams: 165, k: 9, suffix: 5, f8: true},
		{tokens: 1, kv: 1, group: 16, dk: 576, dv: 512, teams: 133, k: 9, suffix: 3, prefix: true, f8: true},
		{tokens: 1, kv: 1, group: 6, dk: 160, dv: 128, teams: 70, k: 31, suffix: 17, prefix: true, f8: true},
		{tokens: 2, kv: 2, group: 3, dk: 64, dv: 64, teams: 111, k: 17, suffix: 4, f8: true},
		{tokens: 1, kv: 1, group: 3, dk: 64, dv: 64, teams: 701, k: 300, suffix: 9, f8: true},
		{tokens: 1, kv: 2, group: 2, dk: 64, dv: 64, teams: 300, k: 63, suffix: 2, ties: true},
		{tokens: 1, kv: 1, group: 2, dk: 64, dv: 64, teams: 2000, k: 500, suffix: 2, ties: true},
	} {
		name := fmt.Sprintf("AttendTeams/%d tokens, %d of %d heads, %d and %d wide, %d of %d teams, %d after them",
			s.tokens, s.kv*s.group, s.kv, s.dk, s.dv, s.k, s.teams, s.suffix)
		switch {
		case s.ties:
			name += ", ties"
		case s.logits > 0:
			name += fmt.Sprintf(", logits %g", s.logits)
		}
		if s.f8 {
			name += ", F8"
		}
		cs = append(cs, testCase{name, func(b *bench) { attendTeamsCase(b, s) }})
	}
	return cs
}

type teamsShape struct {
	tokens, kv, group, dk, dv, teams, k, suffix int
	prefix, ties                                bool
	f8                                          bool // representatives
	logits                                      float64
}

func (s teamsShape) heads() int { return s.kv * s.group }

// attendTeamsCase runs with all that can be asked for, then with the output
// alone. Every seventh team is not there; rows that no head reads are NaN.
func attendTeamsCase(b *bench, s teamsShape) {
	scale := max(s.logits, 1) / math.Sqrt(float64(s.dk))
	q, reps := b.normal(s.tokens*s.heads()*s.dk, 1), b.normal(s.kv*s.teams*s.dk, 1)
	bias := b.teamBias(s, reps)
	keys, reps := b.representatives(s.f8, reps, s.kv, s.teams, s.dk)
	offsets, from := b.teamOffsets(s.kv, s.teams)
	capacity := from + s.suffix + s.tokens + 1
	d := b.decidedDraw(s, q, reps, bias, scale, from)
	used := usedRows(selectedShape{tokens: s.tokens, kv: s.kv, group: s.group, teams: s.teams, k: s.k}, d.teams, offsets, capacity)
	for i := range used {
		r := i % capacity
		used[i] = used[i] || r >= from && r < from+s.suffix+s.tokens-1
	}
	k := b.poisoned(used, s.dk)
	a := device.TeamsArgs{
		Out: b.blank("wide", device.F32, s.tokens, s.heads(), s.dv), Q: b.tensor("q", b.act(), q, s.tokens, s.heads(), s.dk),
		K: b.tensor("k", b.act(), k, s.kv, capacity, s.dk), Reps: keys,
		Bias: b.tensor("bias", device.F32, bias, s.kv, s.teams), Offsets: b.ints("offsets", offsets, s.kv, s.teams+1),
		From: b.ints("from", []int{from}, 1), Scale: float32(scale), Drawn: s.k,
		Draw: device.Draw{Seed: b.tensor("seed", device.U32, []float64{5, float64(d.seed)}, 2), Layer: teamsLayer, Pos: b.ints("pos", d.pos, s.tokens)},
		Phi:  b.blank("phi", device.F32, s.tokens, s.heads(), s.teams), Teams: b.blank("teams", device.I32, s.tokens, s.heads(), s.k),
		LogC:   b.blank("logC", device.F32, s.tokens, s.heads(), s.k),
		Routed: b.tensor("routed", device.I64, []float64{7}, 1), Rows: b.tensor("rows", device.I64, []float64{8}, 1),
		Suffix: b.tensor("suffix", device.I64, []float64{9}, 1),
	}
	v := k
	if s.prefix {
		a.V = a.K.Slice(2, 0, s.dv)
	} else {
		v = b.poisoned(used, s.dv)
		a.V = b.tensor("v", b.act(), v, s.kv, capacity, s.dv)
	}
	narrow := a
	narrow.Out = b.blank("narrow", b.act(), s.tokens, s.heads(), s.dv)
	narrow.Phi, narrow.Teams, narrow.LogC, narrow.Routed, narrow.Rows, narrow.Suffix = nil, nil, nil, nil, nil, nil

	// ln c is phi − τ or flatter: it moves the logits by the error of that.
	e := b.softTolerance(30+scale*maxNorm(q, s.dk)*maxNorm(k, s.dk), capacity, maxAbs(v))
	e.value += 2 * d.worst * maxAbs(v)
	b.want("wide", a.Out, e.out(device.F32))
	b.want("narrow", narrow.Out, e.out(b.act()))
	b.want("phi", a.Phi, stored(device.F32, d.score))
	b.wantDerived(result{name: "teams", derive: func(x [][]float64) []float64 { return byTeam(s.k, x[0], x[0]) }}, a.Teams)
	b.wantDerived(result{name: "ln c", tol: tolerance{round: f32Error(1), abs: d.worst},
		derive: func(x [][]float64) []float64 { return byTeam(s.k, x[0], x[1]) }}, a.Teams, a.LogC)
	for _, counter := range []*device.Tensor{a.Routed, a.Rows, a.Suffix} {
		b.want(counter.Name, counter, tolerance{})
	}
	b.run(func(o *device.Ops) {
		o.AttendTeams(a)
		o.AttendTeams(narrow)
	})
}

const teamsLayer = 27

// teamBias is ln n, −Inf for every seventh team, whose representative becomes
// NaN; with ties so large a number that scores and noise are lost.
func (b *bench) teamBias(s teamsShape, reps []float64) []float64 {
	bias := make([]float64, s.kv*s.teams)
	for i := range bias {
		switch {
		case i%7 == 6:
			bias[i] = math.Inf(-1)
			for j := range s.dk {
				reps[i*s.dk+j] = math.NaN()
			}
		case s.ties:
			bias[i] = 1e30
		default:
			bias[i] = math.Log(float64(1 + b.rng.IntN(200)))
		}
	}
	return rounded(device.F32, bias)
}

// draw is what the random numbers of a case give.
type draw struct {
	seed  uint32
	pos   []int
	teams []int   // [tokens, heads, k]
	score float64 // magnitude of a team's score
	worst float64 // error of phi − τ
}

// decidedDraw looks for a seed with which rounding decides for no head what is
// drawn.
func (b *bench) decidedDraw(s teamsShape, q, reps, bias []float64, scale float64, from int) draw {
	d := draw{score: maxAbs(bias) + scale*maxNorm(q, s.dk)*maxNorm(reps, s.dk)}
	for t := range s.tokens {
		d.pos = append(d.pos, from+s.suffix-1+t)
	}
	phi := teamScores(s, q, reps, bias, scale)
	for d.seed = 1; ; d.seed++ {
		if b.drawAll(s, phi, &d) || s.ties {
			return d
		}
		if d.seed == 1000 {
			b.fail(fmt.Errorf("no seed decides the draw"))
			return d
		}
	}
}

// drawAll fills teams and worst; false where the error of a score could change
// the set of a head.
func (b *bench) drawAll(s teamsShape, phi []float64, d *draw) bool {
	seed := [2]uint32{5, d.seed}
	d.teams, d.worst = nil, 0
	for i := range s.tokens * s.heads() {
		t, h, scores := i/s.heads(), i%s.heads(), phi[i*s.teams:][:s.teams]
		e := newDrawError(scores, func(team int) uint32 { return teamWord(seed, team, h, teamsLayer, d.pos[t]) })
		for j := range e.e {
			e.e[j] += f32Error(d.score)
		}
		least, most := math.Inf(1), math.Inf(-1)
		for j := range e.y {
			if j < s.k {
				least = min(least, e.y[j]-e.e[j])
			} else {
				most = max(most, e.y[j]+e.e[j])
			}
		}
		if least <= most && !s.ties {
			return false
		}
		if !s.ties {
			d.worst = max(d.worst, e.ofTau(s.k)+f32Error(d.score))
		}
		teams, _ := sampleTopK(scores, func(team int) float64 { return device.TeamGumbel(seed, team, h, teamsLayer, d.pos[t]) }, s.k)
		for _, team := range teams {
			d.teams = append(d.teams, int(team))
		}
	}
	return true
}

// teamScores is phi [tokens, heads, teams] in F32.
func teamScores(s teamsShape, q, reps, bias []float64, scale float64) []float64 {
	var phi []float64
	for i := range s.tokens * s.heads() {
		kv := i % s.heads() / s.group
		for g := kv * s.teams; g < (kv+1)*s.teams; g++ {
			p := bias[g]
			if !math.IsInf(p, -1) {
				p += scale * dot(q[i*s.dk:][:s.dk], reps[g*s.dk:][:s.dk])
			}
			phi = append(phi, p)
		}
	}
	return rounded(device.F32, phi)
}

// byTeam orders values [lists, k] within each list by the teams in their places.
func byTeam(k int, teams, values []float64) []float64 {
	var out []float64
	for ; len(teams) >= k; teams, values = teams[k:], values[k:] {
		places := upTo(k)
		slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(teams[a], teams[b]) })
		for _, i := range places {
			out = append(out, values[i])
		}
	}
	return out
}
