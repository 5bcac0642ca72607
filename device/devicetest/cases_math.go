package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

func mathCases() []testCase {
	var cs []testCase
	add := func(run func(b *bench), format string, args ...any) {
		cs = append(cs, testCase{fmt.Sprintf(format, args...), run})
	}
	for _, s := range []struct{ tokens, hidden int }{{1, 64}, {7, 17}, {65, 111}} {
		for _, table := range []device.DType{device.F32, device.BF16} {
			add(func(b *bench) { embed(b, table, s.tokens, s.hidden) }, "Embed/%v/%dx%d", table, s.tokens, s.hidden)
		}
	}
	for _, s := range []struct{ tokens, n int }{{1, 1}, {1, 896}, {2, 17}, {7, 64}, {65, 111}, {3, 3584}} {
		add(func(b *bench) { rmsNorm(b, s.tokens, s.n, 1) }, "RMSNorm/%dx%d", s.tokens, s.n)
	}
	add(func(b *bench) { rmsNorm(b, 2, 63, 1e-4) }, "RMSNorm/small")
	add(rmsNormInPlace, "RMSNorm/in place")
	for _, s := range []struct{ tokens, n int }{{1, 1}, {1, 4864}, {7, 63}, {65, 111}} {
		add(func(b *bench) { swiGLUCase(b, s.tokens, s.n) }, "SwiGLU/%dx%d", s.tokens, s.n)
	}
	for _, s := range []struct{ tokens, heads, kv, d int }{{1, 1, 1, 8}, {7, 2, 1, 64}, {65, 14, 2, 128}, {2, 3, 1, 2}} {
		for p, name := range []string{"half", "interleaved"} {
			add(func(b *bench) { rotate(b, device.Pairing(p), s.tokens, s.heads, s.kv, s.d) }, "Rotate/%s/%dx%dx%d", name, s.tokens, s.heads, s.d)
		}
	}
	for _, shape := range [][]int{{1}, {65}, {7, 17}, {2, 3, 64}, {2, 3, 2, 5}} {
		add(func(b *bench) { copyTypes(b, shape) }, "Copy/%v", shape)
	}
	add(copyImported, "Copy/imported")
	add(copyRepeat, "Copy/repeat")
	add(copyF8, "Copy/F8")
	add(copyRounds, "Copy/rounds to even")
	for _, n := range []int{1, 65} {
		add(func(b *bench) {
			v := b.ints("t", b.integers(n, 1<<30), n)
			b.want("t", v, tolerance{})
			b.run(func(o *device.Ops) { o.Increment(v); o.Increment(v) })
		}, "Increment/%d", n)
	}
	return cs
}

// integers draws n integers below limit.
func (b *bench) integers(n, limit int) []int {
	v := make([]int, n)
	for i := range v {
		v[i] = b.rng.IntN(limit)
	}
	return v
}

func embed(b *bench, checkpoint device.DType, tokens, hidden int) {
	const vocab = 37
	table := b.weight("table", checkpoint, b.normal(vocab*hidden, 1), vocab, hidden)
	list := b.integers(tokens, vocab)
	list[0] = vocab - 1
	list[tokens-1] = list[tokens/2]
	ids := b.ints("ids", list, tokens)
	wide := b.blank("wide", device.F32, tokens, hidden)
	dst := b.blank("dst", b.act(), tokens, hidden)
	b.want("wide", wide, tolerance{})
	b.want("dst", dst, tolerance{round: unit(b.act())})
	b.run(func(o *device.Ops) {
		o.Embed(wide, table, ids)
		o.Embed(dst, table, ids)
	})
}

func rmsNorm(b *bench, tokens, n int, scale float64) {
	values := b.normal(tokens*n, scale)
	if tokens > 1 {
		clear(values[:n]) // eps alone keeps this row finite
	}
	gamma := b.weight("gamma", device.BF16, b.normal(n, 1), n)
	residual := b.tensor("residual", device.F32, values, tokens, n)
	x := b.tensor("x", b.act(), values, tokens, n)
	dst, dst2 := b.blank("dst", b.act(), tokens, n), b.blank("dst2", device.F32, tokens, n)
	b.want("dst", dst, normTolerance(b.act()))
	b.want("dst2", dst2, normTolerance(device.F32))
	b.run(func(o *device.Ops) {
		o.RMSNorm(dst, residual, gamma, 1e-6)
		o.RMSNorm(dst2, x, gamma, 1e-6)
	})
}

// normTolerance: the sum of squares has positive terms, so its relative error
// is a few u at any length; then a root and two products.
func normTolerance(t device.DType) tolerance {
	return tolerance{round: unit(t), ofMax: f32Error(1)}
}

func rmsNormInPlace(b *bench) {
	x := b.tensor("x", b.act(), b.normal(7*65, 3), 7, 65)
	gamma := b.tensor("gamma", device.F32, b.normal(65, 1), 65)
	b.want("x", x, normTolerance(b.act()))
	b.run(func(o *device.Ops) { o.RMSNorm(x, x, gamma, 1e-3) })
}

