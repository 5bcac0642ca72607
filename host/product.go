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
			kernels.LinearTransposed(d, a, head(w, h), s.len(), out, in)
		} else {
			kernels.Linear(d, a, head(w, h), nil, s.len(), out, in, false)
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
	if k.gomlx != nil && rows >= gomlxMin && w.LD == in {
		return k.productGoMLX(dst, x, w, bias, rows, outs, in, add)
	}
	k.overTiles(rows, productRows, outs, productOuts, func(_ int, t, o span) {
		kernels.Linear(below(column(dst, o.from), t.from), below(x, t.from), below(w, o.from), shift(bias, o.from), t.len(), o.len(), in, add)
	})
	return nil
}

func (k *hostKernels) productGoMLX(dst, x, w kernels.Matrix, bias *float32, rows, outs, in int, add bool) error {
	if err := k.pool.lend(gomlxRows * in); err != nil {
		return err
	}
	for o := 0; o < outs; o += gomlxOuts {
		if err := k.gomlx.prepare(min(outs-o, gomlxOuts), in); err != nil {
			return err
		}
	}
	var failed firstError
	k.overTiles(rows, gomlxRows, outs, gomlxOuts, func(thread int, t, o span) {
		failed.set(k.gomlx.tile(below(x, t.from), below(w, o.from), t.len(), o.len(), in, k.pool.floats(thread), func(y kernels.Matrix) {
			kernels.Store(below(column(dst, o.from), t.from), y, shift(bias, o.from), t.len(), o.len(), add)
		}))
	})
	return failed.err
}

// overTiles runs fn on the tiles of a rows × outs matrix.
func (k *hostKernels) overTiles(rows, tileRows, outs, tileOuts int, fn func(thread int, t, o span)) {
	down := pieces(rows, tileRows)
	k.pool.run(down*pieces(outs, tileOuts), func(thread, i int) {
		fn(thread, piece(i%down, rows, tileRows), piece(i/down, outs, tileOuts))
	})
}
