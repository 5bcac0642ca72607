package cuda

import (
	"slices"

	"blitzen/cuda/driver"
	"blitzen/device"
)

type attendOneArgs struct {
	out                        cube
	lse                        mat
	q, k, v, newK, newV        cube
	freq, parts, mass, arrived vec
	from, pos, read            vec
	heads, group, capacity     int32
	scale, turn                float32
	early                      int32
}

// nearShape is how kernels/attend_one.cu is divided.
type nearShape struct {
	cluster        int // blocks of a cluster
	clusters       int // of a key head
	alone, atLeast int // rows that one cluster reads; rows of a cluster at least, where there are several
}

// forOne reports whether attend_one takes the operation, and how: one token on a card
// with room for a cluster a key head. Rows of 128 are left to the two kernels whose
// blocks fill the card, where clusters leave out some multiprocessors: of many rows they
// are faster.
func (k *kernels) forOne(a device.AttendArgs) (s nearShape, ok bool) {
	if a.Q.Shape[0] != 1 || a.K.Shape[2] != 64 || !k.forGrouped(a) || !k.overlaps() {
		return s, false
	}
	s = nearShape{cluster: 8, alone: 2048, atLeast: 1024}
	s.clusters = k.card.multiprocessors * 17 / 20 / s.cluster / a.K.Shape[0] // they come in groups of some 16, which clusters do not fill
	return s, s.clusters > 0
}

// attendOne does all of attention in one kernel, and the rotation that waits if it is
// of the same rows.
func (k *kernels) attendOne(a device.AttendArgs, s nearShape) error {
	r, rotate := k.rotation, 0
	if r != nil && a.From == nil && sameView(r.Q, a.Q) && sameView(r.Keys, a.K) && sameView(r.Values, a.V) && sameView(r.Pos, a.Pos) {
		k.rotation, rotate = nil, 1
	}
	heads, keyHeads, d := a.Q.Shape[1], a.K.Shape[0], a.K.Shape[2]
	c := k.call("attend_one").as("ELEMENT", a.K.DType).as("DST", a.Out.Out.DType).set("D", d).set("WARPS", groupedWarps).set("ROTATE", rotate)
	c.set("CLUSTER", s.cluster).set("CLUSTERS", s.clusters).set("ALONE", s.alone).set("AT_LEAST", s.atLeast)
	at := c.scratch(4*keyHeads*s.clusters*8*d, 8*keyHeads*s.clusters*s.cluster*8)
	args := attendOneArgs{
		out: c.cube(a.Out.Out), lse: c.mat(a.Out.LSE), q: c.cube(a.Q), k: c.cube(a.K), v: c.cube(a.V), parts: at[0], mass: at[1], arrived: c.arrivals(),
		from: c.vec(a.From), pos: c.vec(a.Pos), read: c.vec(a.Read), heads: int32(heads), group: int32(heads / keyHeads), capacity: int32(a.K.Shape[1]),
		scale: a.Scale,
	}
	if rotate == 1 {
		args.newK, args.newV, args.freq, args.turn = c.cube(r.K), c.cube(r.V), c.vec(r.RoPE.InvFreq), r.RoPE.Scale
		args.early = c.frozenBefore(a.K, a.Pos) & c.frozenBefore(a.V, a.Pos)
		c.appends(a.K, a.Pos, nil)
		c.appends(a.V, a.Pos, nil)
	}
	grid := driver.Grid{X: s.clusters * s.cluster, Y: keyHeads, Z: 1, Threads: 32 * groupedWarps, Early: true, Cluster: s.cluster}
	return launch(c, "attend_one", grid, 0, &args)
}

// arrivals are where clusters count themselves: 0 between launches.
func (c *call) arrivals() vec {
	if c.err != nil || c.k.plan != nil {
		return 0
	}
	return c.kept([]byte("arrivals"), func() ([]byte, error) { return make([]byte, 4*c.k.card.multiprocessors), nil })
}

// RotateAppend implements device.Kernels. It may wait for an Attend to the same rows,
// which then does it besides; whatever else comes launches it.
func (k *kernels) RotateAppend(a device.RotateAppendArgs) error {
	if k.layer.rotated(k, a) {
		return nil
	}
	if err := k.flush(); err != nil {
		return err
	}
	return k.rotateOrWait(a)
}

func (k *kernels) rotateOrWait(a device.RotateAppendArgs) error {
	if !k.mayWait(a) {
		return k.rotateAppend(a)
	}
	k.rotation = &a
	return nil
}

// mayWait reports whether attend_one can do this besides.
func (k *kernels) mayWait(a device.RotateAppendArgs) bool {
	d := a.Q.Shape[2]
	if a.V == nil || a.Norm.Gamma != nil || a.Turned != nil || a.Slots != nil || a.Beside != nil || a.RoPE.Pairing != device.HalfSplit ||
		a.K.Shape[2] != d || a.V.Shape[2] != d || !inHalfVectors(a.Q, a.K, a.V, a.Keys, a.Values) {
		return false
	}
	_, ok := k.forOne(device.AttendArgs{Q: a.Q, K: a.Keys, V: a.Values})
	return ok
}

// flush launches what waits.
func (k *kernels) flush() error {
	if err := k.release(); err != nil {
		return err
	}
	a := k.rotation
	if a == nil {
		return nil
	}
	k.rotation = nil
	return k.rotateAppend(*a)
}

// sameView reports whether tensors are the same elements.
func sameView(a, b *device.Tensor) bool {
	return a.Buffer == b.Buffer && a.Offset == b.Offset && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && slices.Equal(a.Stride, b.Stride)
}
