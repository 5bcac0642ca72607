package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

// wholeShape is a layer of a model with grouped queries and one token at a position.
type wholeShape struct {
	hidden, inner, kv, group, d, pos, most int
	bias                                   bool
}

func wholeCases() []testCase {
	var cs []testCase
	for _, s := range []wholeShape{
		{hidden: 896, inner: 4864, kv: 2, group: 7, d: 64, pos: 543, most: 2048, bias: true},
		{hidden: 128, inner: 128, kv: 2, group: 7, d: 64, pos: 2047, most: 2048},
		{hidden: 128, inner: 64, kv: 1, group: 2, d: 64, pos: 0, most: 2048},
		{hidden: 256, inner: 320, kv: 2, group: 3, d: 64, pos: 70, most: 71, bias: true},
		{hidden: 384, inner: 640, kv: 3, group: 1, d: 64, pos: 1029, most: 2048, bias: true},
		{hidden: 256, inner: 328, kv: 2, group: 3, d: 64, pos: 31, most: 2048, bias: true},
		{hidden: 256, inner: 320, kv: 2, group: 8, d: 64, pos: 31, most: 2048},
		{hidden: 256, inner: 320, kv: 2, group: 3, d: 64, pos: 2500},
		{hidden: 192, inner: 128, kv: 1, group: 4, d: 32, pos: 40, most: 64},
	} {
		cs = append(cs, testCase{fmt.Sprintf("Layer/%d wide, %d inside, %d of %d heads of %d, row %d of at most %d", s.hidden, s.inner, s.kv, s.kv*s.group, s.d, s.pos, s.most),
			func(b *bench) { wholeLayer(b, s) }})
	}
	return cs
}

