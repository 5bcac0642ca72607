package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// Numbers of kernels/attend_decode.cu, attend_latent.cu and attend_merge.cu.
const (
	groupedHeads  = 8  // query heads of a key head, at most
	groupedWarps  = 8  // of a block
	groupedLeast  = 64 // rows of a block, where there are so many
	latentHeads   = 16 // query heads of a key head, at most
	latentRows    = 32 // of a tile, and of a block at least
	latentPiece   = 8  // rows that are copied at least
	latentPanel   = 64 // columns that are copied beside each other
	latentWarps   = 4  // of a group: one copies, one scores, one adds up values
	latentStages  = 3
	latentBuffers = 2
	mergeColumns  = 64 // of a block
	mergeThreads  = 512
)

type attendDecodeArgs struct {
	out, mass              vec
	q, k, v                cube
	from, pos              vec
	heads, group, capacity int32
	scale                  float32
}

type attendLatentArgs struct {
	tiles, pieces          driver.TensorMap
	q                      cube
	out, mass, from, pos   vec
	heads, group, capacity int32
	scale                  float32
	early                  int32
	_                      [52]byte // a TensorMap's alignment
}

type attendMergeArgs struct {
	out                             cube
	lse                             mat
	parts, mass, from, pos, read    vec
	dst, w                          cube
	heads, keyHeads, capacity, outs int32
}

// attendFew is attention of at most fewTokens tokens.
func (k *kernels) attendFew(a device.AttendArgs) error {
	switch {
	case k.forGrouped(a):
		return k.attendGrouped(a)
	case k.forLatent(a):
		return k.attendLatent(a)
	default:
		return k.attendFewPlain(a)
	}
}

// mergesUp reports whether attend_merge does the product after attention as well.
func (k *kernels) mergesUp(a device.AttendArgs) bool {
	w := a.Then.W
	return a.Q.Shape[0] <= fewTokens && (k.forGrouped(a) || k.forLatent(a)) && k.overlaps() && !a.Then.Transpose && inVectors(w)
}

// forGrouped reports whether attend_decode takes these types, sizes and
// alignments, and the card has room for a block a key head.
func (k *kernels) forGrouped(a device.AttendArgs) bool {
	d := a.K.Shape[2]
	return a.K.Shape[0] <= k.card.multiprocessors && inHalfVectors(a.Q, a.K, a.V) && (d == 64 || d == 128) && a.V.Shape[2] == d && a.Q.Shape[1]/a.K.Shape[0] <= groupedHeads
}

// forLatent reports whether attend_latent does, on this card: values are the first
// columns of keys.
func (k *kernels) forLatent(a device.AttendArgs) bool {
	dk, dv := a.K.Shape[2], a.V.Shape[2]
	return a.K.Shape[0] <= k.card.multiprocessors && k.card.capability == hopper && inVectors(a.Q, a.K, a.V) && sameRows(a.K, a.V) && dk <= 576 && (dv == 128 || dv == 256 || dv == 512) && dv <= dk &&
		a.Q.Shape[1]/a.K.Shape[0] <= latentHeads
}

// inVectors reports whether tensors are all BF16 and can be read by 16 bytes.
func inVectors(ts ...*device.Tensor) bool { return ts[0].DType == device.BF16 && alike(ts...) }

// inHalfVectors is inVectors for BF16 or F16.
func inHalfVectors(ts ...*device.Tensor) bool {
	return ts[0].DType == device.F16 && alike(ts...) || inVectors(ts...)
}

// alike reports whether tensors of a type of 2 bytes have one type and can be read
// by 16 bytes.
func alike(ts ...*device.Tensor) bool {
	for _, t := range ts {
		if t.DType != ts[0].DType || vectorOf(8, t) < 8 {
			return false
		}
	}
	return true
}

// sameRows reports whether b's rows begin where a's do.
func sameRows(a, b *device.Tensor) bool {
	return a.Buffer == b.Buffer && a.Offset == b.Offset && a.Stride[0] == b.Stride[0] && a.Stride[1] == b.Stride[1]
}

// attendGrouped reads keys and values once for all query heads of a key head.
func (k *kernels) attendGrouped(a device.AttendArgs) error {
	tokens, heads, keyHeads, d := a.Q.Shape[0], a.Q.Shape[1], a.K.Shape[0], a.K.Shape[2]
	c := k.call("attend_decode").as("ELEMENT", a.K.DType).set("D", d).set("WARPS", groupedWarps)
	parts := c.decodeParts(a, groupedLeast)
	args := attendDecodeArgs{
		parts.out, parts.mass, c.cube(a.Q), c.cube(a.K), c.cube(a.V), c.vec(a.From), c.vec(a.Pos),
		int32(heads), int32(heads / keyHeads), int32(a.K.Shape[1]), a.Scale,
	}
	shared := groupedWarps*(d/16)*512 + 8*d*4 + groupedWarps*64 // struct Memory
	grid := driver.Grid{X: parts.n, Y: keyHeads, Z: tokens, Threads: 32 * groupedWarps, Early: k.overlaps()}
	if err := launch(c, "attend_decode", grid, shared, &args); err != nil {
		return err
	}
	return k.attendMerge(a, parts)
}