func swiGLUCase(b *bench, tokens, n int) {
	values := b.normal(tokens*2*n, 3)
	if n > 5 { // exp overflows or vanishes
		copy(values, []float64{100, -100, 1000, -1000, 0})
	}
	gateUp := b.tensor("gateUp", b.act(), values, tokens, 2*n)
	dst := b.blank("dst", b.act(), tokens, n)
	// exp(−g) has a relative error of u·|g|; below the smallest normal number
	// a device may give 0.
	e := f32Error(1 + 100)
	b.want("dst", dst, tolerance{round: unit(b.act()) + e, abs: 0x1p-126 * maxAbs(values)})
	b.run(func(o *device.Ops) { o.SwiGLU(dst, gateUp) })
}

// rotate turns the query and key columns of one matrix and leaves the values.
func rotate(b *bench, p device.Pairing, tokens, heads, kv, d int) {
	values := b.normal(tokens*(heads+2*kv)*d, 1)
	qkv := b.tensor("qkv", b.act(), values, tokens, (heads+2*kv)*d)
	q := qkv.Slice(1, 0, heads*d).Unflatten(1, heads, d)
	k := qkv.Slice(1, heads*d, (heads+kv)*d).Unflatten(1, kv, d)
	at := b.integers(tokens, 1<<17)
	at[0] = 1<<17 - 1
	pos := b.ints("pos", at, tokens)
	freq := make([]float64, d/2)
	for i := range freq {
		freq[i] = math.Pow(10000, -2*float64(i)/float64(d))
	}
	r := device.RoPE{InvFreq: b.tensor("invFreq", device.F32, freq, d/2), Scale: 1.25, Pairing: p}
	b.want("qkv", qkv, stored(b.act(), float64(r.Scale)*maxAbs(values)))
	b.run(func(o *device.Ops) {
		o.Rotate(q, pos, r)
		o.Rotate(k, pos, r)
	})
}

func copyTypes(b *bench, shape []int) {
	n := device.NewTensor("", device.F32, nil, shape...).Len()
	values := b.normal(n, 1)
	for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)} {
		if i < n/2 {
			values[i] = v
		}
	}
	var pairs [][2]*device.Tensor
	for _, to := range []device.DType{device.F32, b.act()} {
		for _, from := range []device.DType{device.F32, b.act()} {
			dst := b.exactly("dst", to, make([]float64, n), shape...)
			b.want(fmt.Sprintf("%v from %v", to, from), dst, tolerance{})
			pairs = append(pairs, [2]*device.Tensor{dst, b.exactly("src", from, values, shape...)})
		}
	}
	for _, t := range []device.DType{device.I32, device.U32, device.I64} {
		dst := b.blank("dst", t, shape...)
		b.want(t.String(), dst, tolerance{})
		pairs = append(pairs, [2]*device.Tensor{dst, b.tensor("src", t, floats(b.integers(n, 1<<31)), shape...)})
	}
	b.run(func(o *device.Ops) {
		for _, p := range pairs {
			o.Copy(p[0], p[1])
		}
	})
}

func copyImported(b *bench) {
	src := b.weight("w", device.BF16, b.normal(7*17, 1), 7, 17)
	dst := b.blank("dst", device.F32, 17)
	b.want("dst", dst, tolerance{})
	b.run(func(o *device.Ops) { o.Copy(dst, src.Index(0, 3)) })
}

func copyRepeat(b *bench) {
	src := b.tensor("src", b.act(), b.normal(3*64, 1), 3, 64)
	dst := b.blank("dst", b.act(), 3, 7, 64)
	b.want("dst", dst, tolerance{})
	b.run(func(o *device.Ops) { o.Copy(dst, src.Repeat(1, 7)) })
}

func copyF8(b *bench) {
	src, _ := b.representatives(true, b.normal(3*7*17, 1), 3, 7, 17)
	dst := b.exactly("dst", device.F8, make([]float64, 3*7*17), 3, 7, 17)
	out := *dst
	out.Scale = src.Scale
	b.want("dst", dst, tolerance{})
	b.run(func(o *device.Ops) { o.Copy(&out, src) })
}

// copyRounds narrows numbers halfway between two of the device's.
func copyRounds(b *bench) {
	var values []float64
	half := max(unit(b.act()), 0x1p-11)
	for i := range 64 {
		values = append(values, 1+float64(i)*half, -3-2*float64(i)*half, 1+float64(2*i+1)*half+0x1p-20)
	}
	src := b.exactly("src", device.F32, values, 3, 64)
	dst := b.exactly("dst", b.act(), make([]float64, 3*64), 3, 64)
	b.want("dst", dst, tolerance{})
	b.run(func(o *device.Ops) { o.Copy(dst, src) })
}
