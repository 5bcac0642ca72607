package cuda

import (
	"fmt"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// threads of a block, where a kernel does not say otherwise.
const threads = 256

type rowsArgs struct {
	dst, src mat
	ids      vec
	n, limit int32
}

// Embed implements device.Kernels.
func (k *kernels) Embed(dst, table, ids *device.Tensor) error { return k.GatherRows(dst, table, ids) }

// GatherRows implements device.Kernels.
func (k *kernels) GatherRows(dst, src, ids *device.Tensor) error {
	c := k.call("rows").as("DST", dst.DType).as("SRC", src.DType)
	args := rowsArgs{c.mat(dst), c.mat(src), c.vec(ids), int32(dst.Shape[1]), int32(src.Shape[0])}
	if src.Shape[0] == 0 && dst.Shape[0] > 0 {
		return fmt.Errorf("%v has no rows", src)
	}
	return launch(c, "gather_rows", blocks(dst.Shape[0], threads), 0, &args)
}

type normArgs struct {
	dst, x mat
	gamma  vec
	n      int32
	eps    float32
}

// RMSNorm implements device.Kernels.
func (k *kernels) RMSNorm(dst, x, gamma *device.Tensor, eps float32) error {
	c := k.call("norm").as("DST", dst.DType).as("SRC", x.DType).as("GAMMA", gamma.DType)
	args := normArgs{c.mat(dst), c.mat(x), c.vec(gamma), int32(x.Shape[1]), eps}
	return launch(c, "rms_norm", blocks(x.Shape[0], threads), 0, &args)
}

type ropeArgs struct {
	x                        cube
	pos, freq                vec
	heads, half, interleaved int32
	scale                    float32
}

// Rotate implements device.Kernels.
func (k *kernels) Rotate(x, pos *device.Tensor, r device.RoPE) error {
	c := k.call("rope").as("DST", x.DType)
	args := ropeArgs{c.cube(x), c.vec(pos), c.vec(r.InvFreq), int32(x.Shape[1]), int32(x.Shape[2] / 2), 0, r.Scale}
	if r.Pairing == device.Interleaved {
		args.interleaved = 1
	}
	return launch(c, "rotate", blocks(x.Shape[0], threads), 0, &args)
}

type swigluArgs struct {
	dst, x mat
	n      int32
}

// SwiGLU implements device.Kernels.
func (k *kernels) SwiGLU(dst, gateUp *device.Tensor) error {
	c := k.call("swiglu").as("DST", dst.DType).as("SRC", gateUp.DType)
	n := dst.Shape[1]
	args := swigluArgs{c.mat(dst), c.mat(gateUp), int32(n)}
	return launch(c, "swiglu", driver.Grid{X: dst.Shape[0], Y: ceil(n, threads), Z: 1, Threads: threads}, 0, &args)
}

// copyRank is the most dimensions that Copy takes.
const copyRank = 5

type copyArgs struct {
	dst, src                    vec
	n                           int64
	shape, toStride, fromStride [copyRank]int64
}

// Copy implements device.Kernels.
func (k *kernels) Copy(dst, src *device.Tensor) error {
	if dst.Rank() > copyRank {
		return fmt.Errorf("%v has more than %d dimensions", dst, copyRank)
	}
	c := k.call("copy").as("DST", dst.DType).as("SRC", src.DType)
	args := copyArgs{dst: c.vec(dst), src: c.vec(src), n: int64(dst.Len())}
	for i := range copyRank {
		args.shape[i] = 1
		if dim := i - copyRank + dst.Rank(); dim >= 0 {
			args.shape[i], args.toStride[i], args.fromStride[i] = int64(dst.Shape[dim]), int64(dst.Stride[dim]), int64(src.Stride[dim])
		}
	}
	return launch(c, "copy", blocks(ceil(dst.Len(), threads), threads), 0, &args)
}

type tokensArgs struct {
	ids, seen vec
	n, vocab  int32
}

// Increment implements device.Kernels.
func (k *kernels) Increment(t *device.Tensor) error {
	c := k.call("tokens")
	args := tokensArgs{ids: c.vec(t), n: int32(t.Shape[0])}
	return launch(c, "increment", blocks(ceil(t.Shape[0], threads), threads), 0, &args)
}

// MarkSeen implements device.Kernels.
func (k *kernels) MarkSeen(seen, ids *device.Tensor) error {
	c := k.call("tokens")
	args := tokensArgs{c.vec(ids), c.vec(seen), int32(ids.Shape[0]), int32(seen.Shape[0])}
	return launch(c, "mark_seen", blocks(ceil(ids.Shape[0], threads), threads), 0, &args)
}

type appendArgs struct {
	cache, rows         cube
	pos                 vec
	slots               mat
	mapped, capacity, d int32
}

// Append implements device.Kernels.
func (k *kernels) Append(cache, rows, pos, slots *device.Tensor) error {
	c := k.call("append").as("DST", cache.DType).as("SRC", rows.DType)
	args := appendArgs{c.cube(cache), c.cube(rows), c.vec(pos), c.mat(slots), 0, int32(cache.Shape[1]), int32(cache.Shape[2])}
	if slots != nil {
		args.mapped = int32(slots.Shape[1])
	}
	return launch(c, "append", driver.Grid{X: rows.Shape[0], Y: rows.Shape[1], Z: 1, Threads: 128}, 0, &args)
}

type permuteArgs struct {
	t             mat
	copy, order   vec
	d, n, inverse int32
}

// PermuteRows implements device.Kernels.
func (k *kernels) PermuteRows(t, order *device.Tensor, inverse bool) error {
	n, d := order.Shape[1], t.Shape[2]
	for h := range t.Shape[0] {
		c := k.call("permute").as("DST", t.DType)
		args := permuteArgs{c.mat(t.Index(0, h)), c.scratch(n * d * t.DType.Size())[0], c.vec(order.Index(0, h)), int32(d), int32(n), 0}
		if inverse {
			args.inverse = 1
		}
		if err := launch(c, "pack", blocks(n, threads), 0, &args); err != nil {
			return err
		}
		if err := launch(c, "permute", blocks(n, threads), 0, &args); err != nil {
			return err
		}
	}
	return nil
}
