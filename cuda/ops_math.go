package cuda

import (
	"fmt"
	"math"

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
func (k *kernels) Embed(dst, table, ids *device.Tensor) error {
	if n := dst.Shape[0]; dst.DType == table.DType && n >= manyRows {
		return k.GatherRows(dst.Unflatten(0, 1, n), table.Unflatten(0, 1, table.Shape[0]), ids.Unflatten(0, 1, n))
	}
	c := k.call("rows").as("DST", dst.DType).as("SRC", table.DType)
	args := rowsArgs{c.mat(dst), c.mat(table), c.vec(ids), int32(dst.Shape[1]), int32(table.Shape[0])}
	if table.Shape[0] == 0 && dst.Shape[0] > 0 {
		return fmt.Errorf("%v has no rows", table)
	}
	return launch(c, "gather_rows", k.early(blocks(dst.Shape[0], threads)), 0, &args)
}

type gatherArgs struct {
	dst, src            cube
	ids                 mat
	n, limit, rows, pad int32
}

// manyRows are enough to fill a card piece by piece.
const manyRows = 512

// GatherRows implements device.Kernels.
func (k *kernels) GatherRows(dst, src, ids *device.Tensor) error {
	vector := vectorOf(16/dst.DType.Size(), dst, src)
	c := k.call("gather").as("DST", dst.DType).set("VEC", vector)
	heads, rows, n := dst.Shape[0], dst.Shape[1], dst.Shape[2]
	args := gatherArgs{c.cube(dst), c.cube(src), c.mat(ids), int32(n), int32(src.Shape[1]), int32(rows), 0}
	if src.Shape[1] == 0 && rows > 0 {
		return fmt.Errorf("%v has no rows", src)
	}
	return launch(c, "gather", driver.Grid{X: ceil(rows*n/vector, piecesABlock), Y: heads, Z: 1, Threads: threads}, 0, &args)
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
	c.set("VEC", vectorOf(16/x.DType.Size(), x, dst, gamma))
	args := normArgs{c.mat(dst), c.mat(x), c.vec(gamma), int32(x.Shape[1]), eps}
	return launch(c, "rms_norm", k.early(blocks(x.Shape[0], threads)), 0, &args)
}

type ropeArgs struct {
	x           cube
	pos, freq   vec
	heads, half int32
	scale       float32
}

// Rotate implements device.Kernels.
func (k *kernels) Rotate(x, pos *device.Tensor, r device.RoPE) error {
	interleaved, half := 0, x.Shape[2]/2
	if r.Pairing == device.Interleaved {
		interleaved = 1
	}
	vector := vectorOf(16/x.DType.Size(), x)
	for half%vector != 0 {
		vector /= 2
	}
	c := k.call("rope").as("DST", x.DType).set("INTERLEAVED", interleaved).set("VEC", vector)
	args := ropeArgs{c.cube(x), c.vec(pos), c.vec(r.InvFreq), int32(x.Shape[1]), int32(half), r.Scale}
	return launch(c, "rotate", k.early(blocks(x.Shape[0], threads)), 8*half, &args)
}

type swigluArgs struct {
	dst, x mat
	n      int32
}

// SwiGLU implements device.Kernels.
func (k *kernels) SwiGLU(dst, gateUp *device.Tensor) error {
	vector, n := vectorOf(16/gateUp.DType.Size(), gateUp, dst), dst.Shape[1]
	c := k.call("swiglu").as("DST", dst.DType).as("SRC", gateUp.DType).set("VEC", vector)
	args := swigluArgs{c.mat(dst), c.mat(gateUp), int32(n)}
	return launch(c, "swiglu", k.early(driver.Grid{X: dst.Shape[0], Y: ceil(n, threads*vector), Z: 1, Threads: threads}), 0, &args)
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
	last, vector, index := dst.Rank()-1, 1, device.U32
	if last >= 0 && dst.Stride[last] == 1 && src.Stride[last] == 1 {
		vector = vectorOf(16/max(dst.DType.Size(), src.DType.Size()), dst, src)
	}
	n := dst.Len() / vector
	if n > math.MaxUint32 {
		index = device.I64
	}
	c := k.call("copy").as("DST", dst.DType).as("SRC", src.DType).as("INDEX", index).set("VEC", vector)
	args := copyArgs{dst: c.vec(dst), src: c.vec(src), n: int64(n)}
	for i := range copyRank {
		args.shape[i] = 1
		if dim := i - copyRank + dst.Rank(); dim >= 0 {
			args.shape[i], args.toStride[i], args.fromStride[i] = int64(dst.Shape[dim]), int64(dst.Stride[dim]), int64(src.Stride[dim])
		}
	}
	if vector > 1 {
		args.shape[copyRank-1] /= int64(vector)
		args.toStride[copyRank-1], args.fromStride[copyRank-1] = int64(vector), int64(vector)
	}
	return launch(c, "copy", k.early(blocks(ceil(n, threads), threads)), 0, &args)
}

type tokensArgs struct {
	ids, seen vec
	n, vocab  int32
}

// Increment implements device.Kernels.
func (k *kernels) Increment(t *device.Tensor) error {
	c := k.call("tokens")
	args := tokensArgs{ids: c.vec(t), n: int32(t.Shape[0])}
	return launch(c, "increment", k.early(blocks(ceil(t.Shape[0], threads), threads)), 0, &args)
}

// MarkSeen implements device.Kernels.
func (k *kernels) MarkSeen(seen, ids *device.Tensor) error {
	c := k.call("tokens")
	args := tokensArgs{c.vec(ids), c.vec(seen), int32(ids.Shape[0]), int32(seen.Shape[0])}
	return launch(c, "mark_seen", k.early(blocks(ceil(ids.Shape[0], threads), threads)), 0, &args)
}

type appendArgs struct {
	cache, rows                        cube
	pos                                vec
	slots                              mat
	mapped, capacity, tokens, heads, d int32
}

// Append implements device.Kernels.
func (k *kernels) Append(cache, rows, pos, slots *device.Tensor) error {
	tokens, heads, d := rows.Shape[0], rows.Shape[1], rows.Shape[2]
	vector := vectorOf(16/rows.DType.Size(), cache, rows)
	c := k.call("append").as("DST", cache.DType).as("SRC", rows.DType).set("VEC", vector)
	c.appends(cache, pos, slots)
	args := appendArgs{
		cache: c.cube(cache), rows: c.cube(rows), pos: c.vec(pos), slots: c.mat(slots),
		capacity: int32(cache.Shape[1]), tokens: int32(tokens), heads: int32(heads), d: int32(d),
	}
	if slots != nil {
		args.mapped = int32(slots.Shape[1])
	}
	return launch(c, "append", k.early(blocks(ceil(tokens*heads*d/vector, threads), threads)), 0, &args)
}

type permuteArgs struct {
	t             cube
	copy          vec
	order         mat
	d, n, inverse int32
	_             int32
}

// piecesABlock is how much a block of kernels/permute.cu and gather.cu moves.
const piecesABlock = 4 * threads

// PermuteRows implements device.Kernels.
func (k *kernels) PermuteRows(t, order *device.Tensor, inverse bool, within int) error {
	heads, n, d := t.Shape[0], order.Shape[1], t.Shape[2]
	vector := vectorOf(16/t.DType.Size(), t)
	c := k.call("permute").as("DST", t.DType).set("VEC", vector)
	args := permuteArgs{t: c.cube(t), order: c.mat(order), d: int32(d), n: int32(n)}
	if inverse {
		args.inverse = 1
	}
	grid := driver.Grid{X: ceil(n*d/vector, piecesABlock), Y: heads, Z: 1, Threads: threads}
	if within > 0 && piecesABlock%(within*d/vector) == 0 { // a block has whole blocks of rows
		return launch(c, "exchange", grid, 0, &args)
	}
	args.copy = c.scratch(heads * n * d * t.DType.Size())[0]
	if err := launch(c, "pack", grid, 0, &args); err != nil {
		return err
	}
	return launch(c, "permute", grid, 0, &args)
}
