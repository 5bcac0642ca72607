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

// whole is a layer: its values, its tensors, and what bounds its numbers.
type whole struct {
	*bench
	s            wholeShape
	heads, width int // query heads; numbers of q ‖ k ‖ v

	x0, gamma, bias          []float64
	qkv, o, gate, up, down   []float64 // matrices, [out, in]
	keysWere, valuesWere     []float64 // the cache before
	freq                     []float64
	x, h, row, attention     *device.Tensor
	gateUp, inner            *device.Tensor
	norm                     device.Norm
	first, out, gates, final device.Weight // q ‖ k ‖ v, o, gate ‖ up, down
	rotate                   device.RotateAppendArgs
	attend                   device.AttendArgs
}

// wholeEps is that of the layer's norms.
const wholeEps = 1e-3

// wholeLayer is what a model issues in a layer of decoding, which a device may do in
// fewer steps. What a step makes of the results before it, as the device has stored them,
// is compared with the same in float64: the difference is small, not their errors added up.
func wholeLayer(b *bench, s wholeShape) {
	l := &whole{bench: b, s: s, heads: s.kv * s.group, width: (s.kv*s.group + 2*s.kv) * s.d}
	l.draw()
	l.place()
	l.wantMLP(l.wantAttention())
	b.run(func(ops *device.Ops) {
		ops.NormLinear(l.row, l.h, l.x, l.norm, l.first)
		ops.RotateAppend(l.rotate)
		ops.Attend(l.attend)
		ops.LinearAdd(l.x, l.attention, l.out)
		ops.NormSwiGLU(l.inner, l.gateUp, l.h, l.x, l.norm, l.gates)
		ops.LinearAdd(l.x, l.inner, l.final)
	})
}

// draw makes the values.
func (l *whole) draw() {
	s := l.s
	l.x0, l.gamma = l.normal(s.hidden, 1), l.kept(device.BF16, l.normal(s.hidden, 0.3))
	matrix := func(out, in int) []float64 {
		return l.kept(device.BF16, l.normal(out*in, 1/math.Sqrt(float64(in))))
	}
	l.qkv, l.o = matrix(l.width, s.hidden), matrix(s.hidden, l.heads*s.d)
	l.gate, l.up, l.down = matrix(s.inner, s.hidden), matrix(s.inner, s.hidden), matrix(s.hidden, s.inner)
	l.bias = make([]float64, l.width)
	if s.bias {
		l.bias = l.kept(device.BF16, l.normal(l.width, 1))
	}
	l.keysWere, l.valuesWere = l.rows(s.kv, s.pos+6, s.d, 0, s.pos), l.rows(s.kv, s.pos+6, s.d, 0, s.pos)
	l.freq = make([]float64, s.d/2)
	for i := range l.freq {
		l.freq[i] = float64(float32(math.Pow(10000, -2*float64(i)/float64(s.d))))
	}
}

// place makes tensors and arguments.
func (l *whole) place() {
	s := l.s
	blank := func(name string, n int) *device.Tensor { return l.blank(name, l.act(), 1, n) }
	l.x, l.h, l.row = l.tensor("x", device.F32, l.x0, 1, s.hidden), blank("h", s.hidden), blank("row", l.width)
	l.attention, l.gateUp, l.inner = blank("attention", l.heads*s.d), blank("gateUp", 2*s.inner), blank("inner", s.inner)
	weight := func(name string, out, in int, values []float64) *device.Tensor {
		return l.weight(name, device.BF16, values, out, in)
	}
	l.norm = device.Norm{Gamma: l.weight("gamma", device.BF16, l.gamma, s.hidden), Eps: wholeEps}
	at := 0
	for i, n := range []int{l.heads * s.d, s.kv * s.d, s.kv * s.d} {
		l.first.Parts = append(l.first.Parts, weight(fmt.Sprint("w", i), n, s.hidden, l.qkv[at*s.hidden:][:n*s.hidden]))
		if s.bias {
			l.first.Bias = append(l.first.Bias, l.weight(fmt.Sprint("bias", i), device.BF16, l.bias[at:][:n], n))
		}
		at += n
	}
	l.out.Parts = []*device.Tensor{weight("o", s.hidden, l.heads*s.d, l.o)}
	l.gates.Parts = []*device.Tensor{weight("gate", s.inner, s.hidden, l.gate), weight("up", s.inner, s.hidden, l.up)}
	l.final.Parts = []*device.Tensor{weight("down", s.hidden, s.inner, l.down)}

	cut := func(from, n int) *device.Tensor {
		return l.row.Slice(1, from*s.d, (from+n)*s.d).Unflatten(1, n, s.d)
	}
	l.rotate = device.RotateAppendArgs{
		Q: cut(0, l.heads), K: cut(l.heads, s.kv), V: cut(l.heads+s.kv, s.kv), Pos: l.ints("pos", []int{s.pos}, 1),
		Keys: l.tensor("keys", l.act(), l.keysWere, s.kv, s.pos+6, s.d), Values: l.tensor("values", l.act(), l.valuesWere, s.kv, s.pos+6, s.d),
		RoPE: device.RoPE{InvFreq: l.tensor("invFreq", device.F32, l.freq, s.d/2), Scale: 1},
	}
	l.attend = device.AttendArgs{
		Out: device.Partial{Out: l.attention.Unflatten(1, l.heads, s.d)}, Q: l.rotate.Q, K: l.rotate.Keys, V: l.rotate.Values, Pos: l.rotate.Pos,
		Scale: float32(l.scale()), Read: l.tensor("read", device.I64, []float64{3}, 1), Most: s.most,
	}
}

