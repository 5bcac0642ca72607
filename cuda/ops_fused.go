package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// NormLinear implements device.Kernels: for one row in one kernel, or as part of a small
// layer.
func (k *kernels) NormLinear(dst, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	if err := k.flush(); err != nil {
		return err
	}
	p := normedRow{dst: dst, h: h, x: x, norm: n, w: w}
	if k.beginSmall(p) {
		return nil
	}
	return k.normLinear(p)
}

func (k *kernels) normLinear(p normedRow) error {
	if done, err := k.normInt8(p); done || err != nil {
		return err
	}
	if !forOneRow(p.h, p.x, p.w) || len(p.w.Parts) > gemvParts {
		return device.NormLinearBySteps(k, p.dst, p.h, p.x, p.norm, p.w)
	}
	return k.gemvGroup(fewRows{dst: p.dst, x: p.x, w: p.w, norm: p.norm, h: p.h})
}

// NormSwiGLU implements device.Kernels: for one row in one kernel, or as part of a small
// layer.
func (k *kernels) NormSwiGLU(dst, gateUp, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	p := normedRow{dst: dst, h: h, x: x, norm: n, w: w, gateUp: gateUp}
	if k.layer.gated(k, p) {
		return nil
	}
	if err := k.flush(); err != nil {
		return err
	}
	return k.normSwiGLU(p)
}

func (k *kernels) normSwiGLU(p normedRow) error {
	if done, err := k.normInt8(p); done || err != nil {
		return err
	}
	if !forOneRow(p.h, p.x, p.w) || len(p.w.Parts) != 2 || p.w.Parts[0].Shape[0] != p.w.Parts[1].Shape[0] || p.dst.DType != p.gateUp.DType {
		return device.NormSwiGLUBySteps(k, p.dst, p.gateUp, p.h, p.x, p.norm, p.w)
	}
	return k.gemvGroup(fewRows{dst: p.dst, x: p.x, w: p.w, norm: p.norm, h: p.h, gateUp: p.gateUp})
}

// forOneRow reports whether a row is normalised into another tensor and multiplied
// by parts of one type that are not bytes.
func forOneRow(h, x *device.Tensor, w device.Weight) bool {
	for i, p := range w.Parts {
		if p.DType != w.Parts[0].DType || len(w.Bias) > 0 && w.Bias[i].DType != w.Bias[0].DType {
			return false
		}
	}
	return x.Shape[0] == 1 && !hasInt8(w) && h.Buffer != x.Buffer
}

type rotateAppendArgs struct {
	q, k, v, turned, keys, values             cube
	gamma, pos, freq                          vec
	slots                                     mat
	heads, kv, half, dk, dv, mapped, capacity int32
	scale, eps                                float32
	_                                         int32
}

// rotateAppend launches a RotateAppend.
func (k *kernels) rotateAppend(a device.RotateAppendArgs) error {
	vector, ok := rotateVector(a)
	if !ok {
		return device.RotateAppendBySteps(k, a)
	}
	if a.Beside != nil {
		return k.absorb(a, vector)
	}
	c := k.call("rotate_append").l1Cache().rotateMacros(a, vector)
	args := c.rotateArgs(a)
	return launch(c, "rotate_append", k.early(blocks(a.Q.Shape[0], rotateThreads(a, vector))), 8*int(args.half), &args)
}

type absorbArgs struct {
	place   rotateAppendArgs
	product headLinearArgs
}

