package host

import (
	"fmt"
	"unsafe"

	"blitzen/device"
	"blitzen/host/kernels"
)

// ImportInt8 implements device.Device.
func (d *cpu) ImportInt8(name string, t device.DType, shape []int, mapped []byte) (*device.Tensor, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	if err := device.CheckInt8(name, t, shape); err != nil {
		return nil, err
	}
	rows, n := shape[0], shape[1]
	if rows*n*t.Size() != len(mapped) {
		return nil, fmt.Errorf("%s: %v%v needs %d bytes, the checkpoint has %d", name, t, shape, rows*n*t.Size(), len(mapped))
	}
	if err := d.kernels.pool.lend(n); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	v, size := device.NewInt8Tensor(name, nil, rows, n)
	b, err := d.allocate(name, size)
	if err != nil {
		return nil, err
	}
	b.readOnly = true
	v.Buffer, v.Scale.Buffer = b, b
	d.kernels.pool.run(rows, func(thread, i int) {
		row := d.kernels.pool.floats(thread)
		convertPiece(unsafe.Pointer(row), t, mapped[i*n*t.Size():(i+1)*n*t.Size()])
		kernels.RoundInt8(at[int8](v, i), f32(v.Scale, i), row, n)
	})
	return v, nil
}

// int8Floats is how many weights a thread widens at once, about: they should
// stay in its cache until they are multiplied.
const int8Floats = 1 << 16

// multiplyInt8 is multiply by signed bytes: each thread widens the rows of w of
// its outputs.
func (k *hostKernels) multiplyInt8(p product, w *device.Tensor) error {
	outs := min(productOuts, max(8, int8Floats/max(p.in, 1)))
	if err := k.pool.lend(outs * p.in); err != nil {
		return err
	}
	down := pieces(p.rows, productRows)
	k.pool.run(down*pieces(p.outs, outs), func(thread, i int) {
		o := piece(i/down, p.outs, outs)
		tile := p.part(piece(i%down, p.rows, productRows), o)
		tile.w = widened(k.pool.floats(thread), w.Slice(0, o.from, o.to))
		tile.compute()
	})
	return nil
}

// widened is a matrix of signed bytes as floats in dst, without gaps.
func widened(dst *float32, w *device.Tensor) kernels.Matrix {
	m := kernels.Matrix{P: dst, LD: w.Shape[1]}
	kernels.WidenInt8(m, at[int8](w), w.Stride[0], f32(w.Scale), w.Shape[0], w.Shape[1])
	return m
}