// wholeLayer is what a model issues in a layer of decoding, which a device may do in
// fewer steps. What a step makes of the results before it, as the device has stored them,
// is compared with the same in float64: the difference is small, not their errors added up.
func wholeLayer(b *bench, s wholeShape) {
	const eps = 1e-3
	heads := s.kv * s.group
	width, rows := (heads+2*s.kv)*s.d, s.pos+1
	x0, gamma := b.normal(s.hidden, 1), b.kept(device.BF16, b.normal(s.hidden, 0.3))
	matrix := func(out, in int) []float64 {
		return b.kept(device.BF16, b.normal(out*in, 1/math.Sqrt(float64(in))))
	}
	qkv, o, gate, up, down := matrix(width, s.hidden), matrix(s.hidden, heads*s.d), matrix(s.inner, s.hidden), matrix(s.inner, s.hidden), matrix(s.hidden, s.inner)
	bias := make([]float64, width)
	if s.bias {
		bias = b.kept(device.BF16, b.normal(width, 1))
	}
	keys, values := b.rows(s.kv, rows+5, s.d, 0, s.pos), b.rows(s.kv, rows+5, s.d, 0, s.pos)
	freq := make([]float64, s.d/2)
	for i := range freq {
		freq[i] = float64(float32(math.Pow(10000, -2*float64(i)/float64(s.d))))
	}

	blank := func(name string, n int) *device.Tensor { return b.blank(name, b.act(), 1, n) }
	x, h, row, attention, gateUp, inner := b.tensor("x", device.F32, x0, 1, s.hidden), blank("h", s.hidden), blank("row", width), blank("attention", heads*s.d), blank("gateUp", 2*s.inner), blank("inner", s.inner)
	cut := func(from, n int) *device.Tensor {
		return row.Slice(1, from*s.d, (from+n)*s.d).Unflatten(1, n, s.d)
	}
	weight := func(name string, out, in int, values []float64) *device.Tensor {
		return b.weight(name, device.BF16, values, out, in)
	}
	norm := device.Norm{Gamma: b.weight("gamma", device.BF16, gamma, s.hidden), Eps: eps}
	first := device.Weight{}
	at := 0
	for i, n := range []int{heads * s.d, s.kv * s.d, s.kv * s.d} {
		first.Parts = append(first.Parts, weight(fmt.Sprint("w", i), n, s.hidden, qkv[at*s.hidden:][:n*s.hidden]))
		if s.bias {
			first.Bias = append(first.Bias, b.weight(fmt.Sprint("bias", i), device.BF16, bias[at:][:n], n))
		}
		at += n
	}
	r := device.RotateAppendArgs{
		Q: cut(0, heads), K: cut(heads, s.kv), V: cut(heads+s.kv, s.kv), Pos: b.ints("pos", []int{s.pos}, 1),
		Keys: b.tensor("keys", b.act(), keys, s.kv, rows+5, s.d), Values: b.tensor("values", b.act(), values, s.kv, rows+5, s.d),
		RoPE: device.RoPE{InvFreq: b.tensor("invFreq", device.F32, freq, s.d/2), Scale: 1},
	}
	scale := 1 / math.Sqrt(float64(s.d))
	a := device.AttendArgs{
		Out: device.Partial{Out: attention.Unflatten(1, heads, s.d)}, Q: r.Q, K: r.Keys, V: r.Values, Pos: r.Pos, Scale: float32(scale), Read: b.tensor("read", device.I64, []float64{3}, 1), Most: s.most,
	}
	out, gateUpW, downW := device.Weight{Parts: []*device.Tensor{weight("o", s.hidden, heads*s.d, o)}},
		device.Weight{Parts: []*device.Tensor{weight("gate", s.inner, s.hidden, gate), weight("up", s.inner, s.hidden, up)}}, device.Weight{Parts: []*device.Tensor{weight("down", s.hidden, s.inner, down)}}

	act, word := unit(b.act()), unit(device.F32)
	product := func(x []float64, w []float64, in int) float64 { return maxNorm(x, len(x)) * maxNorm(w, in) }
	normed := func(x []float64) []float64 {
		root, h := math.Sqrt(dot(x, x)/float64(len(x))+eps), make([]float64, len(x))
		for i := range x {
			h[i] = x[i] / root * gamma[i]
		}
		return h
	}
	// Rows may be rounded before they are multiplied: a random walk.
	rounds := func(p float64, in int) float64 { return safety * act * p / math.Sqrt(float64(in)) }
	h0 := normed(x0)
	made := weighed(qkv, h0, bias)
	want := turned(made, freq, heads+s.kv, s.d, s.pos)
	p := product(h0, qkv, s.hidden) + maxAbs(bias)
	stray := f32Error(p) + rounds(p, s.hidden) + 2*act*maxAbs(made) // of numbers that are rounded, turned in pairs and rounded
	tol := tolerance{round: act, abs: 2 * stray}
	b.wantDerived(result{name: "row", tol: tol, derive: func(v [][]float64) []float64 { return minus(v[0], want) }}, row)
	b.want("keys", r.Keys, tol)
	b.want("values", r.Values, tol)
	b.want("read", a.Read, tolerance{})

	logit := scale * maxNorm(want, s.d) * max(maxNorm(want, s.d), maxNorm(keys, s.d))
	largest := max(maxAbs(values), maxAbs(made))
	soft := b.softTolerance(logit, rows, largest)
	b.wantDerived(result{name: "attention", tol: tolerance{abs: soft.value + act*largest}, derive: func(v [][]float64) []float64 {
		return minus(v[3], attended(v[0], v[1], v[2], s, scale))
	}}, row, r.Keys, r.Values, attention)

	after := func(attention []float64) []float64 { return weighed(o, attention, x0) }
	pUp := math.Sqrt(float64(s.hidden)) * maxAbs(gamma) * max(maxNorm(gate, s.hidden), maxNorm(up, s.hidden))
	b.wantDerived(result{name: "h", tol: tolerance{abs: (act + safety*safety*word) * math.Sqrt(float64(s.hidden)) * maxAbs(gamma)}, derive: func(v [][]float64) []float64 {
		return minus(v[1], normed(after(v[0])))
	}}, attention, h)
	// Rounding of a stored number is relative to it: a share of the largest that there can be.
	b.wantDerived(result{name: "gateUp", tol: tolerance{abs: f32Error(pUp) + 2*rounds(pUp, s.hidden)}, derive: func(v [][]float64) []float64 {
		h := normed(after(v[0]))
		return append(minus(v[1][:s.inner], weighed(gate, h, nil)), minus(v[1][s.inner:], weighed(up, h, nil))...)
	}}, attention, gateUp)
	// |silu(g)| ≤ |g| and its slope is below 1.1; g and u may have been rounded since.
	big := safety * pUp / math.Sqrt(float64(s.hidden))
	b.wantDerived(result{name: "inner", tol: tolerance{abs: 3.1 * act * big * big}, derive: func(v [][]float64) []float64 {
		y := make([]float64, s.inner)
		for i := range y {
			g := v[0][i]
			y[i] = g / (1 + math.Exp(-g)) * v[0][s.inner+i]
		}
		return minus(v[1], y)
	}}, gateUp, inner)
	pX := maxAbs(x0) + math.Sqrt(float64(heads*s.d))*largest*maxNorm(o, heads*s.d) + math.Sqrt(float64(s.inner))*big*big*maxNorm(down, s.inner)
	b.wantDerived(result{name: "x", tol: tolerance{abs: f32Error(pX)}, derive: func(v [][]float64) []float64 {
		return minus(v[2], weighed(down, v[1], after(v[0])))
	}}, attention, inner, x)
	b.run(func(ops *device.Ops) {
		ops.NormLinear(row, h, x, norm, first)
		ops.RotateAppend(r)
		ops.Attend(a)
		ops.LinearAdd(x, attention, out)
		ops.NormSwiGLU(inner, gateUp, h, x, norm, gateUpW)
		ops.LinearAdd(x, inner, downW)
	})
}

