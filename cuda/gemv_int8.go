package cuda

import "blitzen/device"

type gemvInt8Part struct {
	w, scale, bias      vec
	ld                  int64
	outs, column, block int32
	_                   int32
}

type gemvInt8Args struct {
	dst, x  mat
	parts   [gemvParts]gemvInt8Part
	in, add int32
}

// gemvInt8 multiplies few rows by parts of signed bytes, up to gemvParts.
func (k *kernels) gemvInt8(dst, x *device.Tensor, w device.Weight, add bool, shape gemvShape) error {
	c := k.gemvInt8Call("gemv_int8", dst, x, w).set("TOKENS", x.Shape[0])
	c.set("VEC", vectorOf(16, append([]*device.Tensor{x}, w.Parts...)...))
	c.set("OUTS", shape.outs).set("SPLIT", shape.split).set("AHEAD", shape.ahead)
	args := gemvInt8Args{dst: c.mat(dst), x: c.mat(x), in: int32(x.Shape[1]), add: flag(add)}
	var block int
	args.parts, block = c.gemvInt8Parts(w, 8/shape.split*shape.outs)
	return launch(c, "gemv_int8", k.early(blocks(block, threads)), 0, &args)
}

func (k *kernels) gemvInt8Call(file string, dst, x *device.Tensor, w device.Weight) *call {
	bias := device.F32
	if len(w.Bias) > 0 {
		bias = w.Bias[0].DType
	}
	return k.call(file).l1Cache().as("DST", dst.DType).as("SRC", x.DType).as("BIAS", bias)
}

// gemvInt8Parts are a weight's parts and their blocks, each with so many
// outputs.
func (c *call) gemvInt8Parts(w device.Weight, outs int) (parts [gemvParts]gemvInt8Part, block int) {
	column := 0
	for i := range parts {
		parts[i].block = int32(block)
		if i >= len(w.Parts) {
			continue
		}
		p := w.Parts[i]
		parts[i] = gemvInt8Part{
			w: c.vec(p), scale: c.vec(p.Scale), ld: int64(p.Stride[0]),
			outs: int32(p.Shape[0]), column: int32(column), block: int32(block),
		}
		if len(w.Bias) > 0 {
			parts[i].bias = c.vec(w.Bias[i])
		}
		column += p.Shape[0]
		block += ceil(p.Shape[0], outs)
	}
	return parts, block
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// oneShape says how kernels/gemv_int8_one.cu is compiled: warps of a block, how
// many of them share outputs, blocks of a multiprocessor, loads ahead.
type oneShape struct{ warps, split, blocks, depth int }

type gemvInt8OneArgs struct {
	dst, x        vec
	parts         [gemvParts]gemvInt8Part
	gamma, h, out vec
	in            int32
	eps           float32
}

// normedRow is what kernels/gemv_int8_one.cu computes: a norm, a product, and
// SwiGLU if gateUp is not nil.
type normedRow struct {
	dst, h, x *device.Tensor
	norm      device.Norm
	w         device.Weight
	gateUp    *device.Tensor
}

// gemvInt8One multiplies one row by parts of signed bytes on the tensor cores.
func (k *kernels) gemvInt8One(o normedRow, s oneShape) error {
	out, swiGLU := o.gateUp, 1
	if out == nil {
		out, swiGLU = o.dst, 0
	}
	c := k.gemvInt8Call("gemv_int8_one", o.dst, o.x, o.w).as("GAMMA", o.norm.Gamma.DType).as("H", o.h.DType).as("OUT", out.DType)
	c.set("SWIGLU", swiGLU).set("WARPS", s.warps).set("SPLIT", s.split).set("BLOCKS", s.blocks).set("DEPTH", s.depth)
	args := gemvInt8OneArgs{
		dst: c.vec(o.dst), x: c.vec(o.x), gamma: c.vec(o.norm.Gamma), h: c.vec(o.h), out: c.vec(out),
		in: int32(o.x.Shape[1]), eps: o.norm.Eps,
	}
	var block int
	args.parts, block = c.gemvInt8Parts(o.w, 8*s.warps/s.split)
	if o.gateUp != nil { // both parts in each block
		block = ceil(o.dst.Shape[1], 4*s.warps/s.split)
	}
	return launch(c, "gemv_int8_one", k.early(blocks(block, 32*s.warps)), planeBytes(o.x.Shape[1])+o.h.Bytes(), &args)
}

// normInt8 does NormLinear and, with gateUp, NormSwiGLU in one kernel; done is
// false where it cannot.
func (k *kernels) normInt8(o normedRow) (done bool, err error) {
	inPlace := o.h.Buffer == o.x.Buffer // blocks read x while one stores h
	if !onlyInt8(o.w) || !k.forInt8One(o.x, o.w.Parts...) || inPlace || vectorOf(8, o.h, o.norm.Gamma) < 8 {
		return false, nil
	}
	if o.gateUp == nil {
		return true, k.gemvInt8One(o, oneShape{12, 4, 3, 4})
	}
	if len(o.w.Parts) != 2 || o.w.Parts[0].Shape[0] != o.w.Parts[1].Shape[0] {
		return false, nil
	}
	return true, k.gemvInt8One(o, oneShape{8, 4, 4, 4})
}

// planeBytes is the shared memory of n numbers in kernels/int8_one.cuh.
func planeBytes(n int) int { return 192 * ceil(n, 64) }

// forInt8One reports whether kernels/int8_one.cuh takes the only row of x and
// these weights.
func (k *kernels) forInt8One(x *device.Tensor, ws ...*device.Tensor) bool {
	const most = 1 << 14 // inputs: shared memory holds them, and 32 bits their sums
	if k.card.capability < 80 || x.Shape[0] != 1 || vectorOf(8, x) < 8 {
		return false
	}
	for _, w := range ws {
		if n := w.Shape[1]; w.DType != device.I8 || n%16 != 0 || n > most || vectorOf(16, w) < 16 {
			return false
		}
	}
	return true
}

// gemvInt8Shapes are tried in this order; a load is 16 weights.
var gemvInt8Shapes = []residentShape{
	{gemvShape{2, 1, 2}, 4}, {gemvShape{2, 2, 2}, 4}, {gemvShape{1, 1, 2}, 5}, {gemvShape{2, 4, 2}, 4}, {gemvShape{1, 2, 2}, 5}, {gemvShape{2, 8, 2}, 4},
	{gemvShape{1, 8, 2}, 5},
}
