package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

func fusedCases() []testCase {
	var cs []testCase
	for _, s := range []linearShape{
		{1, 1, []int{1}, true},
		{1, 17, []int{2}, false},
		{1, 896, []int{24, 8}, true},
		{1, 1032, []int{17, 1, 111}, true},
		{1, 2056, []int{8}, false},
		{1, 2064, []int{9, 40}, true},
		{2, 64, []int{63}, false},
		{65, 112, []int{64, 8}, true},
	} {
		cs = append(cs, testCase{fmt.Sprintf("NormLinear/%dx%d to %v", s.tokens, s.in, s.out), func(b *bench) { normLinear(b, s, false) }},
			testCase{fmt.Sprintf("NormLinear/int8/%dx%d to %v", s.tokens, s.in, s.out), func(b *bench) { normLinear(b, s, true) }})
	}
	for _, s := range []linearShape{{1, 17, []int{3}, false}, {1, 1032, []int{304}, true}, {1, 1040, []int{300}, true}, {1, 896, []int{1301}, true}, {1, 64, []int{8}, false}, {7, 65, []int{17}, true}, {65, 112, []int{64}, false}} {
		cs = append(cs, testCase{fmt.Sprintf("NormSwiGLU/%dx%d to %v", s.tokens, s.in, s.out), func(b *bench) { normSwiGLU(b, s, false) }},
			testCase{fmt.Sprintf("NormSwiGLU/int8/%dx%d to %v", s.tokens, s.in, s.out), func(b *bench) { normSwiGLU(b, s, true) }})
	}
	for _, s := range []placeShape{
		{tokens: 1, heads: 14, kv: 2, d: 64, dk: 64, dv: 64, mapped: 9},
		{tokens: 1, heads: 2, kv: 1, d: 8, dk: 8, dv: 8},
		{tokens: 1, heads: 16, kv: 1, d: 64, dk: 576, norm: true, turned: true, pairing: device.Interleaved, mapped: 17},
		{tokens: 7, heads: 3, kv: 1, d: 4, dk: 12, norm: true, turned: true, pairing: device.Interleaved},
		{tokens: 17, heads: 4, kv: 4, d: 16, dk: 40, dv: 17, norm: true, mapped: 30},
		{tokens: 2, heads: 6, kv: 2, d: 10, dk: 23, dv: 5, turned: true},
		{tokens: 1, heads: 16, kv: 1, d: 64, dk: 576, norm: true, turned: true, pairing: device.Interleaved, beside: 512},
		{tokens: 3, heads: 5, kv: 1, d: 16, dk: 80, norm: true, turned: true, pairing: device.Interleaved, beside: 72},
		{tokens: 3, heads: 5, kv: 1, d: 16, dk: 80, norm: true, beside: 33},
		{tokens: 17, heads: 4, kv: 2, d: 8, dk: 40, norm: true, beside: 16},
	} {
		cs = append(cs, testCase{fmt.Sprintf("RotateAppend/%d tokens, %d of %d heads, %d of %d, %d mapped, %d beside", s.tokens, s.heads, s.kv, s.d, s.dk, s.mapped, s.beside),
			func(b *bench) { rotateAppend(b, s) }})
	}
	for _, s := range []attendShape{
		{tokens: 1, kv: 1, group: 16, dk: 576, dv: 512, prefix: true, capacity: 111, last: 97, then: 128},
		{tokens: 3, kv: 1, group: 5, dk: 576, dv: 512, prefix: true, capacity: 1300, last: 1290, from: 3, then: 17},
		{tokens: 1, kv: 1, group: 6, dk: 160, dv: 128, prefix: true, capacity: 65, last: 63, then: 63},
		{tokens: 2, kv: 2, group: 3, dk: 64, dv: 64, capacity: 111, last: 64, then: 1},
		{tokens: 17, kv: 1, group: 2, dk: 24, dv: 16, prefix: true, capacity: 90, last: 80, then: 8},
	} {
		cs = append(cs, testCase{fmt.Sprintf("Attend/%d tokens, %d of %d heads, %d and %d wide, %d to %d, then %d", s.tokens, s.kv*s.group, s.kv, s.dk, s.dv, s.from, s.last, s.then),
			func(b *bench) { attend(b, s) }})
	}
	for _, s := range []newRowShape{{2, 7, 64, 80, 0}, {2, 7, 64, 80, 63}, {2, 3, 64, 5000, 4998}, {1, 8, 64, 2100, 2047}, {1, 7, 128, 1300, 1029}, {4, 1, 128, 90, 64}, {3, 2, 16, 70, 65}} {
		cs = append(cs, testCase{fmt.Sprintf("RotateAppend/then Attend, %d of %d heads, %d wide, row %d", s.kv, s.kv*s.group, s.d, s.pos), func(b *bench) { rotateAttend(b, s) }})
	}
	return cs
}

// normedShape is the data of a product with normalised rows.
type normedShape struct {
	x, h *device.Tensor
	norm device.Norm
	w    device.Weight
	outs int
	big  float64   // largest result
	tol  tolerance // of a float32 result
}

