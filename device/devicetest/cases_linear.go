package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

func linearCases() []testCase {
	var cs []testCase
	for _, s := range []linearShape{
		{1, 1, []int{1}, true},
		{1, 17, []int{2}, false},
		{1, 80, []int{17, 9, 8}, true},
		{1, 896, []int{63, 1}, true},
		{1, 4864, []int{300, 7}, true},
		{2, 64, []int{63}, false},
		{7, 65, []int{17, 1, 111}, true},
		{17, 128, []int{64, 64, 128}, false},
		{65, 111, []int{64, 2}, true},
		{130, 96, []int{129, 31}, false},
	} {
		cs = append(cs, testCase{fmt.Sprintf("Linear/int8/%dx%d to %v", s.tokens, s.in, s.out),
			func(b *bench) { linear(b, s, device.BF16, func(int) bool { return true }) }})
		for _, checkpoint := range []device.DType{device.F32, device.BF16} {
			cs = append(cs, testCase{fmt.Sprintf("Linear/%v/%dx%d to %v", checkpoint, s.tokens, s.in, s.out),
				func(b *bench) { linear(b, s, checkpoint, nil) }})
		}
	}
	cs = append(cs,
		testCase{"Linear/F16", func(b *bench) { linear(b, linearShape{2, 17, []int{3}, true}, device.F16, nil) }},
		testCase{"Linear/int8/long rows", func(b *bench) {
			linear(b, linearShape{1, 5120, []int{70, 9}, false}, device.F32, func(int) bool { return true })
		}},
		testCase{"Linear/int8/beside others", func(b *bench) {
			linear(b, linearShape{3, 48, []int{3, 17, 5, 64}, true}, device.F32, func(part int) bool { return part%3 == 0 })
		}})
	for _, s := range []headShape{{1, 1, 8, 8}, {2, 3, 17, 65}, {1, 16, 128, 512}, {7, 2, 64, 63}, {65, 5, 24, 17}} {
		for _, transpose := range []bool{false, true} {
			cs = append(cs, testCase{fmt.Sprintf("HeadLinear/%v/%dx%dx%d to %d", transpose, s.tokens, s.heads, s.in, s.out),
				func(b *bench) { headLinear(b, s, transpose, false) }},
				testCase{fmt.Sprintf("HeadLinear/int8/%v/%dx%dx%d to %d", transpose, s.tokens, s.heads, s.in, s.out),
					func(b *bench) { headLinear(b, s, transpose, true) }})
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
// activations and as F32. int8 tells which parts are signed bytes; nil for none.
func linear(b *bench, s linearShape, checkpoint device.DType, int8 func(part int) bool) {
	var w device.Weight
	var all []float64
	total, norm := 0, 0.0
	for i, out := range s.out {
		values := b.normal(out*s.in, 1)
		norm = max(norm, maxNorm(values, s.in))
		all = append(all, values...)
		w.Parts = append(w.Parts, b.matrix(int8 != nil && int8(i), fmt.Sprint("w", i), checkpoint, values, out, s.in))
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
	act, wideTol := stored(b.act(), sum), stored(device.F32, sum)
	if int8 != nil {
		e := roundedWeights(b.act(), values, all, s.in)
		act.abs, wideTol.abs = act.abs+e, wideTol.abs+e
	}
	b.want("dst", dst, act)
	b.want("wide", wide, wideTol)
	b.want("stream", stream, wideTol)
	b.want("added", added, act)
	b.run(func(o *device.Ops) {
		o.Linear(dst, x, w)
		o.Linear(wide, x, w)
		o.LinearAdd(stream, x, w)
		o.LinearAdd(added, x, w)
	})
}

// roundedWeights is the error of products of rows of x and w where the terms
// of a sum are off by one rounding to t each, independently of each other.
func roundedWeights(t device.DType, x, w []float64, n int) float64 {
	most := 0.0
	for i := 0; i < len(x); i += n {
		for o := 0; o < len(w); o += n {
			sum := 0.0
			for j := range n {
				sum += x[i+j] * x[i+j] * w[o+j] * w[o+j]
			}
			most = max(most, sum)
		}
	}
	return safety * unit(t) * math.Sqrt(most)
}

type headShape struct{ tokens, heads, in, out int }

// headLinear takes its matrices out of a larger weight, as DeepSeek-V2 takes
// W_UK and W_UV out of kv_b_proj.
func headLinear(b *bench, s headShape, transpose, int8 bool) {
	rows, cols := s.out, s.in
	if transpose {
		rows, cols = s.in, s.out
	}
	const before, after = 3, 2
	all := before + rows + after
	weights := b.normal(s.heads*all*cols, 1)
	whole := b.matrix(int8, "kv_b", device.BF16, weights, s.heads*all, cols)
	w := whole.Unflatten(0, s.heads, all).Slice(1, before, before+rows)
	values := b.normal(s.tokens*s.heads*s.in, 1)
	x := b.tensor("x", b.act(), values, s.tokens, s.heads, s.in)
	dst := b.blank("dst", b.act(), s.tokens, s.heads, s.out)
	// A transposed column has about as large a norm as a row of its length.
	tol := stored(b.act(), maxNorm(values, s.in)*maxNorm(weights, s.in))
	if int8 { // rows of s.in, transposed or not, as above
		tol.abs += roundedWeights(b.act(), values, weights[:len(weights)/s.in*s.in], s.in)
	}
	b.want("dst", dst, tol)
	b.run(func(o *device.Ops) { o.HeadLinear(dst, x, w, transpose) })
}
