package kvcache

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"

	"pgregory.net/rapid"
)

// filled is a cache of n rows whose elements are all different.
func filled(t rapid.TB, spec Spec, n, capacity int) (*Cache, device.Device) {
	dev := devicetest.NewReference()
	c, err := New(dev, []Spec{spec}, capacity)
	check(t, err)
	for i := range n {
		appendRow(t, dev, c, i, float32(1000*i))
	}
	check(t, c.Freeze(n))
	return c, dev
}

// appendRow stores a token's row: base plus the index of the element.
func appendRow(t rapid.TB, dev device.Device, c *Cache, pos int, base float32) {
	l := c.Layers[0]
	row := func(d int) *device.Tensor {
		x, err := dev.New("row", device.F32, 1, l.KVHeads, d)
		check(t, err)
		values := make([]float32, l.KVHeads*d)
		for i := range values {
			values[i] = base + float32(i)
		}
		check(t, device.Write(dev, x, values))
		return x
	}
	at, err := dev.New("pos", device.I32, 1)
	check(t, err)
	check(t, device.Write(dev, at, []int32{int32(pos)}))
	check(t, dev.Run(func(ops *device.Ops) {
		if l.ValueIsKeyPrefix {
			l.Append(ops, row(l.KeyDim), nil, at)
		} else {
			l.Append(ops, row(l.KeyDim), row(l.ValueDim), at)
		}
	}))
}

func contents(t rapid.TB, dev device.Device, c *Cache) [][]float32 {
	var all [][]float32
	for _, x := range c.Layers[0].rows() {
		v, err := device.Read[float32](dev, x)
		check(t, err)
		all = append(all, v)
	}
	return all
}

// Whatever the order, rows lie in their slots, a refreshed last row finds its
// slot, new rows keep their position, and Thaw restores every prompt row.
func TestPermuteThaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{KVHeads: rapid.IntRange(1, 3).Draw(t, "heads"), KeyDim: 5, ValueDim: 3, ValueIsKeyPrefix: rapid.Bool().Draw(t, "prefix")}
		n := rapid.IntRange(1, 20).Draw(t, "rows")
		c, dev := filled(t, spec, n, n+2)
		defer c.Close()
		before := contents(t, dev, c)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		order := make([][]int32, spec.KVHeads)
		for h := range order {
			for _, p := range rng.Perm(n) {
				order[h] = append(order[h], int32(p))
			}
		}
		check(t, c.Permute(0, order))
		moved := contents(t, dev, c)
		for h, o := range order {
			for slot, pos := range o {
				got, want := moved[0][(h*(n+2)+slot)*5:][:5], before[0][(h*(n+2)+int(pos))*5:][:5]
				if !slices.Equal(got, want) {
					t.Fatalf("head %d: slot %d holds %v, position %d was %v", h, slot, got, pos, want)
				}
			}
		}
		appendRow(t, dev, c, n-1, -500)
		beyond := c.Layers[0].Slots.Slice(1, n, n+2) // never looked at
		for h := range spec.KVHeads {
			check(t, device.Write(dev, beyond.Index(0, h), []int32{1 << 30, 1 << 30}))
		}
		appendRow(t, dev, c, n, 7)
		now := contents(t, dev, c)[0]
		for h, o := range order {
			slot := slices.Index(o, int32(n-1))
			if got := now[(h*(n+2)+slot)*5]; got != float32(-500+h*5) {
				t.Fatalf("head %d: the refreshed row begins with %v", h, got)
			}
			if got := now[(h*(n+2)+n)*5]; got != float32(7+h*5) {
				t.Fatalf("head %d: the new row begins with %v", h, got)
			}
		}
		check(t, c.Thaw())
		after := contents(t, dev, c)
		for i, d := range []int{5, 3}[:len(after)] {
			for h := range spec.KVHeads {
				from := h * (n + 2) * d
				if !slices.Equal(after[i][from:from+n*d], before[i][from:from+n*d]) {
					t.Fatalf("tensor %d, head %d is not as prefilled", i, h)
				}
			}
		}
	})
}

func TestRefused(t *testing.T) {
	c, _ := filled(t, Spec{KVHeads: 1, KeyDim: 2, ValueDim: 2}, 3, 4)
	for _, bad := range []struct {
		order [][]int32
		want  string
	}{
		{[][]int32{{0, 1}}, "order of 2 rows for 3 frozen rows"},
		{[][]int32{{0, 1, 1}}, "no permutation: position 1 in slot 2"},
		{[][]int32{{0, 3, 1}}, "no permutation: position 3 in slot 1"},
		{[][]int32{{0, -1, 1}}, "no permutation: position -1 in slot 1"},
		{nil, "orders for 0 of 1 heads"},
	} {
		if err := c.Permute(0, bad.order); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v: %v, want %q", bad.order, err, bad.want)
		}
	}
	check(t, c.Permute(0, [][]int32{{2, 0, 1}}))
	if err := c.Permute(0, [][]int32{{0, 1, 2}}); err == nil {
		t.Error("permuted twice")
	}
	if err := c.Freeze(2); err == nil || c.Frozen() != 3 {
		t.Errorf("a permuted cache was frozen: %v", err)
	}
	check(t, c.Thaw())
	check(t, c.Freeze(2))
	if err := c.Freeze(5); err == nil || c.Frozen() != 2 {
		t.Errorf("more rows frozen than there are: %v", err)
	}
}

func TestRowWidth(t *testing.T) {
	specs := []Spec{{KVHeads: 4, KeyDim: 128, ValueDim: 128}, {KVHeads: 1, KeyDim: 576, ValueDim: 512, ValueIsKeyPrefix: true}}
	if got := RowWidth(specs); got != 1024+576 {
		t.Errorf("%d numbers a token", got)
	}
}

func check(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