// normed makes rows, a norm and a weight of `copies` times the outputs. Rows are
// rounded before they are multiplied: the products' errors add up as a random
// walk.
func (b *bench) normed(s linearShape, copies int, int8 bool) normedShape {
	const eps = 1e-3
	values, gamma := b.normal(s.tokens*s.in, 0.1), b.kept(device.BF16, b.normal(s.in, 1))
	n := normedShape{x: b.tensor("x", device.F32, values, s.tokens, s.in), h: b.blank("h", b.act(), s.tokens, s.in)}
	n.norm = device.Norm{Gamma: b.weight("gamma", device.BF16, gamma, s.in), Eps: eps}
	h := make([]float64, len(values))
	for t := range s.tokens {
		row := values[t*s.in:][:s.in]
		root := math.Sqrt(dot(row, row)/float64(s.in) + eps)
		for i := range row {
			h[t*s.in+i] = row[i] / root * gamma[i]
		}
	}
	wNorm, bias := 0.0, 0.0
	for range copies {
		for i, out := range s.out {
			w := b.normal(out*s.in, 1/math.Sqrt(float64(s.in)))
			wNorm = max(wNorm, maxNorm(w, s.in))
			n.w.Parts = append(n.w.Parts, b.matrix(int8, fmt.Sprint("w", i), device.BF16, w, out, s.in))
			if s.bias {
				v := b.normal(out, 1)
				bias = max(bias, maxAbs(v))
				n.w.Bias = append(n.w.Bias, b.weight(fmt.Sprint("bias", i), device.BF16, v, out))
			}
			n.outs += out
			for t := range s.tokens {
				for o := range out {
					n.big = max(n.big, math.Abs(dot(h[t*s.in:][:s.in], w[o*s.in:][:s.in])))
				}
			}
		}
	}
	n.big += bias
	product := maxNorm(h, s.in) * wNorm
	n.tol = tolerance{round: unit(device.F32), abs: f32Error(product+bias) + safety*unit(b.act())*product/math.Sqrt(float64(s.in))}
	if int8 { // weights may be rounded as well
		n.tol.abs += safety * unit(b.act()) * product / math.Sqrt(float64(s.in))
	}
	return n
}

func normLinear(b *bench, s linearShape, int8 bool) {
	n := b.normed(s, 1, int8)
	dst, wide, h := b.blank("dst", b.act(), s.tokens, n.outs), b.blank("wide", device.F32, s.tokens, n.outs), b.blank("h2", b.act(), s.tokens, s.in)
	b.want("h", n.h, normTolerance(b.act()))
	b.want("h2", h, normTolerance(b.act()))
	b.want("wide", wide, n.tol)
	b.want("dst", dst, tolerance{round: unit(b.act()), abs: n.tol.abs})
	b.run(func(o *device.Ops) {
		o.NormLinear(dst, n.h, n.x, n.norm, n.w)
		o.NormLinear(wide, h, n.x, n.norm, n.w)
	})
}

func normSwiGLU(b *bench, s linearShape, int8 bool) {
	n := b.normed(s, 2, int8)
	dst, gateUp := b.blank("dst", b.act(), s.tokens, n.outs/2), b.blank("gateUp", b.act(), s.tokens, n.outs)
	b.want("h", n.h, normTolerance(b.act()))
	b.want("gateUp", gateUp, tolerance{round: unit(b.act()), abs: n.tol.abs})
	// |silu(g)| ≤ |g| and its slope is below 1.1; g and u may have been rounded.
	e := n.tol.abs + unit(b.act())*n.big
	b.want("dst", dst, tolerance{round: unit(b.act()), abs: 2.1*n.big*e + f32Error(n.big*n.big)})
	b.run(func(o *device.Ops) { o.NormSwiGLU(dst, gateUp, n.h, n.x, n.norm, n.w) })
}

type placeShape struct {
	tokens, heads, kv, d, dk, dv, mapped int
	norm, turned                         bool
	pairing                              device.Pairing
	beside                               int // outputs of a product beside; 0 for none
}

