package host

import (
	"fmt"
	"unsafe"

	"blitzen/device"
	"blitzen/host/kernels"
)

// rowBlock is the number of rows that a thread takes at once in operations on
// rows.
const rowBlock = 16

// overRows runs fn on blocks of the first dimension of t.
func (k *hostKernels) overRows(rows int, fn func(from, count int)) {
	k.pool.run(pieces(rows, rowBlock), func(_, i int) {
		s := piece(i, rows, rowBlock)
		fn(s.from, s.len())
	})
}

// Embed implements device.Kernels.
func (k *hostKernels) Embed(dst, table, ids *device.Tensor) error {
	return k.gather(dst, table, ids, "token id")
}

// GatherRows implements device.Kernels.
func (k *hostKernels) GatherRows(dst, src, ids *device.Tensor) error {
	for h := range dst.Shape[0] {
		if err := k.gather(dst.Index(0, h), src.Index(0, h), ids.Index(0, h), "row"); err != nil {
			return err
		}
	}
	return nil
}

func (k *hostKernels) gather(dst, table, ids *device.Tensor, what string) error {
	if ok, err := k.start(outputs{dst}, table, ids); !ok {
		return err
	}
	rows := table.Shape[0]
	for t, id := range row[int32](ids) {
		if id < 0 || int(id) >= rows {
			return fmt.Errorf("%s %d at position %d is outside the table of %d rows", what, id, t, rows)
		}
	}
	for t, id := range row[int32](ids) {
		copy(row[float32](dst, t), row[float32](table, int(id)))
	}
	return nil
}

// RMSNorm implements device.Kernels.
func (k *hostKernels) RMSNorm(dst, x, gamma *device.Tensor, eps float32) error {
	if ok, err := k.start(outputs{dst}, x, gamma); !ok {
		return err
	}
	k.overRows(x.Shape[0], func(from, count int) {
		kernels.RMSNorm(matrixFrom(dst, from), matrixFrom(x, from), f32(gamma), eps, count, x.Shape[1])
	})
	return nil
}

func matrixFrom(t *device.Tensor, row int) kernels.Matrix {
	return kernels.Matrix{P: f32(t, row), LD: t.Stride[0]}
}

// Rotate implements device.Kernels.
func (k *hostKernels) Rotate(x, pos *device.Tensor, r device.RoPE) error {
	if ok, err := k.start(outputs{x}, pos, r.InvFreq); !ok {
		return err
	}
	interleaved := r.Pairing == device.Interleaved
	k.overRows(x.Shape[0], func(from, count int) {
		part := kernels.Heads{P: f32(x, from), Token: x.Stride[0], Head: x.Stride[1]}
		kernels.Rotate(part, at[int32](pos, from), f32(r.InvFreq), r.Scale, interleaved, count, x.Shape[1], x.Shape[2])
	})
	return nil
}

// SwiGLU implements device.Kernels.
func (k *hostKernels) SwiGLU(dst, gateUp *device.Tensor) error {
	if ok, err := k.start(outputs{dst}, gateUp); !ok {
		return err
	}
	k.overRows(dst.Shape[0], func(from, count int) {
		kernels.SwiGLU(matrixFrom(dst, from), matrixFrom(gateUp, from), count, dst.Shape[1])
	})
	return nil
}

// Copy implements device.Kernels.
func (k *hostKernels) Copy(dst, src *device.Tensor) error {
	if ok, err := k.startHalf(outputs{dst}, src); !ok {
		return err
	}
	if dst.Len() == 0 {
		return nil
	}
	if dst.DType != src.DType {
		k.convertTensor(dst, src)
		return nil
	}
	if dst.Rank() == 0 {
		copyBlock(dst, src, 0, 0, dst.DType.Size())
		return nil
	}
	k.pool.run(dst.Shape[0], func(_, i int) {
		copyRows(dst, src, 0, dst.Offset+i*dst.Stride[0], src.Offset+i*src.Stride[0])
	})
	return nil
}

// copyRows copies one entry of dimension dim of tensors of one type.
func copyRows(dst, src *device.Tensor, dim, to, from int) {
	switch last := dst.Rank() - 1; {
	case dim == last:
		copyBlock(dst, src, to-dst.Offset, from-src.Offset, dst.DType.Size())
	case dim == last-1:
		copyBlock(dst, src, to-dst.Offset, from-src.Offset, dst.DType.Size()*dst.Shape[last])
	default:
		for i := range dst.Shape[dim+1] {
			copyRows(dst, src, dim+1, to+i*dst.Stride[dim+1], from+i*src.Stride[dim+1])
		}
	}
}

func copyBlock(dst, src *device.Tensor, to, from, bytes int) {
	size := dst.DType.Size()
	copy(unsafe.Slice((*byte)(unsafe.Add(dst.Buffer.(*buffer).mem, (dst.Offset+to)*size)), bytes),
		unsafe.Slice((*byte)(unsafe.Add(src.Buffer.(*buffer).mem, (src.Offset+from)*size)), bytes))
}

// Increment implements device.Kernels.
func (k *hostKernels) Increment(t *device.Tensor) error {
	if ok, err := k.start(outputs{t}); !ok {
		return err
	}
	for i := range row[int32](t) {
		row[int32](t)[i]++
	}
	return nil
}
