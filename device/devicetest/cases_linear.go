package devicetest

import (
	"fmt"

	"blitzen/device"
)

func linearCases() []testCase {
	var cs []testCase
	for _, s := range []linearShape{
		{1, 1, []int{1}, true},
		{1, 17, []int{2}, false},
		{1, 896, []int{63, 1}, true},
		{2, 64, []int{63}, false},
		{7, 65, []int{17, 1, 111}, true},
		{17, 128, []int{64, 64, 128}, false},
		{65, 111, []int{64, 2}, true},
		{130, 96, []int{129, 31}, false},
	} {
		for _, checkpoint := range []device.DType{device.F32, device.BF16} {
			cs = append(cs, testCase{fmt.Sprintf("Linear/%v/%dx%d to %v", checkpoint, s.tokens, s.in, s.out),
				func(b *bench) { linear(b, s, checkpoint) }})
		}
	}
	cs = append(cs, testCase{"Linear/F16", func(b *bench) { linear(b, linearShape{2, 17, []int{3}, true}, device.F16) }})
	for _, s := range []headShape{{1, 1, 8, 8}, {2, 3, 17, 65}, {1, 16, 128, 512}, {7, 2, 64, 63}, {65, 5, 24, 17}} {
		for _, transpose := range []bool{false, true} {
			cs = append(cs, testCase{fmt.Sprintf("HeadLinear/%v/%dx%dx%d to %d", transpose, s.tokens, s.heads, s.in, s.out),
				func(b *bench) { headLinear(b, s, transpose) }})
		}
	}
	return cs
}

type linearShape struct {
	tokens, in int
	out        []int
	bias       bool
}

// linear checks the product with and without what dst holds, stored as
// activations and as F32, from activations and from F32 rows.
func linear(b *bench, s linearShape, checkpoint device.DType) {
	var w device.Weight
	total, norm := 0, 0.0
	for i, out := range s.out {
		values := b.normal(out*s.in, 1)
		norm = max(norm, maxNorm(values, s.in))
		w.Parts = append(w.Parts, b.weight(fmt.Sprint("w", i), checkpoint, values, out, s.in))
		if s.bias {
			w.Bias = append(w.Bias, b.weight(fmt.Sprint("bias", i), checkpoint, b.normal(out, 1), out))
		}
		total += out
	}
	values := b.normal(s.tokens*s.in, 1)
	x := b.tensor("x", b.act(), values, s.tokens, s.in)
	sum := 1 + 4 + maxNorm(values, s.in)*norm // with bias and what dst holds
	dst := b.blank("dst", b.act(), s.tokens, total)
	wide := b.blank("wide", device.F32, s.tokens, total)
	stream := b.tensor("stream", device.F32, b.normal(s.tokens*total, 1), s.tokens, total)
	added := b.tensor("added", b.act(), b.normal(s.tokens*total, 1), s.tokens, total)
	b.want("dst", dst, stored(b.act(), sum))
	b.want("wide", wide, stored(device.F32, sum))
	b.want("stream", stream, stored(device.F32, sum))
	b.want("added", added, stored(b.act(), sum))
	b.run(func(o *device.Ops) {
		o.Linear(dst, x, w)
		o.Linear(wide, x, w)
		o.LinearAdd(stream, x, w)
		o.LinearAdd(added, x, w)
	})
}

type headShape struct{ tokens, heads, in, out int }

// headLinear takes its matrices out of a larger weight, as DeepSeek-V2 takes
// W_UK and W_UV out of kv_b_proj.
func headLinear(b *bench, s headShape, transpose bool) {
	rows, cols := s.out, s.in
	if transpose {
		rows, cols = s.in, s.out
	}
	const before, after = 3, 2
	all := before + rows + after
	weights := b.normal(s.heads*all*cols, 1)
	whole := b.weight("kv_b", device.BF16, weights, s.heads*all, cols)
	w := whole.Unflatten(0, s.heads, all).Slice(1, before, before+rows)
	values := b.normal(s.tokens*s.heads*s.in, 1)
	x := b.tensor("x", b.act(), values, s.tokens, s.heads, s.in)
	dst := b.blank("dst", b.act(), s.tokens, s.heads, s.out)
	// A transposed column has about as large a norm as a row of its length.
	b.want("dst", dst, stored(b.act(), maxNorm(values, s.in)*maxNorm(weights, s.in)))
	b.run(func(o *device.Ops) { o.HeadLinear(dst, x, w, transpose) })
}
