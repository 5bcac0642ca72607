package host

import (
	"blitzen/device"
	"blitzen/host/kernels"
)

// Linear implements device.Kernels.
func (k *hostKernels) Linear(dst, x *device.Tensor, w device.Weight, add bool) error {
	if ok, err := k.start(outputs{dst}, append(weightTensors(w), x)...); !ok {
		return err
	}
	return k.linear(matrix(dst), matrix(x), w, x.Shape[0], add)
}

func (k *hostKernels) linear(dst, x kernels.Matrix, w device.Weight, rows int, add bool) error {
	for i, p := range w.Parts {
		var bias *float32
		if len(w.Bias) > 0 {
			bias = f32(w.Bias[i])
		}
		if err := k.product(dst, x, matrix(p), bias, rows, p.Shape[0], p.Shape[1], add); err != nil {
			return err
		}
		dst = column(dst, p.Shape[0])
	}
	return nil
}

func weightTensors(ws ...device.Weight) []*device.Tensor {
	var ts []*device.Tensor
	for _, w := range ws {
		ts = append(append(ts, w.Parts...), w.Bias...)
	}
	return ts
}

// HeadLinear implements device.Kernels.
func (k *hostKernels) HeadLinear(dst, x, w *device.Tensor, transpose bool) error {
	if ok, err := k.start(outputs{dst}, x, w); !ok {
		return err
	}
	rows, in, out := x.Shape[0], x.Shape[2], dst.Shape[2]
	blocks := pieces(rows, productRows)
	k.pool.run(x.Shape[1]*blocks, func(_, i int) {
		h, s := i/blocks, piece(i%blocks, rows, productRows)
		d := kernels.Matrix{P: f32(dst, s.from, h), LD: dst.Stride[0]}
		a := kernels.Matrix{P: f32(x, s.from, h), LD: x.Stride[0]}
		if transpose {
			kernels.LinearTransposed(d, a, head(w, h), s.to-s.from, out, in)
		} else {
			kernels.Linear(d, a, head(w, h), nil, s.to-s.from, out, in, false)
		}
	})
	return nil
}

// Tiles of a product that one thread computes.
const (
	productRows = 64
	productOuts = 128
)

// product computes dst (+)= x·wᵀ + bias; bias may be nil.
func (k *hostKernels) product(dst, x, w kernels.Matrix, bias *float32, rows, outs, in int, add bool) error {
	for k.gomlx != nil && rows >= gomlxMin && w.LD == in {
		done, err := k.gomlx.product(x, w, rows, outs, in, func(y kernels.Matrix, count int) {
			k.overRows(count, func(from, n int) { kernels.Store(below(dst, from), below(y, from), bias, n, outs, add) })
		})
		if err != nil {
			return err
		}
		dst, x, rows = below(dst, done), below(x, done), rows-done
	}
	down, across := pieces(rows, productRows), pieces(outs, productOuts)
	k.pool.run(down*across, func(_, i int) {
		t, o := piece(i%down, rows, productRows), piece(i/down, outs, productOuts)
		var b *float32
		if bias != nil {
			b = shift(bias, o.from)
		}
		kernels.Linear(below(column(dst, o.from), t.from), below(x, t.from), below(w, o.from), b, t.to-t.from, o.to-o.from, in, add)
	})
	return nil
}
