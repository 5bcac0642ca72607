package devicetest

import (
	"fmt"
	"math"
	"slices"

	"blitzen/device"
)

func sampleCases() []testCase {
	var cs []testCase
	add := func(run func(b *bench), format string, args ...any) {
		cs = append(cs, testCase{fmt.Sprintf(format, args...), run})
	}
	for _, s := range samplerSettings() {
		for _, vocab := range []int{1, 17, 1000} {
			add(func(b *bench) { sampleTokens(b, vocab, 12, s.values) }, "Sample/%s of %d", s.name, vocab)
		}
	}
	add(func(b *bench) { sampleTokens(b, 151936, 3, []float64{0.7, 20, 0.8, 0, 1.05}) }, "Sample/a whole vocabulary")
	add(func(b *bench) { sampleTies(b, []float64{1, 2, 1, 0, 1}) }, "Sample/ties at the border of top-k")
	add(func(b *bench) { sampleTies(b, []float64{1, 0, 0.5, 0, 1}) }, "Sample/ties that cross top-p")
	add(func(b *bench) { sampleTies(b, []float64{1, 0, 0.475, 0, 1}) }, "Sample/ties beyond top-p")
	add(func(b *bench) { sampleTies(b, []float64{0, 0, 1, 0, 2}) }, "Sample/greedy ties")
	add(sampleBroken, "Sample/broken logits")
	for _, s := range []struct{ n, vocab int }{{1, 1}, {5, 17}, {20, 4096}, {17, 17}, {40, 4096}, {5, 30000}} {
		add(func(b *bench) { topLogProbs(b, s.n, s.vocab) }, "TopLogProbs/%d of %d", s.n, s.vocab)
	}
	for _, n := range []int{1, 65, 1000} {
		add(func(b *bench) { markSeen(b, n) }, "MarkSeen/%d", n)
	}
	return cs
}

type namedSettings struct {
	name   string
	values []float64 // in the order of the device.Set constants
}

func samplerSettings() []namedSettings {
	return []namedSettings{
		{"greedy", []float64{0, 0, 1, 0, 1}},
		{"greedy, penalised", []float64{0, 40, 0.9, 0.1, 1.3}},
		{"temperature", []float64{1.5, 0, 1, 0, 1}},
		{"top-k", []float64{1, 5, 1, 0, 1}},
		{"top-k over the vocabulary", []float64{1, 2000, 1, 0, 1}},
		{"top-p", []float64{1, 0, 0.8, 0, 1}},
		{"min-p", []float64{1.2, 0, 1, 0.2, 1}},
		{"penalty", []float64{1, 0, 1, 0, 1.5}},
		{"all", []float64{0.8, 40, 0.9, 0.05, 1.1}},
	}
}

// sampleTokens draws at several positions and compares the tokens that do not
// hang on float32 rounding.
func sampleTokens(b *bench, vocab, draws int, settings []float64) {
	settings = rounded(device.F32, settings)
	logits, seen := rounded(device.F32, b.normal(vocab, 2.5)), floats(b.integers(vocab, 2))
	if vocab > 3 {
		logits[vocab/2] = math.Inf(-1)
	}
	seed, pos := [2]uint32{b.rng.Uint32(), b.rng.Uint32()}, b.integers(draws, 1<<17)
	var skip []bool
	if b.judge {
		var us []float64
		for _, p := range pos {
			us = append(us, tokenUniform(seed, p))
		}
		skip = undecidedDraws(logits, seen, settings, us)
		b.decided(skip, 0.5)
	}
	b.drawTokens(logits, seen, settings, seed, pos, skip)
}

// drawTokens is one Sample a position in one run.
func (b *bench) drawTokens(logits, seen, settings []float64, seed [2]uint32, pos []int, skip []bool) {
	ids, at := b.blank("ids", device.I32, len(pos)), b.ints("pos", pos, len(pos))
	a := device.SampleArgs{
		Logits: b.tensor("logits", device.F32, logits, len(logits)), Seen: b.tensor("seen", device.I32, seen, len(seen)),
		Settings: b.tensor("settings", device.F32, settings, device.NumSettings),
		Seed:     b.tensor("seed", device.U32, []float64{float64(seed[0]), float64(seed[1])}, 2),
	}
	b.wantBut("ids", ids, tolerance{}, skip)
	b.run(func(o *device.Ops) {
		for i := range pos {
			a.ID, a.Pos = ids.Slice(0, i, i+1), at.Slice(0, i, i+1)
			o.Sample(a)
		}
	})
}

func tokenUniform(seed [2]uint32, pos int) float64 {
	return device.Uniform(device.Philox([4]uint32{0, 0, device.TokenLayer, uint32(pos)}, seed)[0])
}

