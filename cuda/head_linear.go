package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

type headLinearArgs struct {
	dst, x, w cube
	scale     mat
	in, outs  int32
}

// HeadLinear implements device.Kernels.
func (k *kernels) HeadLinear(dst, x, w *device.Tensor, transpose bool) error {
	tokens, heads, outs := x.Shape[0], x.Shape[1], dst.Shape[2]
	if tokens > fewTokens && w.DType == device.I8 {
		return k.headLinearInt8(dst, x, w, transpose)
	}
	if tokens > fewTokens {
		return k.headTiles(dst, x, w, transpose)
	}
	c := k.call("head_linear").as("DST", dst.DType).as("SRC", x.DType).as("W", w.DType)
	args := c.headLinearArgs(dst, x, w)
	kernel, vector, columns := "direct", vectorOf(16/w.DType.Size(), w, x), threads/32
	if transpose {
		vector = transposedVector(w)
		kernel, columns = "transposed", transposedLanes*vector
	}
	c.set("VEC", vector).set("LANES", transposedLanes)
	return launch(c, kernel, k.early(driver.Grid{X: ceil(outs, columns), Y: heads, Z: tokens, Threads: threads}), 0, &args)
}

func (c *call) headLinearArgs(dst, x, w *device.Tensor) headLinearArgs {
	return headLinearArgs{c.cube(dst), c.cube(x), c.cube(w), c.mat(w.Scale), int32(x.Shape[2]), int32(dst.Shape[2])}
}

// transposedVector is how many outputs a load brings where w is transposed.
func transposedVector(w *device.Tensor) int {
	vector := vectorOf(16/w.DType.Size(), w)
	if w.DType == device.I8 { // few bytes: many blocks matter more than long loads
		return min(vector, 4)
	}
	return vector
}

// Threads of a block beside each other, with so many outputs each, where w is
// transposed; beside what else absorb does, smaller blocks are there sooner.
const (
	transposedLanes = 16
	absorbLanes     = 8
)

// headTiles is HeadLinear for many tokens: heads are the batch of a product.
func (k *kernels) headTiles(dst, x, w *device.Tensor, transpose bool) error {
	c := k.call("matmul").as("DST", dst.DType).as("SRC", x.DType).as("W", w.DType).as("BIAS", w.DType)
	p, ok := c.product(dst, x, w, nil)
	p.Rows, p.Outs, p.Inner, p.Batch, p.TransA = x.Shape[0], dst.Shape[2], x.Shape[2], x.Shape[1], transpose
	p.LDA, p.LDB, p.LDD = w.Stride[1], x.Stride[0], dst.Stride[0]
	p.StrideA, p.StrideB, p.StrideD = w.Stride[0], x.Stride[1], dst.Stride[1]
	if ok {
		if done, err := c.multiply(p, dst, x, w, nil); done || err != nil {
			return err
		}
	}
	byHead := func(v cube) cube { return cube{v.p, v.s1, v.s0} }
	args := matmulArgs{
		dst: byHead(c.cube(dst)), x: byHead(c.cube(x)), w: c.cube(w), step: 1,
		rows: int32(x.Shape[0]), outs: int32(dst.Shape[2]), in: int32(x.Shape[2]),
	}
	if transpose {
		args.w.s1, args.step = 1, args.w.s1
	}
	return launch(c, "matmul", tiles(args, x.Shape[1]), 0, &args)
}
