package cuda

import (
	"fmt"
	"testing"

	"blitzen/device"
)

// BenchmarkHeadLinear makes V2-Lite's keys of latents, and absorbs its queries.
func BenchmarkHeadLinear(b *testing.B) {
	const heads, nope, rank = 16, 128, 512
	d := requireGPU(b, Options{DType: device.BF16})
	m := &made{b: b, d: d}
	w := m.act(heads, nope, rank)
	for _, rows := range []int{4, 8192} {
		sc := scale{flops: 2 * float64(rows) * heads * nope * rank}
		latent, keys := m.act(rows, rank).Repeat(1, heads), m.act(heads, rows, nope).Transpose(0, 1)
		b.Run(fmt.Sprint("expand ", rows), func(b *testing.B) {
			measure(b, d, 1, sc, func(o *device.Ops) { o.HeadLinear(keys, latent, w, false) })
		})
		q, absorbed := m.act(rows, heads, nope), m.act(rows, heads, rank)
		b.Run(fmt.Sprint("absorb ", rows), func(b *testing.B) {
			measure(b, d, 1, sc, func(o *device.Ops) { o.HeadLinear(absorbed, q, w, true) })
		})
	}
}

// BenchmarkRows are the operations between products in a prefill of
// Qwen2.5-7B, and the copy of rotary parts to the keys of V2-Lite's heads.
func BenchmarkRows(b *testing.B) {
	const rows, hidden, width, heads, keyHeads, d = 8192, 3584, 18944, 28, 4, 128
	g := requireGPU(b, Options{DType: device.BF16})
	m := &made{b: b, d: g}
	stream, normed, gamma := m.tensor(device.F32, rows, hidden), m.act(rows, hidden), m.act(hidden)
	gateUp, inner := m.act(rows, 2*width), m.act(rows, width)
	qkv, cache := m.act(rows, heads+2*keyHeads, d), m.act(keyHeads, rows, d)
	positions := make([]int32, rows)
	for i := range positions {
		positions[i] = int32(i)
	}
	pos, freq := m.ints(positions...), m.tensor(device.F32, d/2)
	w := device.Weight{Parts: []*device.Tensor{m.act(hidden, heads*d)}}
	q, k := qkv.Slice(1, 0, heads), qkv.Slice(1, heads, heads+keyHeads)
	rotary, keys := m.act(rows, 576).Slice(1, 512, 576).Repeat(0, 16), m.act(16, rows, 192).Slice(2, 128, 192)
	for _, c := range []struct {
		name  string
		scale scale
		issue func(o *device.Ops)
	}{
		{"norm", scale{bytes: 6 * rows * hidden}, func(o *device.Ops) { o.RMSNorm(normed, stream, gamma, 1e-6) }},
		{"swiglu", scale{bytes: 6 * rows * width}, func(o *device.Ops) { o.SwiGLU(inner, gateUp) }},
		{"rotate", scale{bytes: 4 * rows * heads * d}, func(o *device.Ops) { o.Rotate(q, pos, device.RoPE{InvFreq: freq, Scale: 1}) }},
		{"append", scale{bytes: 4 * rows * keyHeads * d}, func(o *device.Ops) { o.Append(cache, k, pos, nil) }},
		{"copy", scale{bytes: 2 * 16 * rows * 64}, func(o *device.Ops) { o.Copy(keys, rotary) }},
		{"product added", scale{flops: 2 * rows * hidden * heads * d}, func(o *device.Ops) { o.LinearAdd(stream, normed, w) }},
	} {
		b.Run(c.name, func(b *testing.B) { measure(b, g, 1, c.scale, c.issue) })
	}
}
