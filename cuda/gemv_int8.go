package cuda

import (
	"math"

	"blitzen/device"
)

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
	tokens, in := x.Shape[0], x.Shape[1]
	bias := device.F32
	if len(w.Bias) > 0 {
		bias = w.Bias[0].DType
	}
	c := k.call("gemv_int8").as("DST", dst.DType).as("SRC", x.DType).as("BIAS", bias)
	vector := vectorOf(16, append([]*device.Tensor{x}, w.Parts...)...)
	c.set("TOKENS", tokens).set("VEC", vector).set("OUTS", shape.outs).set("SPLIT", shape.split).set("AHEAD", shape.ahead)
	args := gemvInt8Args{dst: c.mat(dst), x: c.mat(x), in: int32(in)}
	if add {
		args.add = 1
	}
	column, block := 0, 0
	for i := range args.parts {
		args.parts[i].block = int32(block)
		if i >= len(w.Parts) {
			continue
		}
		p := w.Parts[i]
		args.parts[i] = gemvInt8Part{
			w: c.vec(p), scale: c.vec(p.Scale), ld: int64(p.Stride[0]),
			outs: int32(p.Shape[0]), column: int32(column), block: int32(block),
		}
		if len(w.Bias) > 0 {
			args.parts[i].bias = c.vec(w.Bias[i])
		}
		column += p.Shape[0]
		block += ceil(p.Shape[0], 8/shape.split*shape.outs)
	}
	return launch(c, "gemv_int8", k.early(blocks(block, threads)), 0, &args)
}

// gemvInt8Shapes are tried in this order; resident is how many blocks of it a
// multiprocessor holds.
var gemvInt8Shapes = []struct {
	gemvShape
	resident int
}{{gemvShape{2, 1, 2}, 4}, {gemvShape{2, 2, 2}, 4}, {gemvShape{1, 1, 2}, 5}, {gemvShape{2, 4, 2}, 4}, {gemvShape{1, 2, 2}, 5}, {gemvShape{2, 8, 2}, 4}, {gemvShape{1, 8, 2}, 5}}

// gemvInt8Shape is the first whose last wave of blocks fills the card about best.
func (k *kernels) gemvInt8Shape(outs, in int) gemvShape {
	best, least := gemvShape{1, 1, 2}, math.Inf(1)
	for _, s := range gemvInt8Shapes {
		if s.split > 1 && in < s.split*32*16 { // lanes without a load
			continue
		}
		waves := float64(ceil(outs, 8/s.split*s.outs)) / float64(s.resident*max(k.card.multiprocessors, 1))
		if idle := math.Ceil(waves) / waves; idle < 0.97*least {
			best, least = s.gemvShape, idle
		}
	}
	return best
}