// absorb does the product beside in the same kernel, where that takes the same loads.
func (k *kernels) absorb(a device.RotateAppendArgs, vector int) error {
	b := *a.Beside
	tokens, heads, outs := b.X.Shape[0], b.X.Shape[1], b.Dst.Shape[2]
	if !b.Transpose || tokens != a.Q.Shape[0] || tokens > fewTokens || b.Dst.DType != a.Q.DType || transposedVector(b.W) != vector {
		a.Beside = nil
		if err := k.rotateAppend(a); err != nil {
			return err
		}
		return k.HeadLinear(b.Dst, b.X, b.W, b.Transpose)
	}
	c := k.call("absorb").rotateMacros(a, vector).as("SRC", b.X.DType).as("W", b.W.DType)
	args := absorbArgs{c.rotateArgs(a), c.headLinearArgs(b.Dst, b.X, b.W)}
	c.set("LANES", absorbLanes)
	grid := driver.Grid{X: ceil(outs, absorbLanes*vector), Y: heads + 1, Z: tokens, Threads: threads}
	return launch(c, "absorb", k.early(grid), 8*int(args.place.half), &args)
}

// rotateMacros sets the macros of kernels/rotate_append.cuh.
func (c *call) rotateMacros(a device.RotateAppendArgs, vector int) *call {
	gamma, interleaved := a.Q.DType, 0
	if a.Norm.Gamma != nil {
		gamma = a.Norm.Gamma.DType
	}
	if a.RoPE.Pairing == device.Interleaved {
		interleaved = 1
	}
	return c.as("DST", a.Q.DType).as("GAMMA", gamma).set("INTERLEAVED", interleaved).set("VEC", vector).set("PIECES", rotatePieces(a, vector))
}

func (c *call) rotateArgs(a device.RotateAppendArgs) rotateAppendArgs {
	half := a.Q.Shape[2] / 2
	c.appends(a.Keys, a.Pos, a.Slots)
	c.appends(a.Values, a.Pos, a.Slots)
	args := rotateAppendArgs{
		q: c.cube(a.Q), k: c.cube(a.K), v: c.cubeIf(a.V), turned: c.cubeIf(a.Turned), keys: c.cube(a.Keys), values: c.cubeIf(a.Values),
		gamma: c.vec(a.Norm.Gamma), pos: c.vec(a.Pos), freq: c.vec(a.RoPE.InvFreq), slots: c.mat(a.Slots),
		heads: int32(a.Q.Shape[1]), kv: int32(a.K.Shape[1]), half: int32(half), dk: int32(a.K.Shape[2]), capacity: int32(a.Keys.Shape[1]),
		scale: a.RoPE.Scale, eps: a.Norm.Eps,
	}
	if a.V != nil {
		args.dv = int32(a.V.Shape[2])
	}
	if a.Slots != nil {
		args.mapped = int32(a.Slots.Shape[1])
	}
	return args
}

// mostRotatePieces is how many neighbours a lane takes of a row that is normalised, at
// most.
const mostRotatePieces = 4

// rotatePieces is how many it takes, so many numbers each.
func rotatePieces(a device.RotateAppendArgs, vector int) int {
	return max(1, ceil(a.K.Shape[2]-a.Q.Shape[2], 32*vector))
}

// rotateThreads is a thread for each piece, as far as a block has room.
func rotateThreads(a device.RotateAppendArgs, vector int) int {
	pieces := (a.Q.Shape[1] + a.K.Shape[1]) * (a.Q.Shape[2] / 2 / vector)
	if a.V != nil {
		pieces += a.K.Shape[1] * a.V.Shape[2] / vector
	}
	return min(max(ceil(pieces, 32)*32, 128), 384)
}

// rotateVector is how many neighbours a thread takes; false where the tensors
// differ in type, or more columns are normalised than a block has room for.
func rotateVector(a device.RotateAppendArgs) (vector int, ok bool) {
	ts := []*device.Tensor{a.Q}
	for _, t := range []*device.Tensor{a.K, a.V, a.Turned, a.Keys, a.Values} {
		if t == nil {
			continue
		}
		if t.DType != a.Q.DType {
			return 0, false
		}
		ts = append(ts, t)
	}
	if a.Norm.Gamma != nil {
		ts = append(ts, a.Norm.Gamma)
	}
	vector = vectorOf(16/a.Q.DType.Size(), ts...)
	for a.Q.Shape[2]/2%vector != 0 {
		vector /= 2
	}
	return vector, rotatePieces(a, vector) <= mostRotatePieces
}
