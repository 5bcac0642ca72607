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
	tiles, firstTile                          vec
	rows, inner                               vec
	hidden, width, k, experts, choices, parts int32
	from, to                                  int32
	_                                         [16]byte // a TensorMap's alignment
}

// expertsForTensorCores reports whether the tensor cores' kernels take these
// types, sizes and alignments.
func expertsForTensorCores(a device.ExpertsArgs, width int) bool {
	wide := func(ts ...*device.Tensor) bool {
		for _, t := range ts {
			if t.DType != device.I8 && (t.DType != device.BF16 || vectorOf(8, t) < 8) {
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
	return width%8 == 0 && a.X.DType == device.BF16 && wide(a.X) && a.Dst.DType.Float() && vectorOf(4, a.Dst) == 4
}

// Numbers of kernels/experts_prefill.cu.
const (
	expertRows    = 128 // of a tile
	expertColumns = 256
	expertStages  = 4
	expertPart    = 1024 // choices that a block counts
)

// expertsHopper runs on Hopper's tensor cores, with its copy engine.
func (k *kernels) expertsHopper(a device.ExpertsArgs, width int) error {
	tokens, n, hidden, experts := a.X.Shape[0], a.IDs.Shape[1], a.X.Shape[1], len(a.Experts)
	choices := tokens * n
	parts := ceil(choices, expertPart)
	memory := 128*expertStages*(expertRows+expertColumns) + 16*expertStages // struct Memory
	c := k.call("experts_prefill").as("DST", a.Dst.DType).as("W", device.BF16).as("BIAS", device.BF16).set("SHARED", memory)
	s := c.scratch(4*parts*experts, 4*experts, 4*choices, 4*choices, 16*(choices/expertRows+experts), 4*(experts+1), 2*choices*hidden, 2*choices*width)
	boxes := func(at vec, width int) driver.TensorMap {
		return c.boxesAt(at, []int{choices, width}, []int{width, 1}, []int{expertRows, 64})
	}
	args := expertsHopperArgs{
		rowBoxes: boxes(s[6], hidden), innerBoxes: boxes(s[7], width),
		dst: c.mat(a.Dst), x: c.mat(a.X), ids: c.mat(a.IDs), weights: c.mat(a.Weights), table: c.table(a),
		counts: s[0], starts: s[1], rank: s[2], order: s[3], tiles: s[4], firstTile: s[5], rows: s[6], inner: s[7],
		hidden: int32(hidden), width: int32(width), k: int32(n), experts: int32(experts), choices: int32(choices), parts: int32(parts),
	}
	step := func(kernel string, grid driver.Grid, shared int) {
		if err := launch(c, kernel, grid, shared, &args); err != nil && c.err == nil {
			c.err = err
		}
	}
	step("count", blocks(parts, expertPart), 4*32*experts)
	step("plan", blocks(1, 1024), 8*experts)
	step("place", blocks(ceil(tokens, 8), threads), 0)
	for _, half := range []struct {
		kernel     string
		first, end int // matrices of gate, up, down
	}{{"gate_up", 0, 2}, {"down", 2, 3}} {
		for _, pass := range c.expertPasses(a, width, half.first, half.end) {
			args.from, args.to = int32(pass.from), int32(pass.to)
			args.weightBoxes = pass.boxes(args.table, args.firstTile)
			step(half.kernel, blocks(k.card.multiprocessors, 384), memory)
		}
	}
	step("combine", driver.Grid{X: tokens, Y: ceil(hidden, 8*threads), Z: 1, Threads: threads}, 0)
	return c.err
}

// expertPass is experts that are multiplied together. boxes makes their weights
// ready and describes them to the copy engine.
type expertPass struct {
	from, to int
	boxes    func(table, firstTile vec) vec
}

// expertPasses is one for all, or several where signed bytes, matrices first to
// end − 1 of gate, up and down, are widened into memory for few of them.
func (c *call) expertPasses(a device.ExpertsArgs, width, first, end int) []expertPass {
	n := len(a.Experts)
	if a.Experts[0].Down.Parts[0].DType != device.I8 {
		return []expertPass{{0, n, func(vec, vec) vec { return c.weightBoxes(a) }}}
	}
	passes := ceil(n, c.k.atOnce((end-first)*width*a.X.Shape[1]))
	w := widening{width: width, first: first, end: end, size: ceil(n, passes)}
	var all []expertPass
	for from := 0; from < n; from += w.size {
		to := min(from+w.size, n)
		all = append(all, expertPass{from, to, func(table, firstTile vec) vec {
			return c.widenExperts(a, w, from, to, table, firstTile)
		}})
	}
	return all
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
