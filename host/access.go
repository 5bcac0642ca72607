package host

import (
	"fmt"
	"unsafe"

	"blitzen/device"
	"blitzen/host/kernels"
)

// hostKernels implements device.Kernels.
type hostKernels struct {
	pool    *pool
	gomlx   *gomlx // nil: the C kernels make all products
	planner planner
	sampler sampler
	steps   scratch          // between the operations that AttendTeams fuses
	twins   []scratch        // of F16 tensors
	uses    map[*buffer]bool // set while a step is recorded: the buffers that it uses
}

func (k *hostKernels) close() {
	k.pool.close()
	k.steps.free()
	for i := range k.twins {
		k.twins[i].free()
	}
	if k.gomlx != nil {
		k.gomlx.close()
	}
}

// outputs are the tensors that an operation writes.
type outputs []*device.Tensor

// start checks that the operation can use its tensors, where nil ones are
// absent arguments. The operation goes on only if ok: while a step is recorded
// nothing is computed.
func (k *hostKernels) start(out outputs, in ...*device.Tensor) (ok bool, err error) {
	for _, list := range [][]*device.Tensor{out, in} {
		for _, t := range list {
			if t != nil && t.DType.Float() && t.DType != device.F32 {
				return false, fmt.Errorf("%v: the CPU computes in F32; convert it first", t)
			}
		}
	}
	return k.startHalf(out, in...)
}

// startHalf is start for an operation that takes F16, too.
func (k *hostKernels) startHalf(out outputs, in ...*device.Tensor) (ok bool, err error) {
	for _, t := range out {
		b, err := k.touch(t)
		if err != nil {
			return false, err
		}
		if b != nil && b.readOnly {
			return false, fmt.Errorf("%v is part of a checkpoint and cannot be written", t)
		}
	}
	for _, t := range in {
		if _, err := k.touch(t); err != nil {
			return false, err
		}
	}
	clearUpperBits()
	return k.uses == nil, nil
}

func (k *hostKernels) touch(t *device.Tensor) (*buffer, error) {
	if t == nil {
		return nil, nil
	}
	b, err := bufferOf(t)
	if err != nil {
		return nil, err
	}
	if t.DType == device.BF16 {
		return nil, fmt.Errorf("%v: the CPU computes in F32; convert it first", t)
	}
	if k.uses != nil {
		k.uses[b] = true
	}
	return b, nil
}

// at is the address of an element; leading indices only, the rest are 0.
func at[T any](t *device.Tensor, index ...int) *T {
	if t == nil {
		return nil
	}
	offset := t.Offset
	for i, x := range index {
		offset += x * t.Stride[i]
	}
	var zero T
	return (*T)(unsafe.Add(t.Buffer.(*buffer).mem, offset*int(unsafe.Sizeof(zero))))
}

// row is the innermost row at the indices.
func row[T any](t *device.Tensor, index ...int) []T {
	return unsafe.Slice(at[T](t, index...), t.Shape[len(t.Shape)-1])
}

func f32(t *device.Tensor, index ...int) *float32 { return at[float32](t, index...) }

func matrix(t *device.Tensor) kernels.Matrix {
	return kernels.Matrix{P: f32(t), LD: t.Stride[0]}
}

// head is the matrix [rows, d] of one entry of the outermost dimension.
func head(t *device.Tensor, h int) kernels.Matrix {
	return kernels.Matrix{P: f32(t, h), LD: t.Stride[1]}
}

// span is one piece of a range cut into pieces.
type span struct{ from, to int }

func (s span) len() int { return s.to - s.from }

// pieces cuts n items into pieces of size.
func pieces(n, size int) int { return (n + size - 1) / size }

func piece(i, n, size int) span { return span{i * size, min(n, (i+1)*size)} }

// shift is the address n elements further; nil stays nil.
func shift[T any](p *T, n int) *T {
	if p == nil {
		return nil
	}
	return (*T)(unsafe.Add(unsafe.Pointer(p), n*int(unsafe.Sizeof(*p))))
}

// column is the matrix that starts n columns further right, below the one that
// starts n rows further down.
func column(m kernels.Matrix, n int) kernels.Matrix {
	return kernels.Matrix{P: shift(m.P, n), LD: m.LD}
}

func below(m kernels.Matrix, n int) kernels.Matrix { return column(m, n*m.LD) }

func slice[T any](p *T, n int) []T { return unsafe.Slice(p, n) }
