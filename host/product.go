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
	for i, part := range w.Parts {
		p := product{dst: dst, x: x, rows: rows, outs: part.Shape[0], in: part.Shape[1], add: add}
		if len(w.Bias) > 0 {
			p.bias = f32(w.Bias[i])
		}
		multiply := k.multiplyInt8
		if part.DType != device.I8 {
			p.w, multiply = matrix(part), func(p product, _ *device.Tensor) error { return k.multiply(p) }
		}
		if err := multiply(p, part); err != nil {
			return err
		}
		dst = column(dst, p.outs)
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
	if w.DType == device.I8 {
		if err := k.pool.lend(in * out); err != nil {
			return err
		}
	}
	k.pool.run(x.Shape[1]*blocks, func(thread, i int) {
		h, s := i/blocks, piece(i%blocks, rows, productRows)
		d := kernels.Matrix{P: f32(dst, s.from, h), LD: dst.Stride[0]}
		a := kernels.Matrix{P: f32(x, s.from, h), LD: x.Stride[0]}
		var b kernels.Matrix
		if w.DType == device.I8 {
			b = widened(k.pool.floats(thread), w.Index(0, h))
		} else {
			b = head(w, h)
		}
		if transpose {
			kernels.LinearTransposed(d, a, b, s.len(), out, in)
		} else {
			kernels.Linear(d, a, b, nil, s.len(), out, in, false)
		}
	})
	return nil
}

// Tiles of a product that one thread computes.
const (
	productRows = 64
	productOuts = 128
)

// product is dst (+)= x·wᵀ + bias for rows × outs outputs; bias may be nil.
type product struct {
	dst, x, w      kernels.Matrix
	bias           *float32
	rows, outs, in int
	add            bool
}

// part is the tile of rows t and outputs o.
func (p product) part(t, o span) product {
	p.dst, p.x, p.w = below(column(p.dst, o.from), t.from), below(p.x, t.from), below(p.w, o.from)
	p.bias = shift(p.bias, o.from)
	p.rows, p.outs = t.len(), o.len()
	return p
}

func (p product) compute() {
	kernels.Linear(p.dst, p.x, p.w, p.bias, p.rows, p.outs, p.in, p.add)
}

func (k *hostKernels) multiply(p product) error {
	if k.gomlx != nil && p.rows >= gomlxMin && p.w.LD == p.in {
		return k.multiplyGoMLX(p)
	}
	k.overTiles(p, productRows, productOuts, func(_ int, tile product) { tile.compute() })
	return nil
}

func (k *hostKernels) multiplyGoMLX(p product) error {
	if err := k.pool.lend(gomlxRows * p.in); err != nil {
		return err
	}
	for o := 0; o < p.outs; o += gomlxOuts {
		if err := k.gomlx.prepare(min(p.outs-o, gomlxOuts), p.in); err != nil {
			return err
		}
	}
	var failed firstError
	k.overTiles(p, gomlxRows, gomlxOuts, func(thread int, tile product) {
		if tile.rows < gomlxMin {
			tile.compute()
		} else {
			failed.set(k.gomlx.multiply(tile, k.pool.floats(thread)))
		}
	})
	return failed.err
}

// overTiles runs fn on the tiles of a product.
func (k *hostKernels) overTiles(p product, rows, outs int, fn func(thread int, tile product)) {
	down := pieces(p.rows, rows)
	k.pool.run(down*pieces(p.outs, outs), func(thread, i int) {
		fn(thread, p.part(piece(i%down, p.rows, rows), piece(i/down, p.outs, outs)))
	})
}
