package device_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"blitzen/device"
)

// model is a view as a function from its indices to elements of the memory.
type model struct {
	shape []int
	at    func(index []int) int
}

func modelOf(shape []int) model {
	return model{shape, func(index []int) int {
		n := 0
		for i, d := range shape {
			n = n*d + index[i]
		}
		return n
	}}
}

func (m model) slice(dim, from, to int) model {
	shape := slices.Clone(m.shape)
	shape[dim] = to - from
	return model{shape, func(index []int) int {
		moved := slices.Clone(index)
		moved[dim] += from
		return m.at(moved)
	}}
}

func (m model) index(dim, i int) model {
	return model{slices.Delete(slices.Clone(m.shape), dim, dim+1), func(index []int) int {
		return m.at(slices.Insert(slices.Clone(index), dim, i))
	}}
}

func (m model) unflatten(dim, outer, inner int) model {
	return model{slices.Replace(slices.Clone(m.shape), dim, dim+1, outer, inner), func(index []int) int {
		return m.at(slices.Replace(slices.Clone(index), dim, dim+2, index[dim]*inner+index[dim+1]))
	}}
}

func (m model) transpose(a, b int) model {
	shape := slices.Clone(m.shape)
	shape[a], shape[b] = shape[b], shape[a]
	return model{shape, func(index []int) int {
		moved := slices.Clone(index)
		moved[a], moved[b] = moved[b], moved[a]
		return m.at(moved)
	}}
}

func (m model) repeat(dim, n int) model {
	return model{slices.Insert(slices.Clone(m.shape), dim, n), func(index []int) int {
		return m.at(slices.Delete(slices.Clone(index), dim, dim+1))
	}}
}

// indices lists all indices of a shape in row-major order.
func indices(shape []int) [][]int {
	all := [][]int{{}}
	for _, n := range shape {
		var longer [][]int
		for _, index := range all {
			for i := range n {
				longer = append(longer, append(slices.Clone(index), i))
			}
		}
		all = longer
	}
	return all
}

// step draws a cut and makes it in the tensor and in the model.
func step(t *rapid.T, v *device.Tensor, m model) (*device.Tensor, model) {
	dim := rapid.IntRange(0, max(len(m.shape)-1, 0)).Draw(t, "dim")
	kind := rapid.SampledFrom([]string{"slice", "index", "unflatten", "transpose", "repeat"}).Draw(t, "kind")
	if len(m.shape) == 0 {
		kind = "repeat"
	}
	switch kind {
	case "slice":
		from := rapid.IntRange(0, m.shape[dim]).Draw(t, "from")
		to := rapid.IntRange(from, m.shape[dim]).Draw(t, "to")
		return v.Slice(dim, from, to), m.slice(dim, from, to)
	case "index":
		if m.shape[dim] == 0 {
			return v, m
		}
		i := rapid.IntRange(0, m.shape[dim]-1).Draw(t, "i")
		return v.Index(dim, i), m.index(dim, i)
	case "unflatten":
		inner := rapid.IntRange(1, 3).Draw(t, "inner")
		if m.shape[dim]%inner != 0 {
			return v, m
		}
		return v.Unflatten(dim, m.shape[dim]/inner, inner), m.unflatten(dim, m.shape[dim]/inner, inner)
	case "transpose":
		other := rapid.IntRange(0, len(m.shape)-1).Draw(t, "other")
		return v.Transpose(dim, other), m.transpose(dim, other)
	default:
		n := rapid.IntRange(1, 2).Draw(t, "n")
		return v.Repeat(dim, n), m.repeat(dim, n)
	}
}

func TestViewsAgreeWithIndexArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 6), 0, 3).Draw(t, "shape")
		v, m := device.NewTensor("x", device.BF16, nil, shape...), modelOf(shape)
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			v, m = step(t, v, m)
		}
		if v.Err() != nil || !slices.Equal(v.Shape, m.shape) || v.Rank() != len(m.shape) {
			t.Fatalf("view %v (%v), want shape %v", v, v.Err(), m.shape)
		}
		all := indices(m.shape)
		if v.Len() != len(all) || v.Bytes() != 2*len(all) {
			t.Fatalf("%d elements of %d bytes, want %d", v.Len(), v.Bytes(), len(all))
		}
		packed, rows := true, true
		for n, index := range all {
			at := v.Offset
			for i := range index {
				at += index[i] * v.Stride[i]
			}
			if at != m.at(index) {
				t.Fatalf("%v of %v is element %d, want %d", index, v, at, m.at(index))
			}
			packed = packed && at == m.at(all[0])+n
			if last := len(index) - 1; last >= 0 && index[last] > 0 {
				rows = rows && at == m.at(all[n-1])+1
			}
		}
		if len(all) > 0 && (v.Contiguous() != packed || v.RowsContiguous() != rows) {
			t.Fatalf("%v with strides %v: contiguous %v, rows %v; want %v, %v", v, v.Stride, v.Contiguous(), v.RowsContiguous(), packed, rows)
		}
	})
}