// rotateAppend takes queries, keys and values out of one matrix, as models do.
func rotateAppend(b *bench, s placeShape) {
	const capacity, in = 65, 24 // in: of the product beside
	values := b.normal(s.tokens*(s.heads*s.d+s.kv*(s.dk+s.dv)), 1)
	all := b.tensor("rows", b.act(), values, s.tokens, s.heads*s.d+s.kv*(s.dk+s.dv))
	cut := func(from, heads, d int) *device.Tensor {
		return all.Slice(1, from, from+heads*d).Unflatten(1, heads, d)
	}
	freq := make([]float64, s.d/2)
	for i := range freq {
		freq[i] = math.Pow(10000, -2*float64(i)/float64(s.d))
	}
	rows := func(name string, d int) *device.Tensor {
		return b.tensor(name, b.act(), b.withNaNs(b.normal(s.kv*capacity*d, 1)), s.kv, capacity, d)
	}
	a := device.RotateAppendArgs{
		Q: cut(0, s.heads, s.d), K: cut(s.heads*s.d, s.kv, s.dk), Keys: rows("keys", s.dk), Pos: b.ints("pos", b.rng.Perm(capacity)[:s.tokens], s.tokens),
		RoPE: device.RoPE{InvFreq: b.tensor("invFreq", device.F32, freq, s.d/2), Scale: 1.25, Pairing: s.pairing},
	}
	tol := stored(b.act(), 1.25*maxAbs(values))
	if s.norm {
		a.Norm = device.Norm{Gamma: b.weight("gamma", device.BF16, b.normal(s.dk-s.d, 1), s.dk-s.d), Eps: 1e-2}
		tol.ofMax = normTolerance(b.act()).ofMax
	}
	if s.dv > 0 {
		a.V, a.Values = cut(s.heads*s.d+s.kv*s.dk, s.kv, s.dv), rows("values", s.dv)
		b.want("values", a.Values, tolerance{})
	}
	if s.turned {
		a.Turned = b.blank("turned", b.act(), s.tokens, s.heads, s.d)
		b.want("turned", a.Turned, tol)
	}
	if s.mapped > 0 {
		a.Slots = b.ints("slots", b.permutations(s.kv, s.mapped, 0), s.kv, s.mapped)
	}
	if s.beside > 0 {
		x, w := b.normal(s.tokens*s.heads*in, 1), b.normal(s.heads*in*s.beside, 1/math.Sqrt(in))
		a.Beside = &device.HeadProduct{
			Dst: b.blank("dst", b.act(), s.tokens, s.heads, s.beside), X: b.tensor("x", b.act(), x, s.tokens, s.heads, in),
			W: b.weight("w", device.BF16, w, s.heads, in, s.beside), Transpose: s.beside%2 == 0,
		}
		if !a.Beside.Transpose {
			a.Beside.W = b.weight("wt", device.BF16, w, s.heads, s.beside, in)
		}
		b.want("dst", a.Beside.Dst, stored(b.act(), maxNorm(x, in)*2))
	}
	b.want("rows", all, tol)
	b.want("keys", a.Keys, tol)
	b.run(func(o *device.Ops) { o.RotateAppend(a) })
}

type newRowShape struct{ kv, group, d, capacity, pos int }

// rotateAttend is what decoding does in a layer: a new row, then attention up to it. A
// device may do both at once; results are those of both.
func rotateAttend(b *bench, s newRowShape) {
	heads := s.kv * s.group
	values := b.normal((heads+2*s.kv)*s.d, 1)
	all := b.tensor("rows", b.act(), values, 1, (heads+2*s.kv)*s.d)
	cut := func(from, n int) *device.Tensor {
		return all.Slice(1, from*s.d, (from+n)*s.d).Unflatten(1, n, s.d)
	}
	freq := make([]float64, s.d/2)
	for i := range freq {
		freq[i] = math.Pow(10000, -2*float64(i)/float64(s.d))
	}
	k, v := b.rows(s.kv, s.capacity, s.d, 0, s.pos), b.rows(s.kv, s.capacity, s.d, 0, s.pos)
	r := device.RotateAppendArgs{
		Q: cut(0, heads), K: cut(heads, s.kv), V: cut(heads+s.kv, s.kv), Pos: b.ints("pos", []int{s.pos}, 1),
		Keys: b.tensor("keys", b.act(), k, s.kv, s.capacity, s.d), Values: b.tensor("values", b.act(), v, s.kv, s.capacity, s.d),
		RoPE: device.RoPE{InvFreq: b.tensor("invFreq", device.F32, freq, s.d/2), Scale: 1},
	}
	scale := 1 / math.Sqrt(float64(s.d))
	a := device.AttendArgs{
		Out: device.Partial{Out: b.blank("out", device.F32, 1, heads, s.d), LSE: b.blank("lse", device.F32, 1, heads)},
		Q:   r.Q, K: r.Keys, V: r.Values, Pos: r.Pos, Scale: float32(scale), Read: b.tensor("read", device.I64, []float64{3}, 1),
	}
	tol := stored(b.act(), maxAbs(values))
	b.want("rows", all, tol)
	b.want("keys", r.Keys, tol)
	b.want("values", r.Values, tolerance{})
	// Queries and the new key are stored between the two.
	logit := scale * maxNorm(values, s.d) * max(maxNorm(k, s.d), maxNorm(values, s.d))
	e := b.softTolerance(logit, s.pos+1, max(maxAbs(v), maxAbs(values)))
	moved := safety * unit(b.act()) * logit
	e.lse.abs += moved
	e.value += 2 * moved * max(maxAbs(v), maxAbs(values))
	b.want("out", a.Out.Out, e.out(device.F32))
	b.want("lse", a.Out.LSE, e.lse)
	b.want("read", a.Read, tolerance{})
	b.run(func(o *device.Ops) {
		o.RotateAppend(r)
		o.Attend(a)
	})
}