// scale is that of the logits.
func (l *whole) scale() float64 { return 1 / math.Sqrt(float64(l.s.d)) }

// normed is the norm of x.
func (l *whole) normed(x []float64) []float64 {
	root, h := math.Sqrt(dot(x, x)/float64(len(x))+wholeEps), make([]float64, len(x))
	for i := range x {
		h[i] = x[i] / root * l.gamma[i]
	}
	return h
}

// afterAttention is x there.
func (l *whole) afterAttention(attention []float64) []float64 { return weighed(l.o, attention, l.x0) }

// rounds is a bound for what becomes of rounding the factors of products of so many numbers
// whose norms multiply to p: a random walk.
func (l *whole) rounds(p float64, in int) float64 {
	return safety * unit(l.act()) * p / math.Sqrt(float64(in))
}

// wantAttention compares what attends, and returns the largest number attended to.
func (l *whole) wantAttention() (largest float64) {
	s, r, act := l.s, l.rotate, unit(l.act())
	h := l.normed(l.x0)
	made := weighed(l.qkv, h, l.bias)
	want := turned(made, l.freq, l.heads+s.kv, s.d, s.pos)
	p := maxNorm(h, len(h))*maxNorm(l.qkv, s.hidden) + maxAbs(l.bias)
	stray := f32Error(p) + l.rounds(p, s.hidden) + 2*act*maxAbs(made) // of numbers that are rounded, turned in pairs and rounded
	tol := tolerance{round: act, abs: 2 * stray}
	l.wantDerived(result{name: "row", tol: tol, derive: func(v [][]float64) []float64 { return minus(v[0], want) }}, l.row)
	l.want("keys", r.Keys, tol)
	l.want("values", r.Values, tol)
	l.want("read", l.attend.Read, tolerance{})

	logit := l.scale() * maxNorm(want, s.d) * max(maxNorm(want, s.d), maxNorm(l.keysWere, s.d))
	largest = max(maxAbs(l.valuesWere), maxAbs(made))
	soft := l.softTolerance(logit, s.pos+1, largest)
	l.wantDerived(result{name: "attention", tol: tolerance{abs: soft.value + act*largest}, derive: func(v [][]float64) []float64 {
		return minus(v[3], attended(v[0], v[1], v[2], s, l.scale()))
	}}, l.row, r.Keys, r.Values, l.attention)
	return largest
}

// wantMLP compares what comes after attention to numbers up to largest.
func (l *whole) wantMLP(largest float64) {
	s, act, root := l.s, unit(l.act()), math.Sqrt(float64(l.s.hidden))
	p := root * maxAbs(l.gamma) * max(maxNorm(l.gate, s.hidden), maxNorm(l.up, s.hidden))
	l.wantDerived(result{name: "h", tol: tolerance{abs: (act + safety*safety*unit(device.F32)) * root * maxAbs(l.gamma)}, derive: func(v [][]float64) []float64 {
		return minus(v[1], l.normed(l.afterAttention(v[0])))
	}}, l.attention, l.h)
	// Rounding of a stored number is relative to it: a share of the largest that there can be.
	l.wantDerived(result{name: "gateUp", tol: tolerance{abs: f32Error(p) + 2*l.rounds(p, s.hidden)}, derive: func(v [][]float64) []float64 {
		h := l.normed(l.afterAttention(v[0]))
		return append(minus(v[1][:s.inner], weighed(l.gate, h, nil)), minus(v[1][s.inner:], weighed(l.up, h, nil))...)
	}}, l.attention, l.gateUp)
	// |silu(g)| ≤ |g| and its slope is below 1.1; g and u may have been rounded since.
	big := safety * p / root
	l.wantDerived(result{name: "inner", tol: tolerance{abs: 3.1 * act * big * big}, derive: func(v [][]float64) []float64 {
		y := make([]float64, s.inner)
		for i := range y {
			g := v[0][i]
			y[i] = g / (1 + math.Exp(-g)) * v[0][s.inner+i]
		}
		return minus(v[1], y)
	}}, l.gateUp, l.inner)
	columns := l.heads * s.d
	sum := maxAbs(l.x0) + math.Sqrt(float64(columns))*largest*maxNorm(l.o, columns) + math.Sqrt(float64(s.inner))*big*big*maxNorm(l.down, s.inner)
	l.wantDerived(result{name: "x", tol: tolerance{abs: f32Error(sum)}, derive: func(v [][]float64) []float64 {
		return minus(v[2], weighed(l.down, v[1], l.afterAttention(v[0])))
	}}, l.attention, l.inner, l.x)
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