// attendLatent reads the rows that are keys and values once.
func (k *kernels) attendLatent(a device.AttendArgs) error {
	tokens, heads, keyHeads, dk := a.Q.Shape[0], a.Q.Shape[1], a.K.Shape[0], a.K.Shape[2]
	c := k.call("attend_latent").set("DK", dk).set("DV", a.V.Shape[2]).set("STAGES", latentStages)
	parts := c.decodeParts(a, latentRows)
	args := attendLatentArgs{
		q: c.cube(a.Q), out: parts.out, mass: parts.mass, from: c.vec(a.From), pos: c.vec(a.Pos),
		heads: int32(heads), group: int32(heads / keyHeads), capacity: int32(a.K.Shape[1]), scale: a.Scale,
	}
	args.tiles, args.pieces = c.latentBoxes(a.K)
	if tokens == 1 {
		args.early = c.frozen(a.From) & c.frozenBefore(a.K, a.Pos)
	}
	panels := ceil(dk, latentPanel)
	shared := 2*latentPanel*panels*(latentStages*latentRows+latentHeads) + // struct Memory
		latentBuffers*(2*latentHeads*(latentRows+8)+4*latentHeads+4) + 8*latentHeads*latentWarps + 16*latentStages + 8
	grid := driver.Grid{X: parts.n, Y: keyHeads, Z: tokens, Threads: 3 * 32 * latentWarps, Early: k.overlaps()}
	if err := launch(c, "attend_latent", grid, shared, &args); err != nil {
		return err
	}
	return k.attendMerge(a, parts)
}

// latentBoxes describes rows to the copy engine: a tile of them, in pieces, and a
// piece. Where they are whole panels, a box has all columns; else one of a piece has a
// panel, and there is none of a tile.
func (c *call) latentBoxes(k *device.Tensor) (tiles, pieces driver.TensorMap) {
	heads, rows, columns := k.Shape[0], k.Shape[1], k.Shape[2]
	if columns%latentPanel != 0 {
		return tiles, c.boxes(k, 1, latentPiece, latentPanel)
	}
	at, head, row, panels := c.vec(k), k.Stride[0], k.Stride[1], columns/latentPanel
	if heads == 1 { // has a stride that nobody uses and that may be odd
		head = latentPanel
	}
	pieces = c.boxesAt(at, []int{heads, panels, rows, latentPanel}, []int{head, latentPanel, row, 1}, []int{1, panels, latentPiece, latentPanel})
	const n = latentRows / latentPiece
	tiles = pieces                                    // of fewer rows than a tile has, only pieces are brought
	if first := rows - (n-1)*latentPiece; first > 0 { // rows that a tile's first piece may have
		tiles = c.boxesAt(at, []int{heads, n, panels, first, latentPanel}, []int{head, latentPiece * row, latentPanel, row, 1}, []int{1, n, panels, latentPiece, latentPanel})
	}
	return tiles, pieces
}

// overlaps reports whether kernels may be launched early.
func (k *kernels) overlaps() bool { return k.card.capability >= hopper }

// decodeParts are the results of the blocks that share a key head's rows: as
// many as the card runs at once, with at least so many rows each.
type decodeParts struct {
	out, mass vec
	n, least  int
}

func (c *call) decodeParts(a device.AttendArgs, least int) decodeParts {
	heads := a.Q.Shape[0] * a.Q.Shape[1]
	n := c.k.card.multiprocessors / a.K.Shape[0]
	c.set("PARTS", n).set("LEAST", least)
	at := c.scratch(4*heads*n*a.V.Shape[2], 8*heads*n)
	return decodeParts{at[0], at[1], n, least}
}

// attendMerge puts the parts of attention together.
func (k *kernels) attendMerge(a device.AttendArgs, parts decodeParts) error {
	dv := a.V.Shape[2]
	c := k.call("attend_merge").as("DST", a.Out.Out.DType).set("DV", dv).set("PARTS", parts.n).set("LEAST", parts.least)
	args := attendMergeArgs{
		out: c.cube(a.Out.Out), lse: c.mat(a.Out.LSE), parts: parts.out, mass: parts.mass, from: c.vec(a.From), pos: c.vec(a.Pos), read: c.vec(a.Read),
		heads: int32(a.Q.Shape[1]), keyHeads: int32(a.K.Shape[0]), capacity: int32(a.K.Shape[1]),
	}
	grid := driver.Grid{X: dv / mergeColumns, Y: a.Q.Shape[1], Z: a.Q.Shape[0], Threads: mergeThreads, Early: k.overlaps()}
	if p := a.Then; p != nil {
		c.set("UP", 1).as("UP_DST", p.Dst.DType)
		args.dst, args.w, args.outs = c.cube(p.Dst), c.cube(p.W), int32(p.Dst.Shape[2])
		grid.Cluster = grid.X
	}
	return launch(c, "attend_merge", grid, 0, &args)
}
