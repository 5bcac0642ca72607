package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

func attendCases() []testCase {
	var cs []testCase
	add := func(run func(b *bench), format string, args ...any) {
		cs = append(cs, testCase{fmt.Sprintf(format, args...), run})
	}
	for _, s := range []attendShape{
		{tokens: 1, kv: 1, group: 1, dk: 8, dv: 8, capacity: 2, last: 1},
		{tokens: 1, kv: 2, group: 7, dk: 64, dv: 64, capacity: 111, last: 64},
		{tokens: 1, kv: 1, group: 7, dk: 128, dv: 128, capacity: 2100, last: 2047, from: 17},
		{tokens: 1, kv: 2, group: 3, dk: 64, dv: 64, capacity: 5000, last: 4998},
		{tokens: 1, kv: 1, group: 16, dk: 576, dv: 512, prefix: true, capacity: 300, last: 255},
		{tokens: 7, kv: 1, group: 3, dk: 576, dv: 512, prefix: true, capacity: 70, last: 62, from: 3},
		{tokens: 2, kv: 3, group: 1, dk: 160, dv: 128, capacity: 65, last: 63},
		{tokens: 7, kv: 2, group: 2, dk: 64, dv: 17, capacity: 130, last: 110, from: 63},
		{tokens: 65, kv: 2, group: 2, dk: 64, dv: 64, capacity: 200, last: 128},
		{tokens: 65, kv: 1, group: 7, dk: 128, dv: 128, capacity: 65, last: 64},
		{tokens: 17, kv: 2, group: 1, dk: 192, dv: 128, capacity: 90, last: 80},
		{tokens: 130, kv: 1, group: 2, dk: 96, dv: 64, capacity: 400, last: 300, from: 37},
	} {
		add(func(b *bench) { attend(b, s) }, "Attend/%d tokens, %d of %d heads, %d and %d wide, %d to %d",
			s.tokens, s.kv*s.group, s.kv, s.dk, s.dv, s.from, s.last)
	}
	huge := attendShape{tokens: 7, kv: 2, group: 2, dk: 64, dv: 64, capacity: 80, last: 70, logits: 1e4}
	add(func(b *bench) { attend(b, huge) }, "Attend/huge logits")
	for _, tokens := range []int{5, 17} {
		add(func(b *bench) { attendEmpty(b, tokens) }, "Attend/empty ranges of %d tokens", tokens)
	}
	add(attendColumns, "Attend/columns of one matrix")
	for _, s := range []struct{ tokens, heads, d int }{{1, 1, 1}, {7, 3, 64}, {65, 2, 17}, {1, 28, 128}} {
		add(func(b *bench) { merge(b, s.tokens, s.heads, s.d) }, "Merge/%dx%dx%d", s.tokens, s.heads, s.d)
	}
	return cs
}

type attendShape struct {
	tokens, kv, group, dk, dv int
	prefix                    bool // V is the first columns of K
	capacity, from, last      int  // rows from to last are attended by the last token
	logits                    float64
	then                      int // outputs of a product of the result; 0 for none
}

// attend lets token t end at last−(tokens−1)+t, as in prefill; rows outside
// every range are NaN.
func attend(b *bench, s attendShape) {
	heads := s.kv * s.group
	q := b.normal(s.tokens*heads*s.dk, 1)
	k := b.rows(s.kv, s.capacity, s.dk, s.from, s.last+1)
	scale := max(s.logits, 1) / math.Sqrt(float64(s.dk))
	a := device.AttendArgs{
		Q: b.tensor("q", b.act(), q, s.tokens, heads, s.dk), K: b.tensor("k", b.act(), k, s.kv, s.capacity, s.dk),
		Scale: float32(scale), Read: b.tensor("read", device.I64, []float64{1 << 40}, 1),
	}
	values := k
	if s.prefix {
		a.V = a.K.Slice(2, 0, s.dv)
	} else {
		values = b.rows(s.kv, s.capacity, s.dv, s.from, s.last+1)
		a.V = b.tensor("v", b.act(), values, s.kv, s.capacity, s.dv)
	}
	if s.from > 0 {
		a.From = b.ints("from", []int{s.from}, 1)
	}
	pos := make([]int, s.tokens)
	for t := range pos {
		pos[t] = s.last - s.tokens + 1 + t
	}
	a.Pos = b.ints("pos", pos, s.tokens)
	logit := scale * maxNorm(q, s.dk) * maxNorm(k, s.dk)
	if s.then > 0 {
		b.attendThen(&a, s, values, logit)
	}
	b.attendTwice(a, [3]int{s.tokens, heads, s.dv}, b.softTolerance(logit, s.last+1-s.from, maxAbs(values)))
}

