package cuda

import (
	"math"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// fewTokens is the most rows that read every weight once from memory: more go
// through tiles.
const fewTokens = 8

// Linear implements device.Kernels.
func (k *kernels) Linear(dst, x *device.Tensor, w device.Weight, add bool) error {
	p := productAdded{dst, x, w}
	switch {
	case add && k.layer.added(k, p):
		return nil
	case add && k.layer.last(p):
		return k.finishSmall(p)
	}
	if err := k.flush(); err != nil {
		return err
	}
	return k.linear(dst, x, w, add)
}

func (k *kernels) linear(dst, x *device.Tensor, w device.Weight, add bool) error {
	if hasInt8(w) {
		return k.linearInt8(dst, x, w, add)
	}
	if x.Shape[0] <= fewTokens {
		return k.gemv(dst, x, w, add)
	}
	column := 0
	for i, part := range w.Parts {
		var bias *device.Tensor
		if len(w.Bias) > 0 {
			bias = w.Bias[i]
		}
		into := dst.Slice(1, column, column+part.Shape[0])
		column += part.Shape[0]
		if err := k.linearPart(into, x, part, bias, add); err != nil {
			return err
		}
	}
	return nil
}

// linearPart multiplies many rows by one part of a weight.
func (k *kernels) linearPart(dst, x, w, bias *device.Tensor, add bool) error {
	if add && dst.DType == device.BF16 {
		return k.linearRounded(dst, x, w, bias)
	}
	c := k.call("matmul")
	p, ok := c.product(dst, x, w, bias)
	p.Rows, p.Outs, p.Inner, p.Add = x.Shape[0], w.Shape[0], w.Shape[1], add
	p.LDA, p.LDB, p.LDD = w.Stride[0], x.Stride[0], dst.Stride[0]
	if ok {
		if done, err := c.multiply(p, dst, x, w, bias); done || err != nil {
			return err
		}
	}
	return k.matmul(dst, x, w, bias, add)
}

// gemvParts is the most parts of a weight that one launch takes.
const gemvParts = 4

type gemvPart struct {
	w, bias             vec
	ld                  int64
	outs, column, block int32
	_                   int32
}

type gemvArgs struct {
	dst, x  mat
	parts   [gemvParts]gemvPart
	h, wide mat
	gamma   vec
	in, add int32
	eps     float32
	_       int32
}

// fewRows is a product of few rows by the parts of a weight, all of one type.
type fewRows struct {
	dst, x *device.Tensor
	w      device.Weight
	add    bool
	norm   device.Norm    // of the rows; Gamma nil for none
	h      *device.Tensor // gets the normalised rows
	gateUp *device.Tensor // gets gate and up, where dst is silu(gate)·up; else nil
}

// gemv multiplies few rows. Parts of one type go into one launch.
func (k *kernels) gemv(dst, x *device.Tensor, w device.Weight, add bool) error {
	column := 0
	for from := 0; from < len(w.Parts); {
		to := from + 1
		for to < len(w.Parts) && to-from < gemvParts && w.Parts[to].DType == w.Parts[from].DType &&
			(len(w.Bias) == 0 || w.Bias[to].DType == w.Bias[from].DType) {
			to++
		}
		group := device.Weight{Parts: w.Parts[from:to]}
		if len(w.Bias) > 0 {
			group.Bias = w.Bias[from:to]
		}
		if err := k.gemvGroup(fewRows{dst: dst.Slice(1, column, column+group.Out()), x: x, w: group, add: add}); err != nil {
			return err
		}
		column += group.Out()
		from = to
	}
	return nil
}

func (k *kernels) gemvGroup(p fewRows) error {
	tokens, in := p.x.Shape[0], p.x.Shape[1]
	if tokens == 0 {
		return nil
	}
	w := p.w.Parts[0].DType
	c := k.call("gemv").l1Cache().as("DST", p.dst.DType).as("SRC", p.x.DType).as("W", w).as("BIAS", biasType(p.w))
	read := append([]*device.Tensor{p.x}, p.w.Parts...)
	normed, gated := given(p.norm.Gamma), given(p.gateUp)
	if normed == 1 {
		c.as("GAMMA", p.norm.Gamma.DType).as("H", p.h.DType)
		read = append(read, p.norm.Gamma)
	} else {
		c.as("GAMMA", w).as("H", w)
	}
	vector := vectorOf(16/w.Size(), read...)
	shape := k.gemvShape(tokens, p.w.Out(), in, vector, w)
	if normed == 1 {
		shape = gemvNormed(p.w.Out(), in, vector, w)
		if gated == 0 && p.w.Out()*in*w.Size() >= large && in >= 2*32*vector { // a head
			shape = gemvShape{4, 2, 2}
		}
	}
	c.set("TOKENS", tokens).set("VEC", vector).set("OUTS", shape.outs).set("SPLIT", shape.split).set("AHEAD", shape.ahead)
	c.set("NORM", normed).set("GATED", gated)
	args := gemvArgs{dst: c.mat(p.dst), x: c.mat(p.x), h: c.mat(p.h), wide: c.mat(p.gateUp), gamma: c.vec(p.norm.Gamma), in: int32(in), eps: p.norm.Eps}
	if p.add {
		args.add = 1
	}
	blocks := args.divide(c, p.w, 8/shape.split*shape.outs/(1+gated), gated == 1)
	return launch(c, "gemv", k.early(driver.Grid{X: blocks + normed, Y: 1, Z: 1, Threads: threads}), 0, &args)
}

// divide gives every part of a weight its blocks of so many outputs, and returns
// their number. Gate and up go through the same blocks.
func (a *gemvArgs) divide(c *call, w device.Weight, outs int, gated bool) int {
	column, block := 0, 0
	for i := range a.parts {
		a.parts[i].block = int32(block)
		if gated && i > 0 {
			a.parts[i].block = math.MaxInt32
		}
		if i >= len(w.Parts) {
			continue
		}
		p := w.Parts[i]
		a.parts[i].w, a.parts[i].ld, a.parts[i].outs, a.parts[i].column = c.vec(p), int64(p.Stride[0]), int32(p.Shape[0]), int32(column)
		if len(w.Bias) > 0 {
			a.parts[i].bias = c.vec(w.Bias[i])
		}
		column += p.Shape[0]
		if !gated || i == 0 {
			block += ceil(p.Shape[0], outs)
		}
	}
	return block
}

// gemvShape says how warps share outputs: split of them outs outputs, with so
// many loads ahead.
type gemvShape struct{ outs, split, ahead int }

// residentShape is a shape of which a multiprocessor holds so many blocks.
type residentShape struct {
	gemvShape
	resident int
}

// gemvShapes are tried in this order.
var gemvShapes = []residentShape{
	{gemvShape{2, 2, 2}, 4}, {gemvShape{1, 1, 2}, 6}, {gemvShape{2, 4, 2}, 4}, {gemvShape{1, 2, 2}, 6}, {gemvShape{2, 8, 2}, 4}, {gemvShape{1, 8, 2}, 6},
}

// large is a weight whose blocks follow each other many times, in bytes.
const large = 100e6

// gemvShape is the fullest of gemvShapes. Where many blocks follow each other and
// weights are long, the last wave does not count: one row is read once for four
// outputs; with more rows, as many blocks as possible at once are faster than loads
// ahead.
func (k *kernels) gemvShape(tokens, outs, in, vector int, w device.DType) gemvShape {
	if outs*in*w.Size() >= large && in >= 8*32*vector {
		switch {
		case tokens == 1:
			return gemvShape{4, gemvSplit(outs, in, vector), 2}
		case tokens == 2:
			return gemvShape{1, gemvSplit(outs, in, vector), 0}
		default: // rows of x are read again for every output
			return gemvShape{2, gemvSplit(outs/2, in, vector), 0}
		}
	}
	return k.fullest(gemvShapes, outs, in, vector)
}

// fullest is the first of the shapes whose last wave of blocks fills the card about
// best, among those that leave no lane without a load of so many weights.
func (k *kernels) fullest(shapes []residentShape, outs, in, vector int) gemvShape {
	best, least := gemvShape{1, 1, 2}, math.Inf(1)
	for _, s := range shapes {
		if s.split > 1 && in < s.split*32*vector {
			continue
		}
		waves := float64(ceil(outs, 8/s.split*s.outs)) / float64(s.resident*max(k.card.multiprocessors, 1))
		if idle := math.Ceil(waves) / waves; idle < 0.97*least {
			best, least = s.gemvShape, idle
		}
	}
	return best
}

// gemvNormed is the shape for rows that are normalised: two outputs share what is
// read of a row, and warps share the row while each lane has several loads, or one
// where there are few outputs.
func gemvNormed(outs, in, vector int, w device.DType) gemvShape {
	const few, many = 2000, 4000 // warps on a large GPU
	s := gemvShape{outs: 2, split: 1}
	if outs*in*w.Size() < large {
		s.ahead = 2
	}
	for s.split < 8 {
		warps, loads := outs/2*s.split, float64(in)/float64(2*s.split*32*vector) // if it is doubled
		switch {
		case outs*in*w.Size() >= large && loads >= 6, outs*in*w.Size() < large && warps < many && loads >= 3, warps < few && loads > 0.8:
			s.split *= 2
		default:
			return s
		}
	}
	return s
}

// gemvSplit is how many warps share an output: enough to keep a large GPU's
// memory busy with few outputs, while each has work for every lane.
func gemvSplit(groups, in, vector int) int {
	const warps = 8192 // on their way or next in line on a large GPU
	split := 1
	for split < 8 && groups*split < warps && in >= 2*split*32*vector {
		split *= 2
	}
	return split
}

func biasType(w device.Weight) device.DType {
	if len(w.Bias) == 0 {
		return w.Parts[0].DType
	}
	return w.Bias[0].DType
}

type addArgs struct {
	dst       mat
	src, bias vec
	n         int64
}

// linearRounded adds a product to BF16 rows. cuBLASLt would round the product
// and then the sum; here the product is kept in float32.
func (k *kernels) linearRounded(dst, x, w, bias *device.Tensor) error {
	rows, n := dst.Shape[0], dst.Shape[1]
	c := k.call("add").as("DST", dst.DType)
	if bias == nil {
		c.as("BIAS", device.F32)
	} else {
		c.as("BIAS", bias.DType)
	}
	wide, err := c.scratchTensor(device.F32, rows, n)
	if err != nil {
		return err
	}
	if err := k.linearPart(wide, x, w, nil, false); err != nil {
		return err
	}
	args := addArgs{c.mat(dst), c.vec(wide), c.vec(bias), int64(n)}
	return launch(c, "add", driver.Grid{X: rows, Y: ceil(n, threads), Z: 1, Threads: threads}, 0, &args)
}

type matmulArgs struct {
	dst, x, w           cube
	step                int64
	bias                vec
	rows, outs, in, add int32
}

// matmul multiplies any types and alignments.
func (k *kernels) matmul(dst, x, w, bias *device.Tensor, add bool) error {
	c := k.call("matmul").as("DST", dst.DType).as("SRC", x.DType).as("W", w.DType).as("BIAS", w.DType)
	if bias != nil {
		c = k.call("matmul").as("DST", dst.DType).as("SRC", x.DType).as("W", w.DType).as("BIAS", bias.DType)
	}
	args := matmulArgs{
		dst: cube{c.vec(dst), 0, int64(dst.Stride[0])}, x: cube{c.vec(x), 0, int64(x.Stride[0])},
		w: cube{c.vec(w), 0, int64(w.Stride[0])}, step: 1, bias: c.vec(bias),
		rows: int32(x.Shape[0]), outs: int32(w.Shape[0]), in: int32(w.Shape[1]),
	}
	if add {
		args.add = 1
	}
	return launch(c, "matmul", tiles(args, 1), 0, &args)
}

func tiles(a matmulArgs, batch int) driver.Grid {
	return driver.Grid{X: ceil(int(a.outs), 64), Y: ceil(int(a.rows), 64), Z: batch, Threads: threads}
}