// undecidedDraws marks the draws whose token errors of float32 logits and
// running sums could change: it depends on u, top-p, min-p or the cut of top-k
// at their distance.
func undecidedDraws(logits, seen, settings, us []float64) []bool {
	skip := make([]bool, len(us))
	x := slices.Clone(logits)
	penalise(x, seen, settings[device.SetRepetition])
	e, temperature := f32Error(maxAbs(x)), settings[device.SetTemperature]
	k := int(settings[device.SetTopK])
	if temperature == 0 {
		k = 1
	}
	if k > 0 && gapAfter(x, k) <= e {
		return slices.Repeat([]bool{true}, len(us))
	}
	if temperature == 0 {
		return skip
	}
	relative := f32Error(1) + e/temperature // of a probability
	mass := relative + f32Error(math.Sqrt(float64(len(x))))
	kept := keptProbabilities(logits, seen, settings)
	for _, side := range []float64{-1, 1} {
		moved := slices.Clone(settings)
		if p := &moved[device.SetTopP]; *p < 1 {
			*p += side * mass
		}
		moved[device.SetMinP] *= 1 + side*2*relative
		other := keptProbabilities(logits, seen, moved)
		for i, u := range us {
			token := drawToken(kept, u)
			skip[i] = skip[i] || drawToken(other, u-mass) != token || drawToken(other, u+mass) != token
		}
	}
	return skip
}

// sampleTies has three tokens that share the second place. They are kept or
// dropped together.
func sampleTies(b *bench, settings []float64) {
	const vocab = 64
	logits := slices.Repeat([]float64{-40}, vocab)
	logits[60], logits[7], logits[33], logits[50] = 2, 1, 1, 1
	seen := make([]float64, vocab)
	seen[60] = 1
	b.drawTokens(logits, seen, settings, [2]uint32{7, 8}, upTo(24), nil)
}

// sampleBroken has no distribution: the answer is −1 in every setting.
func sampleBroken(b *bench) {
	inf := math.Inf(1)
	ids := b.blank("ids", device.I32, 8)
	b.want("ids", ids, tolerance{})
	var calls []device.SampleArgs
	for i, logits := range [][]float64{{0, math.NaN(), 1}, {0, 1, inf}, {-inf, -inf, -inf}, {math.NaN(), -inf, inf}} {
		for j, temperature := range []float64{0, 1} {
			n := 2*i + j
			calls = append(calls, device.SampleArgs{
				ID: ids.Slice(0, n, n+1), Logits: b.tensor("logits", device.F32, logits, 3), Seen: b.ints("seen", []int{0, 0, 0}, 3),
				Settings: b.tensor("settings", device.F32, []float64{temperature, 2, 0.9, 0.1, 1.1}, device.NumSettings),
				Seed:     b.tensor("seed", device.U32, []float64{1, 2}, 2), Pos: b.ints("pos", []int{5}, 1),
			})
		}
	}
	b.run(func(o *device.Ops) {
		for _, a := range calls {
			o.Sample(a)
		}
	})
}

// topLogProbs has pairs of equal logits among the first, −Inf, and an id that
// is no token.
func topLogProbs(b *bench, n, vocab int) {
	logits := rounded(device.F32, b.normal(vocab, 3))
	if vocab > 8 {
		logits[1], logits[vocab-1], logits[vocab/2] = 12, 12, math.Inf(-1)
		logits[3], logits[4] = 11, 11
	}
	a := device.LogProbArgs{
		IDs: b.blank("ids", device.I32, n), LogProbs: b.blank("logProbs", device.F32, n), Chosen: b.blank("chosen", device.F32, 1),
		Logits: b.tensor("logits", device.F32, logits, vocab), ID: b.ints("id", []int{vocab - 1}, 1),
	}
	none := a
	none.IDs, none.LogProbs = b.blank("ids2", device.I32, n), b.blank("logProbs2", device.F32, n)
	none.Chosen, none.ID = b.blank("none", device.F32, 1), b.ints("noID", []int{-1}, 1)
	// Σ exp has positive terms; its logarithm is off by their relative error.
	e := stored(device.F32, maxAbs(logits)+math.Sqrt(float64(vocab)))
	b.want("ids", a.IDs, tolerance{})
	b.want("log-probabilities", a.LogProbs, e)
	b.want("chosen", a.Chosen, e)
	b.want("chosen of no token", none.Chosen, tolerance{})
	b.want("ids again", none.IDs, tolerance{})
	b.want("log-probabilities again", none.LogProbs, e)
	b.run(func(o *device.Ops) {
		o.TopLogProbs(a)
		o.TopLogProbs(none)
	})
}

func markSeen(b *bench, n int) {
	const vocab = 300
	before, list := b.integers(vocab, 2), b.integers(n, vocab)
	before[list[n-1]] = 0
	seen := b.ints("seen", before, vocab)
	if n > 2 {
		list[0], list[1], list[2] = -1, vocab, vocab-1
	}
	ids := b.ints("ids", list, n)
	b.want("seen", seen, tolerance{})
	b.run(func(o *device.Ops) { o.MarkSeen(seen, ids) })
}