// minus is x − y.
func minus(x, y []float64) []float64 {
	d := make([]float64, len(y))
	for i := range y {
		d[i] = x[i] - y[i]
	}
	return d
}

// weighed is w·x + plus.
func weighed(w, x, plus []float64) []float64 {
	y := make([]float64, len(w)/len(x))
	for i := range y {
		y[i] = dot(w[i*len(x):][:len(x)], x)
		if plus != nil {
			y[i] += plus[i]
		}
	}
	return y
}

// turned rotates the first heads of a row by halves, angles being float32 products.
func turned(row, freq []float64, heads, d, pos int) []float64 {
	y := append([]float64{}, row...)
	for h := range heads {
		for i, f := range freq {
			angle := float64(float32(pos) * float32(f))
			c, s := math.Cos(angle), math.Sin(angle)
			u, w := row[h*d+i], row[h*d+d/2+i]
			y[h*d+i], y[h*d+d/2+i] = u*c-w*s, w*c+u*s
		}
	}
	return y
}

// attended is attention of the queries at the beginning of a row over rows up to pos.
func attended(row, keys, values []float64, s wholeShape, scale float64) []float64 {
	capacity := len(keys) / (s.kv * s.d)
	var y []float64
	for h := range s.kv * s.group {
		at := h / s.group * capacity * s.d
		weights, top, sum, out := make([]float64, s.pos+1), math.Inf(-1), 0.0, make([]float64, s.d)
		for j := range weights {
			weights[j] = scale * dot(row[h*s.d:][:s.d], keys[at+j*s.d:][:s.d])
			top = max(top, weights[j])
		}
		for j := range weights {
			w := math.Exp(weights[j] - top)
			sum += w
			for i := range out {
				out[i] += w * values[at+j*s.d+i]
			}
		}
		for i := range out {
			y = append(y, out[i]/sum)
		}
	}
	return y
}
