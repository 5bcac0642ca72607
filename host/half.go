package host

import (
	"unsafe"

	"blitzen/device"
	"blitzen/host/kernels"

	"github.com/x448/float16"
)

// The CPU computes in float32. Of F16 tensors the operations of attention widen
// what they read, rows of a cache piece by piece, and narrow what they write; of
// F8 representatives they widen some hundred at a time.

// twins are float32 copies of F16 tensors during one operation.
type twins struct {
	k       *hostKernels
	results [][2]*device.Tensor // F16, its twin
	used    int
	err     error
}

// room is a twin of t with no contents yet; t itself where it is no F16.
func (w *twins) room(t *device.Tensor) *device.Tensor {
	if t == nil || t.DType != device.F16 || w.err != nil {
		return t
	}
	if w.used == len(w.k.twins) {
		w.k.twins = append(w.k.twins, scratch{})
	}
	mem, err := w.k.twins[w.used].floats(t.Len())
	w.err = err
	w.used++
	return device.NewTensor(t.Name, device.F32, &buffer{mem: unsafe.Pointer(mem)}, t.Shape...)
}

// in is t as float32.
func (w *twins) in(t *device.Tensor) *device.Tensor {
	twin := w.room(t)
	if twin != t && w.err == nil {
		w.k.convertTensor(twin, t)
	}
	return twin
}

// out is where the operation writes t.
func (w *twins) out(t *device.Tensor) *device.Tensor {
	twin := w.room(t)
	if twin != t && w.err == nil {
		w.results = append(w.results, [2]*device.Tensor{t, twin})
	}
	return twin
}

// done narrows what was written.
func (w *twins) done() error {
	for _, r := range w.results {
		w.k.convertTensor(r[0], r[1])
	}
	return w.err
}

// convertTensor copies between F32 and F16. Rows have no gaps.
func (k *hostKernels) convertTensor(dst, src *device.Tensor) {
	if dst.Rank() == 0 {
		convertRow(dst, src, dst.Offset, src.Offset, 1)
		return
	}
	if dst.Len() == 0 {
		return
	}
	if dst.Rank() == 1 {
		convertRow(dst, src, dst.Offset, src.Offset, dst.Shape[0])
		return
	}
	k.pool.run(dst.Shape[0], func(_, i int) {
		convertRows(dst, src, 1, dst.Offset+i*dst.Stride[0], src.Offset+i*src.Stride[0])
	})
}

// convertRows converts one entry of the dimension before dim.
func convertRows(dst, src *device.Tensor, dim, to, from int) {
	if dim == dst.Rank()-1 {
		convertRow(dst, src, to, from, dst.Shape[dim])
		return
	}
	for i := range dst.Shape[dim] {
		convertRows(dst, src, dim+1, to+i*dst.Stride[dim], from+i*src.Stride[dim])
	}
}

// convertRow converts n elements from places counted from the start of memory.
func convertRow(dst, src *device.Tensor, to, from, n int) {
	into := unsafe.Add(dst.Buffer.(*buffer).mem, to*dst.DType.Size())
	of := unsafe.Add(src.Buffer.(*buffer).mem, from*src.DType.Size())
	if src.DType == device.F16 {
		kernels.WidenF16((*float32)(into), of, n)
		return
	}
	for i, v := range unsafe.Slice((*float32)(of), n) {
		unsafe.Slice((*uint16)(into), n)[i] = float16.Fromfloat32(v).Bits()
	}
}

// pieceScratch is the floats that pieceRows works in.
func pieceScratch(keys, values *device.Tensor) int {
	if keys.DType == device.F32 && values.DType == device.F32 {
		return 0
	}
	return decodeRows * (keys.Shape[2] + values.Shape[2] + int(unsafe.Sizeof(kernels.Segment{}))/4)
}

// pieceRows is what a piece of a plan reads of key head h, in float32: the cache
// itself, or copies of its rows.
func pieceRows(keys, values *device.Tensor, h int, segments []kernels.Segment, mem *float32) (kernels.Cache, []kernels.Segment) {
	dk, dv := keys.Shape[2], values.Shape[2]
	if keys.DType == device.F32 && values.DType == device.F32 {
		return cacheOf(keys, values, h), segments
	}
	c := kernels.Cache{K: kernels.Matrix{P: mem, LD: dk}, V: kernels.Matrix{P: shift(mem, decodeRows*dk), LD: dv}, DK: dk, DV: dv}
	copies := unsafe.Slice((*kernels.Segment)(unsafe.Pointer(shift(mem, decodeRows*(dk+dv)))), decodeRows)[:0]
	done := 0
	for _, s := range segments {
		copies = append(copies, kernels.Segment{First: int32(done), Count: s.Count, Team: s.Team})
		for i := range int(s.Count) {
			wideRow(shift(c.K.P, (done+i)*dk), keys, h, int(s.First)+i)
			wideRow(shift(c.V.P, (done+i)*dv), values, h, int(s.First)+i)
		}
		done += int(s.Count)
	}
	return c, copies
}

// wideRow writes the elements of a row of t, F32, F16 or F8, as float32.
func wideRow(dst *float32, t *device.Tensor, index ...int) {
	n := t.Shape[len(t.Shape)-1]
	switch t.DType {
	case device.F16:
		kernels.WidenF16(dst, unsafe.Pointer(at[uint16](t, index...)), n)
	case device.F8:
		kernels.WidenF8(dst, at[byte](t, index...), n)
	default:
		copy(unsafe.Slice(dst, n), row[float32](t, index...))
	}
}
