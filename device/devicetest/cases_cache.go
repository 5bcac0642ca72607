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
	for _, s := range []struct{ heads, n, capacity, d, within int }{
		{1, 1, 1, 8, 0}, {2, 17, 65, 63, 0}, {3, 111, 111, 128, 0}, {1, 1000, 1001, 8, 0},
		{2, 333, 400, 128, 16}, {2, 111, 111, 63, 16}, {3, 700, 700, 64, 48}, {1, 130, 131, 8, 128}, {1, 300, 300, 192, 16},
	} {
		for _, inverse := range []bool{false, true} {
			add(func(b *bench) { permuteCase(b, s.heads, s.n, s.capacity, s.d, s.within, inverse) }, "PermuteRows/%d of %d within %d, inverse %v", s.n, s.capacity, s.within, inverse)
		}
	}
	add(permuteBack, "PermuteRows/and back")
	for _, s := range []struct{ heads, n, rows, d int }{{1, 1, 1, 1}, {3, 7, 65, 17}, {2, 65, 2, 128}, {1, 111, 300, 576}, {2, 700, 40, 24}} {
		add(func(b *bench) { gatherCase(b, s.heads, s.n, s.rows, s.d) }, "GatherRows/%d of %d", s.n, s.rows)
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

// permutations are of n rows for every head, in blocks of within where that is
// not 0.
func (b *bench) permutations(heads, n, within int) []int {
	if within == 0 {
		within = n
	}
	var order []int
	for range heads {
		for from := 0; from < n; from += within {
			for _, i := range b.rng.Perm(min(within, n-from)) {
				order = append(order, from+i)
			}
		}
	}
	return order
}

func permuteCase(b *bench, heads, n, capacity, d, within int, inverse bool) {
	t := b.tensor("t", b.act(), b.withNaNs(b.normal(heads*capacity*d, 1)), heads, capacity, d)
	order := b.ints("order", b.permutations(heads, n, within), heads, n)
	b.want("t", t, tolerance{})
	b.run(func(o *device.Ops) { o.PermuteRows(t, order, inverse, within) })
}

// permuteBack undoes a permutation: nothing may change, so nothing is compared.
func permuteBack(b *bench) {
	t := b.tensor("t", b.act(), b.normal(2*65*17, 1), 2, 65, 17)
	order := b.ints("order", b.permutations(2, 64, 0), 2, 64)
	b.run(func(o *device.Ops) {
		o.PermuteRows(t, order, false, 0)
		o.PermuteRows(t, order, true, 0)
	})
}

func gatherCase(b *bench, heads, n, rows, d int) {
	list := b.integers(heads*n, rows)
	list[0] = rows - 1
	ids := b.ints("ids", list, heads, n)
	src := b.tensor("src", b.act(), b.withNaNs(b.normal(heads*rows*d, 1)), heads, rows, d)
	wide := b.tensor("wide", device.F32, b.normal(heads*rows*d, 1), heads, rows, d)
	dst, wideDst := b.blank("dst", b.act(), heads, n, d), b.blank("wideDst", device.F32, heads, n, d)
	b.want("dst", dst, tolerance{})
	b.want("wide", wideDst, tolerance{})
	b.run(func(o *device.Ops) {
		o.GatherRows(dst, src, ids)
		o.GatherRows(wideDst, wide, ids)
	})
}
