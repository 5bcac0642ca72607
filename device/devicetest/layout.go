package devicetest

import "blitzen/device"

// layout says how a bench cuts its tensors out of larger ones.
type layout string

const (
	packed  layout = "packed"  // contiguous, guards before and after
	aligned layout = "aligned" // gaps between rows, 16-byte boundaries kept
	odd     layout = "odd"     // gaps of odd size in every dimension
)

// around is the shape of a tensor that surrounds one of the given shape, and
// how to cut that out.
func (l layout) around(shape []int) (size []int, cut func(*device.Tensor) *device.Tensor) {
	const pad = 64
	if l == packed {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return []int{n + 2*pad}, func(t *device.Tensor) *device.Tensor {
			return t.Slice(0, pad, pad+n).Unflatten(0, shape...)
		}
	}
	at := make([]int, len(shape))
	for i, d := range shape {
		switch {
		case i < len(shape)-1 || l == odd:
			at[i] = 1
			size = append(size, d+2+i%2)
		default:
			at[i] = 8
			size = append(size, (d+7)/8*8+16)
		}
	}
	return size, func(t *device.Tensor) *device.Tensor {
		for i, d := range shape {
			t = t.Slice(i, at[i], at[i]+d)
		}
		return t
	}
}

// put stores the elements of a view in the bytes of its base.
func put(base []byte, view *device.Tensor, src []byte) {
	for _, at := range offsets(view) {
		n := copy(base[at:at+rowSize(view)], src)
		src = src[n:]
	}
}

// pick reads the elements of a view from the bytes of its base.
func pick(base []byte, view *device.Tensor) []byte {
	var out []byte
	for _, at := range offsets(view) {
		out = append(out, base[at:at+rowSize(view)]...)
	}
	return out
}

// offsets are the places of a view's rows in bytes.
func offsets(v *device.Tensor) []int {
	var all []int
	for _, index := range indices(v.Shape[:v.Rank()-1]) {
		at := v.Offset
		for dim, i := range index {
			at += i * v.Stride[dim]
		}
		all = append(all, at*v.DType.Size())
	}
	return all
}

func rowSize(v *device.Tensor) int { return v.Shape[v.Rank()-1] * v.DType.Size() }
