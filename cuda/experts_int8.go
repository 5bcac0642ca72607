package cuda

import (
	"fmt"

	"blitzen/cuda/driver"
	"blitzen/device"
)

type int8ExpertsArgs struct {
	dst, table, firstTile                     vec
	hidden, width, from, first, matrices, pad int32
}

// widening says what of experts is widened at once: the matrices first to end − 1
// of gate, up and down, of size experts.
type widening struct{ width, first, end, size int }

// widenExperts writes weights of the experts from ≤ e < to that have tokens as
// BF16 and describes them to the copy engine.
func (c *call) widenExperts(a device.ExpertsArgs, s widening, from, to int, table, firstTile vec) vec {
	k, hidden, matrices := c.k, a.X.Shape[1], s.end-s.first
	dst := device.NewTensor("widened", device.BF16, &buffer{}, s.size, matrices, s.width*hidden)
	if err := k.takeSteps(dst); err != nil {
		c.err = err
		return 0
	}
	var w []*device.Tensor
	for _, e := range a.Experts {
		w = append(append(w, e.GateUp.Parts...), e.Down.Parts...)
	}
	vector := vectorOf(16, w...)
	widen := k.call("int8_experts").as("W", device.I8).as("BIAS", biasesOf(a.Experts[0])).set("VEC", vector)
	args := int8ExpertsArgs{c.vec(dst), table, firstTile, int32(hidden), int32(s.width), int32(from), int32(s.first), int32(matrices), 0}
	grid := driver.Grid{X: ceil(s.width*hidden/vector, threads), Y: matrices * (to - from), Z: 1, Threads: threads}
	if err := launch(widen, "widen_experts", grid, 0, &args); err != nil {
		c.err = err
		return 0
	}
	if k.plan != nil {
		return 0
	}
	at := func(i, matrix int) vec { return c.vec(dst.Index(0, i).Index(0, matrix)) }
	return c.kept(fmt.Appendf(nil, "boxes of %v over %d, widened at %d", s, hidden, at(0, 0)), func() ([]byte, error) {
		maps, box := make([]driver.TensorMap, 3*s.size), []int{128, 64}
		for i := range s.size {
			for m := s.first; m < s.end; m++ {
				shape := []int{s.width, hidden}
				if m == 2 {
					shape = []int{hidden, s.width}
				}
				maps[3*i+m] = c.boxesAt(at(i, m-s.first), shape, []int{shape[1], 1}, box)
			}
		}
		return bytesOf(maps), c.err
	})
}

// expertsFewInt8 is expertsFew with weights of signed bytes.
func (k *kernels) expertsFewInt8(a device.ExpertsArgs, width int) error {
	const threads, blocksEach, downThreads, outs, deep = 512, 2, 384, 8, 2 // blocks of a multiprocessor; loads ahead
	tokens, n, hidden := a.X.Shape[0], a.IDs.Shape[1], a.X.Shape[1]
	c := k.call("experts_few_int8").expertTypes(a)
	w := []*device.Tensor{a.X}
	for _, e := range a.Experts {
		w = append(append(w, e.GateUp.Parts...), e.Down.Parts...)
	}
	c.set("VEC", vectorOf(16, w...)).set("THREADS", threads).set("DOWN_THREADS", downThreads)
	c.set("BLOCKS", blocksEach).set("OUTS", outs).set("DEEP", deep)
	ld := ceil(width, 16) * 16
	args := expertsFewArgs{
		c.mat(a.Dst), c.mat(a.X), c.mat(a.IDs), c.mat(a.Weights), c.table(a), c.scratch(4 * tokens * n * ld)[0], int64(ld),
		int32(tokens), int32(hidden), int32(width), int32(n), int32(len(a.Experts)), 0,
	}
	all := blocks(min(blocksEach*k.card.multiprocessors, tokens*n*width), threads)
	if err := launch(c, "gate_up", k.early(all), 0, &args); err != nil {
		return err
	}
	return launch(c, "down", k.early(driver.Grid{X: ceil(hidden, outs), Y: tokens, Z: 1, Threads: downThreads}), 4*outs*n, &args)
}
