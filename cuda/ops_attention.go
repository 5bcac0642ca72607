package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// Numbers of kernels/split.cuh.
const (
	splits  = 64
	tileRow = 64
)

// headsAtOnce is the most query heads that a block scores against a key.
const headsAtOnce = 8

type attendFewArgs struct {
	parts                  vec
	q, k, v                cube
	from, pos              vec
	heads, group, capacity int32
	scale                  float32
}

type mergePartsArgs struct {
	out                             cube
	lse                             mat
	parts, from, pos, lengths, read vec
	heads, keyHeads, capacity, dv   int32
}

// Attend implements device.Kernels.
func (k *kernels) Attend(a device.AttendArgs) error {
	if k.layer.attended(k, a) {
		return nil
	}
	if err := k.release(); err != nil {
		return err
	}
	return k.attend(a)
}

func (k *kernels) attend(a device.AttendArgs) error {
	if a.Then != nil && !k.mergesUp(a) {
		return device.AttendBySteps(k, a)
	}
	if s, ok := k.forOne(a); ok && a.Then == nil {
		return k.attendOne(a, s)
	}
	if a.Q.Shape[0] > fewTokens {
		return k.attendMany(a)
	}
	return k.attendFew(a)
}

// attentionTypes sets the macros of attention.cuh.
func (c *call) attentionTypes(q, keys, v *device.Tensor, heads int) *call {
	vector := vectorOf(16/keys.DType.Size(), keys)
	for vector > 1 && 32*vector > keys.Shape[2] { // narrow heads: no idle lanes
		vector /= 2
	}
	c.as("Q", q.DType).as("K", keys.DType).as("V", v.DType).set("DK", keys.Shape[2]).set("DV", v.Shape[2])
	return c.set("HEADS", heads).set("VEC", vector)
}

// attendFewPlain takes any types, sizes and alignments.
func (k *kernels) attendFewPlain(a device.AttendArgs) error {
	tokens, heads, keyHeads := a.Q.Shape[0], a.Q.Shape[1], a.K.Shape[0]
	group := heads / keyHeads
	atOnce := min(group, headsAtOnce)
	c := k.call("attend_few").attentionTypes(a.Q, a.K, a.V, atOnce)
	parts := c.scratch(4 * tokens * heads * splits * (a.V.Shape[2] + 2))[0]
	args := attendFewArgs{
		parts, c.cube(a.Q), c.cube(a.K), c.cube(a.V), c.vec(a.From), c.vec(a.Pos),
		int32(heads), int32(group), int32(a.K.Shape[1]), a.Scale,
	}
	grid := driver.Grid{X: splits, Y: keyHeads * ceil(group, atOnce), Z: tokens, Threads: threads}
	if err := launch(c, "attend_few", grid, 0, &args); err != nil {
		return err
	}
	return k.mergeParts(a.Out, mergePartsArgs{
		parts: parts, from: c.vec(a.From), pos: c.vec(a.Pos), read: c.vec(a.Read),
		keyHeads: int32(keyHeads), capacity: int32(a.K.Shape[1]),
	})
}

// mergeParts puts split attention together.
func (k *kernels) mergeParts(out device.Partial, args mergePartsArgs) error {
	c := k.call("merge_parts").as("DST", out.Out.DType)
	args.out, args.lse = c.cube(out.Out), c.mat(out.LSE)
	args.heads, args.dv = int32(out.Out.Shape[1]), int32(out.Out.Shape[2])
	return launch(c, "merge_parts", driver.Grid{X: out.Out.Shape[1], Y: out.Out.Shape[0], Z: 1, Threads: 128}, 0, &args)
}

type mergeArgs struct {
	dst, outA, outB cube
	lseA, lseB      mat
	dv              int64
}

// Merge implements device.Kernels.
func (k *kernels) Merge(dst *device.Tensor, a, b device.Partial) error {
	c := k.call("merge").as("DST", dst.DType).as("A", a.Out.DType).as("B", b.Out.DType)
	args := mergeArgs{c.cube(dst), c.cube(a.Out), c.cube(b.Out), c.mat(a.LSE), c.mat(b.LSE), int64(dst.Shape[2])}
	return launch(c, "merge", driver.Grid{X: dst.Shape[0], Y: dst.Shape[1], Z: 1, Threads: 128}, 0, &args)
}
