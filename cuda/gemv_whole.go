package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// Numbers of kernels/gemv_whole.cu, and where it pays.
const (
	wholeBarriers = 256
	wholeMost     = 152 << 10 // bytes of a multiprocessor's weights
	wholeNarrow   = 1024      // inputs or outputs: of wider ones a layer's weights take longer than its kernels wait
)

// wholeShape is how kernels/gemv_whole.cu is divided.
type wholeShape struct{ rows, warps, shared int }

// forWhole reports whether gemv_whole multiplies one row, and how: weights that fit the
// multiprocessors' shared memory, but for those behind a norm that are not gate and up,
// which are few.
func (k *kernels) forWhole(p fewRows, vector int) (s wholeShape, ok bool) {
	in, outs, both := p.x.Shape[1], p.w.Out(), 1+given(p.gateUp)
	if !k.overlaps() || p.x.Shape[0] != 1 || p.w.Parts[0].DType != device.BF16 || vector != 8 || in%32 != 0 || min(in, outs) > wholeNarrow {
		return s, false
	}
	if both == 1 && (p.norm.Gamma != nil || p.x.DType != device.BF16) {
		return s, false
	}
	s.rows = ceil(outs/both, max(k.card.multiprocessors-len(p.w.Parts), 1)) // a block more stores the normalised row
	s.warps = min(8, ceil(in, 4*32))
	if both == 2 {
		s.warps = min(16, ceil(in, 2*32))
	}
	pitch := 16 * (in/8 + (12-in/8%8)%8)
	s.shared = wholeBarriers + both*s.rows*pitch
	return s, s.shared <= min(wholeMost, k.card.sharedMemory()) && s.rows <= 8*s.warps
}

// gemvWhole multiplies one row by weights that are in shared memory as a whole.
func (k *kernels) gemvWhole(p fewRows, s wholeShape) error {
	in, gated := p.x.Shape[1], given(p.gateUp)
	c := k.call("gemv_whole").gemvTypes(p).set("TOKENS", 1).set("IN", in).set("ROWS", s.rows).set("WARPS", s.warps).set("GATED", gated)
	c.largest = true // else a kernel that is there has to end first
	args := c.gemvArgs(p)
	blocks := args.divide(c, p.w, s.rows, gated == 1)
	return launch(c, "gemv_whole", k.early(driver.Grid{X: blocks + gated, Y: 1, Z: 1, Threads: 32 * (s.warps + 1)}), s.shared, &args)
}

// gemvTypes sets the macros of kernels/gemv.cuh that are types.
func (c *call) gemvTypes(p fewRows) *call {
	w := p.w.Parts[0].DType
	c.as("DST", p.dst.DType).as("SRC", p.x.DType).as("W", w).as("BIAS", biasType(p.w))
	if p.norm.Gamma == nil {
		return c.as("GAMMA", w).as("H", w)
	}
	return c.as("GAMMA", p.norm.Gamma.DType).as("H", p.h.DType)
}

// gemvArgs are the arguments of a product but for the parts.
func (c *call) gemvArgs(p fewRows) gemvArgs {
	args := gemvArgs{dst: c.mat(p.dst), x: c.mat(p.x), h: c.mat(p.h), wide: c.mat(p.gateUp), gamma: c.vec(p.norm.Gamma), in: int32(p.x.Shape[1]), eps: p.norm.Eps}
	if p.add {
		args.add = 1
	}
	return args
}
