package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

func cacheCases() []testCase {
	var cs []testCase
	add := func(run func(b *bench), format string, args ...any) {
		cs = append(cs, testCase{fmt.Sprintf(format, args...), run})
	}
	for _, s := range []struct{ tokens, heads, capacity, d, mapped int }{
		{1, 2, 17, 64, 0}, {1, 2, 17, 64, 9}, {7, 3, 65, 17, 0}, {7, 3, 65, 17, 33}, {65, 1, 111, 576, 111},
	} {
		add(func(b *bench) { appendCase(b, s.tokens, s.heads, s.capacity, s.d, s.mapped) }, "Append/%d in %d, %d mapped", s.tokens, s.capacity, s.mapped)
	}
	for _, s := range []struct{ heads, n, capacity, d int }{{1, 1, 1, 8}, {2, 17, 65, 63}, {3, 111, 111, 128}, {1, 1000, 1001, 8}} {
		for _, inverse := range []bool{false, true} {
			add(func(b *bench) { permuteCase(b, s.heads, s.n, s.capacity, s.d, inverse) }, "PermuteRows/%d of %d, inverse %v", s.n, s.capacity, inverse)
		}
	}
	add(permuteBack, "PermuteRows/and back")
	for _, s := range []struct{ n, rows, d int }{{1, 1, 1}, {7, 65, 17}, {65, 2, 128}, {111, 300, 576}, {700, 40, 24}} {
		add(func(b *bench) { gatherCase(b, s.n, s.rows, s.d) }, "GatherRows/%d of %d", s.n, s.rows)
	}
	return cs
}

// appendCase writes to scattered positions; the first mapped ones go through
// slots. What is not written stays, NaN included.
func appendCase(b *bench, tokens, heads, capacity, d, mapped int) {
	cache := b.tensor("cache", b.act(), b.withNaNs(b.normal(heads*capacity*d, 1)), heads, capacity, d)
	wide := b.tensor("wide", b.act(), b.withNaNs(b.normal(heads*capacity*d, 1)), heads, capacity, d)
	rows := b.tensor("rows", b.act(), b.normal(tokens*heads*d, 1), tokens, heads, d)
	pos := b.ints("pos", b.rng.Perm(capacity)[:tokens], tokens)
	var slots *device.Tensor
	if mapped > 0 {
		var list []int
		for range heads {
			list = append(list, b.rng.Perm(mapped)...)
		}
		slots = b.ints("slots", list, heads, mapped)
	}
	b.want("cache", cache, tolerance{})
	b.want("unmapped", wide, tolerance{})
	b.run(func(o *device.Ops) {
		o.Append(cache, rows, pos, slots)
		o.Append(wide, rows, pos, nil)
	})
}

// withNaNs makes every fifth value NaN.
func (b *bench) withNaNs(v []float64) []float64 {
	for i := 0; i < len(v); i += 5 {
		v[i] = math.NaN()
	}
	return v
}

func (b *bench) permutations(heads, n int) []int {
	var order []int
	for range heads {
		order = append(order, b.rng.Perm(n)...)
	}
	return order
}

func permuteCase(b *bench, heads, n, capacity, d int, inverse bool) {
	t := b.tensor("t", b.act(), b.withNaNs(b.normal(heads*capacity*d, 1)), heads, capacity, d)
	order := b.ints("order", b.permutations(heads, n), heads, n)
	b.want("t", t, tolerance{})
	b.run(func(o *device.Ops) { o.PermuteRows(t, order, inverse) })
}

// permuteBack undoes a permutation: nothing may change, so nothing is compared.
func permuteBack(b *bench) {
	t := b.tensor("t", b.act(), b.normal(2*65*17, 1), 2, 65, 17)
	order := b.ints("order", b.permutations(2, 64), 2, 64)
	b.run(func(o *device.Ops) {
		o.PermuteRows(t, order, false)
		o.PermuteRows(t, order, true)
	})
}

func gatherCase(b *bench, n, rows, d int) {
	list := b.integers(n, rows)
	list[0] = rows - 1
	ids := b.ints("ids", list, n)
	src := b.tensor("src", b.act(), b.withNaNs(b.normal(rows*d, 1)), rows, d)
	wide := b.tensor("wide", device.F32, b.normal(rows*d, 1), rows, d)
	dst, wideDst := b.blank("dst", b.act(), n, d), b.blank("wideDst", device.F32, n, d)
	b.want("dst", dst, tolerance{})
	b.want("wide", wideDst, tolerance{})
	b.run(func(o *device.Ops) {
		o.GatherRows(dst, src, ids)
		o.GatherRows(wideDst, wide, ids)
	})
}
