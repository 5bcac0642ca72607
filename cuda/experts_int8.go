package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// expertsInt8Shape says how kernels/experts_few_int8.cu is compiled: threads of
// a block and blocks of a multiprocessor, for both kernels; outputs of down a
// block; loads ahead.
type expertsInt8Shape struct{ threads, blocks, downThreads, downBlocks, outs, deep int }

var fewInt8 = expertsInt8Shape{256, 3, 384, 2, 8, 4}

// expertsFewInt8 is expertsFew with weights of signed bytes.
func (k *kernels) expertsFewInt8(a device.ExpertsArgs, width int, s expertsInt8Shape) error {
	tokens, n, hidden := a.X.Shape[0], a.IDs.Shape[1], a.X.Shape[1]
	c := k.call("experts_few_int8").expertTypes(a)
	w := []*device.Tensor{a.X}
	for _, e := range a.Experts {
		w = append(append(w, e.GateUp.Parts...), e.Down.Parts...)
	}
	c.set("VEC", vectorOf(16, w...)).set("THREADS", s.threads).set("BLOCKS", s.blocks)
	c.set("DOWN_THREADS", s.downThreads).set("DOWN_BLOCKS", s.downBlocks).set("OUTS", s.outs).set("DEEP", s.deep)
	ld := ceil(width, 16) * 16
	args := expertsFewArgs{
		c.mat(a.Dst), c.mat(a.X), c.mat(a.IDs), c.mat(a.Weights), c.table(a), c.scratch(4 * tokens * n * ld)[0], int64(ld),
		int32(tokens), int32(hidden), int32(width), int32(n), int32(len(a.Experts)), 0,
	}
	all := blocks(min(s.blocks*k.card.multiprocessors, tokens*n*width), s.threads)
	if err := launch(c, "gate_up", k.early(all), 0, &args); err != nil {
		return err
	}
	return launch(c, "down", k.early(driver.Grid{X: ceil(hidden, s.outs), Y: tokens, Z: 1, Threads: s.downThreads}), 4*s.outs*n, &args)
}