// attendThen has a product follow. A sum of weighted values times a matrix is that sum
// of their products; besides, the result may be rounded before it is multiplied.
func (b *bench) attendThen(a *device.AttendArgs, s attendShape, values []float64, logit float64) {
	heads := s.kv * s.group
	w := b.normal(heads*s.then*s.dv, 1/math.Sqrt(float64(s.dv)))
	a.Then = &device.HeadProduct{Dst: b.blank("dst", b.act(), s.tokens, heads, s.then), W: b.weight("w", device.BF16, w, heads, s.then, s.dv)}
	width, product := len(values)/(s.kv*s.capacity), 0.0
	var there []float64
	for ; len(values) > 0; values = values[width:] {
		if v := values[:s.dv]; v[0] == v[0] { // else NaN
			there = append(there, v...)
			for o := 0; o < len(w); o += s.dv {
				product = max(product, math.Abs(dot(v, w[o:o+s.dv])))
			}
		}
	}
	tol := b.softTolerance(logit, s.last+1-s.from, product).out(b.act())
	tol.abs += roundedWeights(b.act(), there, w, s.dv) + f32Error(maxNorm(there, s.dv)*maxNorm(w, s.dv))
	b.want("dst", a.Then.Dst, tol)
}

// attendTwice runs with F32 results and LSE, then with activations alone, which a
// product may follow.
func (b *bench) attendTwice(a device.AttendArgs, out [3]int, e softTolerance) {
	a.Out = device.Partial{Out: b.blank("out", device.F32, out[:]...), LSE: b.blank("lse", device.F32, out[:2]...)}
	narrow := a
	narrow.Out = device.Partial{Out: b.blank("narrow", b.act(), out[:]...)}
	narrow.Read, a.Then = nil, nil
	if narrow.Then != nil {
		narrow.Then.X = narrow.Out.Out
	}
	b.want("out", a.Out.Out, e.out(device.F32))
	b.want("lse", a.Out.LSE, e.lse)
	b.want("read", a.Read, tolerance{})
	b.want("narrow", narrow.Out.Out, e.out(b.act()))
	b.run(func(o *device.Ops) {
		o.Attend(a)
		o.Attend(narrow)
	})
}

// rows are heads × capacity rows of width d, NaN outside [from, to).
func (b *bench) rows(heads, capacity, d, from, to int) []float64 {
	v := b.normal(heads*capacity*d, 1)
	for i := range v {
		if r := i / d % capacity; r < from || r >= to {
			v[i] = math.NaN()
		}
	}
	return v
}

// softTolerance is the error of a softmax-weighted sum.
type softTolerance struct {
	lse   tolerance
	value float64 // of Out, before it is stored
}

// softTolerance: a logit of magnitude |q|·|k|·scale has an error e; so have the
// logarithms of a weight and of the sum of weights, so out moves by 2e of the
// largest value; n positive terms add u·√n. A device may keep weights and
// values as activations while it multiplies them: u each of numerator and sum.
func (b *bench) softTolerance(logit float64, n int, value float64) softTolerance {
	e := f32Error(1 + logit)
	sum := f32Error(math.Sqrt(float64(n)))
	return softTolerance{
		lse:   tolerance{round: unit(device.F32), abs: e + sum},
		value: value * (2*e + sum + 2*unit(b.act())),
	}
}

func (s softTolerance) out(t device.DType) tolerance {
	return tolerance{round: unit(t), abs: s.value}
}