func TestCutsLeaveTheirOriginAlone(t *testing.T) {
	x := f32("x", 4, 6)
	for _, cut := range []func(){
		func() { x.Slice(0, 1, 2) }, func() { x.Index(0, 3) }, func() { x.Unflatten(1, 2, 3) },
		func() { x.Transpose(0, 1) }, func() { x.Repeat(1, 5) }, func() { x.Slice(0, 3, 9) },
	} {
		cut()
		if !slices.Equal(x.Shape, []int{4, 6}) || !slices.Equal(x.Stride, []int{6, 1}) || x.Offset != 0 || x.Err() != nil {
			t.Fatalf("the tensor became %v, strides %v, offset %d, %v", x, x.Stride, x.Offset, x.Err())
		}
	}
}

func TestBadViews(t *testing.T) {
	x := f32("x", 4, 6)
	for _, c := range []struct {
		view *device.Tensor
		want string
	}{
		{x.Slice(2, 0, 1), "slice [0:1] of dimension 2 of x F32[4 6] is out of bounds"},
		{x.Slice(-1, 0, 1), "slice [0:1] of dimension -1 of x F32[4 6] is out of bounds"},
		{x.Slice(0, -1, 1), "slice [-1:1] of dimension 0 of x F32[4 6] is out of bounds"},
		{x.Slice(0, 2, 1), "slice [2:1] of dimension 0 of x F32[4 6] is out of bounds"},
		{x.Slice(1, 0, 7), "slice [0:7] of dimension 1 of x F32[4 6] is out of bounds"},
		{x.Index(1, 6), "slice [6:7] of dimension 1 of x F32[4 6] is out of bounds"},
		{x.Unflatten(1, 2, 4), "unflatten of dimension 1 into [2 4] of x F32[4 6] is out of bounds"},
		{x.Unflatten(1, -2, -3), "unflatten of dimension 1 into [-2 -3] of x F32[4 6] is out of bounds"},
		{x.Unflatten(2, 6), "unflatten of dimension 2 into [6] of x F32[4 6] is out of bounds"},
		{x.Transpose(0, 2), "transpose of dimensions 0 and 2 of x F32[4 6] is out of bounds"},
		{x.Repeat(3, 2), "repeat 2 times as dimension 3 of x F32[4 6] is out of bounds"},
		{x.Repeat(0, 0), "repeat 0 times as dimension 0 of x F32[4 6] is out of bounds"},
		{x.Slice(0, 9, 9).Index(5, 5).Repeat(0, 2), "slice [9:9] of dimension 0 of x F32[4 6] is out of bounds"},
	} {
		if c.view.Err() == nil || c.view.Err().Error() != c.want {
			t.Errorf("error %v, want %s", c.view.Err(), c.want)
		}
	}
}

func TestWeightOut(t *testing.T) {
	for _, c := range []struct {
		w    device.Weight
		want int
	}{{weight(), 0}, {weight(f32("q", 3, 8), f32("k", 2, 8)), 5}, {weight(nil, f32("scalar"), f32("k", 2, 8)), 2}} {
		if got := c.w.Out(); got != c.want {
			t.Errorf("%v: %d outputs, want %d", c.w.Parts, got, c.want)
		}
	}
}

// Factors are cut like the rows that they belong to.
func TestScalesFollowTheirRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, n := rapid.IntRange(1, 12).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "n")
		v, size := device.NewInt8Tensor("w", nil, rows, n)
		if first := 4 * v.Scale.Offset; first < rows*n || size != first+4*rows {
			t.Fatalf("%d rows of %d: factors from byte %d, %d in all", rows, n, first, size)
		}
		first := v.Scale.Offset
		m := modelOf(v.Shape)
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			v, m = step(t, v, m)
		}
		width := 0
		if len(m.shape) > 0 {
			width = m.shape[len(m.shape)-1]
		}
		if v.Scale == nil || v.Scale.Err() != nil || len(v.Scale.Shape) != len(v.Shape)-1 || width == 0 || !v.RowsContiguous() {
			return // the rows were cut up
		}
		if !slices.Equal(v.Scale.Shape, v.Shape[:len(v.Shape)-1]) {
			return // likewise: operations refuse it
		}
		for _, index := range indices(v.Scale.Shape) {
			at := v.Scale.Offset - first
			for i := range index {
				at += index[i] * v.Scale.Stride[i]
			}
			if want := m.at(append(slices.Clone(index), 0)) / n; at != want {
				t.Fatalf("%v of %v has factor %d, want %d", index, v, at, want)
			}
		}
	})
}
