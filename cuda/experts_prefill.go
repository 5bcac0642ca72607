package cuda

import (
	"fmt"
	"slices"

	"blitzen/cuda/driver"
	"blitzen/device"
)

type expertsHopperArgs struct {
	rowBoxes, innerBoxes                      driver.TensorMap
	weightBoxes                               vec
	dst, x, ids, weights                      mat
	table                                     vec
	counts, starts, rank, order               vec
	tiles, total                              vec
	rows, inner                               vec
	hidden, width, k, experts, choices, parts int32
	_                                         [24]byte // a TensorMap's alignment
}

// expertsForTensorCores reports whether the tensor cores' kernels take these
// types, sizes and alignments.
func expertsForTensorCores(a device.ExpertsArgs, width int) bool {
	wide := func(ts ...*device.Tensor) bool {
		for _, t := range ts {
			if t.DType != device.BF16 || vectorOf(8, t) < 8 {
				return false
			}
		}
		return true
	}
	for _, e := range a.Experts {
		if slices.ContainsFunc(slices.Concat(e.GateUp.Bias, e.Down.Bias), func(b *device.Tensor) bool { return b.DType != device.BF16 }) {
			return false
		}
		if e.GateUp.Out() != 2*width || !wide(e.GateUp.Parts...) || !wide(e.Down.Parts...) {
			return false
		}
	}
	return width%8 == 0 && wide(a.X) && a.Dst.DType.Float() && vectorOf(4, a.Dst) == 4
}

// expertsHopper runs on Hopper's tensor cores, with its copy engine.
func (k *kernels) expertsHopper(a device.ExpertsArgs, width int) error {
	const rows, columns, stages, part = 128, 256, 4, 1024 // kernels/experts_prefill.cu
	tokens, n, hidden, experts := a.X.Shape[0], a.IDs.Shape[1], a.X.Shape[1], len(a.Experts)
	choices := tokens * n
	parts := ceil(choices, part)
	memory := 128*stages*(rows+columns) + 16*stages // struct Memory
	c := k.call("experts_prefill").as("DST", a.Dst.DType).as("W", device.BF16).as("BIAS", device.BF16).set("SHARED", memory)
	s := c.scratch(4*parts*experts, 4*experts, 4*choices, 4*choices, 16*(choices/rows+experts), 4, 2*choices*hidden, 2*choices*width)
	boxes := func(at vec, width int) driver.TensorMap {
		return c.boxesAt(at, []int{choices, width}, []int{width, 1}, []int{rows, 64})
	}
	args := expertsHopperArgs{
		rowBoxes: boxes(s[6], hidden), innerBoxes: boxes(s[7], width), weightBoxes: c.weightBoxes(a),
		dst: c.mat(a.Dst), x: c.mat(a.X), ids: c.mat(a.IDs), weights: c.mat(a.Weights), table: c.table(a),
		counts: s[0], starts: s[1], rank: s[2], order: s[3], tiles: s[4], total: s[5], rows: s[6], inner: s[7],
		hidden: int32(hidden), width: int32(width), k: int32(n), experts: int32(experts), choices: int32(choices), parts: int32(parts),
	}
	product := blocks(k.card.multiprocessors, 384)
	for _, l := range []struct {
		kernel string
		grid   driver.Grid
		shared int
	}{
		{"count", blocks(parts, part), 4 * 32 * experts},
		{"plan", blocks(1, 1024), 8 * experts},
		{"place", blocks(ceil(tokens, 8), threads), 0},
		{"gate_up", product, memory},
		{"down", product, memory},
		{"combine", driver.Grid{X: tokens, Y: ceil(hidden, 8*threads), Z: 1, Threads: threads}, 0},
	} {
		if err := launch(c, l.kernel, l.grid, l.shared, &args); err != nil {
			return err
		}
	}
	return nil
}

// weightBoxes describes the experts' matrices to the copy engine: gate, up and
// down of each. Like tables they are made once and kept.
func (c *call) weightBoxes(a device.ExpertsArgs) vec {
	rows := c.expertRows(a)
	if rows == nil {
		return 0
	}
	hidden := a.X.Shape[1]
	key := fmt.Appendf(nil, "boxes over %d ", hidden)
	return c.kept(append(key, bytesOf(rows)...), func() ([]byte, error) {
		var maps []driver.TensorMap
		box := []int{128, 64}
		for _, e := range rows {
			width := int(e.width)
			maps = append(maps,
				c.boxesAt(e.gate, []int{width, hidden}, []int{int(e.gateLD), 1}, box),
				c.boxesAt(e.up, []int{width, hidden}, []int{int(e.upLD), 1}, box),
				c.boxesAt(e.down, []int{hidden, width}, []int{int(e.downLD), 1}, box))
		}
		return bytesOf(maps), c.err
	})
}