// attendEmpty mixes tokens that attend nothing with tokens that attend a row.
func attendEmpty(b *bench, tokens int) {
	const kv, heads, d, capacity, from = 2, 6, 64, 9, 4
	pos := make([]int, tokens)
	for t := range pos {
		pos[t] = []int{3, 4, -1, 0, 5}[t%5]
	}
	q, k := b.normal(tokens*heads*d, 1), b.rows(kv, capacity, d, from, 6)
	v := b.rows(kv, capacity, d, from, 6)
	scale := 1 / math.Sqrt(d)
	a := device.AttendArgs{
		Q: b.tensor("q", b.act(), q, tokens, heads, d), K: b.tensor("k", b.act(), k, kv, capacity, d),
		V: b.tensor("v", b.act(), v, kv, capacity, d), Scale: float32(scale),
		From: b.ints("from", []int{from}, 1), Pos: b.ints("pos", pos, tokens),
		Read: b.tensor("read", device.I64, []float64{0}, 1),
	}
	b.attendTwice(a, [3]int{tokens, heads, d}, b.softTolerance(scale*maxNorm(q, d)*maxNorm(k, d), 2, maxAbs(v)))
}

// attendColumns takes queries out of a q‖k‖v matrix, and keys and values out
// of a wider cache.
func attendColumns(b *bench) {
	const tokens, kv, heads, d, capacity = 7, 2, 4, 64, 33
	qkv, kvs := b.normal(tokens*(heads+2*kv)*d, 1), b.rows(kv, capacity, 2*d, 0, 31)
	matrix := b.tensor("qkv", b.act(), qkv, tokens, (heads+2*kv)*d)
	cache := b.tensor("kv", b.act(), kvs, kv, capacity, 2*d)
	scale := 1 / math.Sqrt(d)
	a := device.AttendArgs{
		Q: matrix.Slice(1, 0, heads*d).Unflatten(1, heads, d),
		K: cache.Slice(2, 0, d), V: cache.Slice(2, d, 2*d), Scale: float32(scale),
		Pos:  b.ints("pos", []int{30, 0, 17, 16, 15, 1, 29}, tokens),
		Read: b.tensor("read", device.I64, []float64{0}, 1),
	}
	b.attendTwice(a, [3]int{tokens, heads, d}, b.softTolerance(scale*maxNorm(qkv, d)*maxNorm(kvs, d), 31, maxAbs(kvs)))
}

// merge mixes near and far log-sum-exps with empty parts on either side and on
// both.
func merge(b *bench, tokens, heads, d int) {
	n := tokens * heads
	out := [2][]float64{b.normal(n*d, 1), b.normal(n*d, 1)}
	lse := [2][]float64{b.normal(n, 3), b.normal(n, 3)}
	for i := range n {
		for side := range 2 {
			switch (i + side) % 7 {
			case 0:
				lse[side][i] = 1e4 * float64(1+side)
			case 1:
				lse[side][i] = -1e4
			}
			if n > 3 && (i%11 == 3+side || i%11 == 5) {
				lse[side][i] = math.Inf(-1)
				clear(out[side][i*d : (i+1)*d])
			}
		}
	}
	var part [2]device.Partial
	for side := range part {
		part[side].Out = b.tensor("part", device.F32, out[side], tokens, heads, d)
		part[side].LSE = b.tensor("lse", device.F32, lse[side], tokens, heads)
	}
	dst := b.blank("dst", b.act(), tokens, heads, d)
	wide := b.blank("wide", device.F32, tokens, heads, d)
	// The difference of two LSEs is rounded once; beyond 100 its exp is 0.
	e := 2 * f32Error(1+100) * max(maxAbs(out[0]), maxAbs(out[1]))
	b.want("dst", dst, tolerance{round: unit(b.act()), abs: e})
	b.want("wide", wide, tolerance{round: unit(device.F32), abs: e})
	b.run(func(o *device.Ops) {
		o.Merge(dst, part[0], part[1])
		o.Merge(wide, part[0], part[1])
	})
}
