package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

func quantizeCases() []testCase {
	var cs []testCase
	for _, s := range [][3]int{{1, 1, 1}, {2, 65, 17}, {3, 300, 64}, {1, 1001, 128}} {
		cs = append(cs, testCase{fmt.Sprintf("Quantize/%dx%dx%d", s[0], s[1], s[2]), func(b *bench) { quantize(b, s[0], s[1], s[2]) }})
	}
	return cs
}

// representatives are a tensor of values [kv, teams, d], and what it holds of
// them: as F8, multiples of a factor a head.
func (b *bench) representatives(f8 bool, values []float64, kv, teams, d int) (*device.Tensor, []float64) {
	if !f8 {
		return b.tensor("reps", b.act(), values, kv, teams, d), values
	}
	factors, elements, held := make([]float64, kv), make([]float64, len(values)), make([]float64, len(values))
	for h := range factors {
		factors[h] = 0x1p-6 + float64(h)*0x1p-9
	}
	for i, v := range values {
		elements[i] = v / factors[i/(teams*d)]
	}
	elements = rounded(device.F8, elements)
	for i, v := range elements {
		held[i] = v * factors[i/(teams*d)]
	}
	t := b.exactly("reps", device.F8, elements, kv, teams, d)
	t.Scale = b.tensor("factor", device.F32, factors, kv).Repeat(1, teams)
	return t, held
}

// quantize has a head of zeros and one with a NaN where there are three, and a
// last one with the factor 1 and numbers halfway between two of E4M3.
func quantize(b *bench, heads, n, d int) {
	values := b.normal(heads*n*d, 3)
	if heads == 3 {
		clear(values[:n*d])
		values[n*d+5] = math.NaN()
	}
	if n > 1 {
		copy(values[(heads-1)*n*d:], []float64{17, 448, 19, -21, 0x1p-10, 0x3p-10})
	}
	src := b.tensor("src", b.act(), values, heads, n, d)
	dst := b.exactly("dst", device.F8, make([]float64, heads*n*d), heads, n, d)
	factor := b.blank("factor", device.F32, heads)
	out := *dst
	out.Scale = factor.Repeat(1, n)
	b.want("elements", dst, tolerance{})
	b.want("factor", factor, tolerance{})
	b.run(func(o *device.Ops) { o.Quantize(&out, src) })
}
