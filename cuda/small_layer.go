package cuda

import (
	"slices"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// A layer of one token that is small enough for its weights to lie in the shared memory
// and registers of the whole card, next to each other, is done by three kernels
// (kernels/small.cuh): while one computes, the others have theirs come. Operations wait
// until the layer is whole; anything else launches them one by one.

// Numbers of kernels/small.cuh and of the kernels that include it, but for the last two.
const (
	smallThreads   = 512
	smallCluster   = 8
	mostSmallPairs = 48     // outputs of gate and of up that a block of small_up has, at most
	smallOuts      = 8      // of a block of small_down
	smallRowBytes  = 64     // between rows in shared memory
	smallColumns   = 896    // of x: small_attend has registers for no more
	smallRoom      = 227000 // bytes of shared memory that a multiprocessor has for blocks
)

// smallMost is how many rows a cluster a key head reads in less time than several would
// take to join what they have read.
const smallMost = 2048

// smallLayer is what waits of a layer: these operations in this order, nil where they
// have not come.
type smallLayer struct {
	qkv    *normedRow
	rotate *device.RotateAppendArgs
	attend *device.AttendArgs
	out    *productAdded
	up     *normedRow
	calls  []device.Call // those of a profile under way
}

// waits notes that the operation just issued waits; true.
func (l *smallLayer) waits(k *kernels) bool {
	if p := k.profile; p != nil && p.trace != nil {
		call, _ := p.trace.Last()
		l.calls = append(l.calls, call)
	}
	return true
}

// productAdded is the arguments of a LinearAdd.
type productAdded struct {
	dst, x *device.Tensor
	w      device.Weight
}

// beginSmall has a NormLinear wait, if it can be a small layer's first.
func (k *kernels) beginSmall(p normedRow) bool {
	if !k.smallFirst(p) {
		return false
	}
	k.layer = &smallLayer{qkv: &p}
	return k.layer.waits(k)
}

// smallFirst reports whether a product is q ‖ k ‖ v of a layer that small_attend takes.
func (k *kernels) smallFirst(p normedRow) bool {
	hidden := p.x.Shape[1]
	if k.card.capability != hopper || p.x.Shape[0] != 1 || hidden == 0 || hidden > smallColumns || hidden%128 != 0 || p.h.Buffer == p.x.Buffer {
		return false
	}
	return k.smallHeads(p.w) && vectorOf(4, p.x) == 4 && inVectors(slices.Concat(p.w.Parts, []*device.Tensor{p.dst, p.h, p.norm.Gamma})...)
}

// smallHeads reports whether a weight is q ‖ k ‖ v of heads of 64, no more of a key head
// than a cluster has room for, nor more clusters than leave half of the card to others.
func (k *kernels) smallHeads(w device.Weight) bool {
	if len(w.Parts) != 3 {
		return false
	}
	q, keys, values := w.Parts[0].Shape[0], w.Parts[1].Shape[0], w.Parts[2].Shape[0]
	if q%64 != 0 || keys%64 != 0 || keys == 0 || values != keys || q%keys != 0 || q/keys > groupedHeads-1 || 2*keys/64*smallCluster > k.card.multiprocessors {
		return false
	}
	for _, b := range w.Bias {
		if b.DType != device.BF16 {
			return false
		}
	}
	return true
}

// rotated and the methods after it have an operation wait that continues the layer; false
// where it does not, or where small_attend and the others would not give what it gives.
func (l *smallLayer) rotated(k *kernels, a device.RotateAppendArgs) bool {
	if l == nil || l.rotate != nil || !k.mayWait(a) || a.K.Shape[2] != 64 {
		return false
	}
	heads, keyHeads, row := a.Q.Shape[1], a.K.Shape[1], l.qkv.dst
	if heads*64 != l.qkv.w.Parts[0].Shape[0] || keyHeads*64 != l.qkv.w.Parts[1].Shape[0] ||
		!within(row, a.Q, 0) || !within(row, a.K, heads*64) || !within(row, a.V, (heads+keyHeads)*64) {
		return false
	}
	l.rotate = &a
	return l.waits(k)
}

func (l *smallLayer) attended(k *kernels, a device.AttendArgs) bool {
	if l == nil || l.rotate == nil || l.attend != nil || a.Most == 0 || a.Most > smallMost || a.From != nil || a.Then != nil || a.Out.LSE != nil {
		return false
	}
	r, out := l.rotate, a.Out.Out.Buffer
	if out == l.qkv.x.Buffer || out == l.qkv.h.Buffer || out == l.qkv.dst.Buffer {
		return false
	}
	if !sameView(r.Q, a.Q) || !sameView(r.Keys, a.K) || !sameView(r.Values, a.V) || !sameView(r.Pos, a.Pos) || !inVectors(a.K, a.V, a.Out.Out) {
		return false
	}
	l.attend = &a
	return l.waits(k)
}

func (l *smallLayer) added(k *kernels, p productAdded) bool {
	if l == nil || l.attend == nil || l.out != nil || !sameView(p.dst, l.qkv.x) || !smallWeight(p.w, 1) {
		return false
	}
	if heads := l.attend.Q.Shape[1]; p.x.Shape[1] != heads*64 || !within(p.x, l.attend.Out.Out, 0) {
		return false
	}
	l.out = &p
	return l.waits(k)
}

func (l *smallLayer) gated(k *kernels, p normedRow) bool {
	if l == nil || l.out == nil || l.up != nil || !sameView(p.x, l.qkv.x) || !smallWeight(p.w, 2) || !inVectors(p.norm.Gamma, p.h, p.dst, p.gateUp) {
		return false
	}
	hidden, inner := p.x.Shape[1], p.dst.Shape[1]
	if inner == 0 || p.w.Parts[0].Shape[0] != inner || p.h.Buffer == p.x.Buffer {
		return false
	}
	if inner%64 != 0 || k.smallPairs(inner, l.attend.K.Shape[0]) > mostSmallPairs || ceil(hidden, smallOuts) > k.card.multiprocessors ||
		smallUpBytes(hidden)+smallDownBytes(inner) > smallRoom {
		return false
	}
	l.up = &p
	return l.waits(k)
}

// last reports whether a product is the layer's last.
func (l *smallLayer) last(p productAdded) bool {
	return l != nil && l.up != nil && sameView(p.dst, l.qkv.x) && sameView(p.x, l.up.dst) && smallWeight(p.w, 1)
}

// smallWeight reports whether a weight has so many parts, all BF16 and without bias.
func smallWeight(w device.Weight, parts int) bool {
	return len(w.Parts) == parts && len(w.Bias) == 0 && inVectors(w.Parts...)
}

// within reports whether part, heads one after the other, begins at an element of a row.
func within(row, part *device.Tensor, at int) bool {
	return part.Buffer == row.Buffer && part.DType == row.DType && part.Offset == row.Offset+at && (part.Shape[1] == 1 || part.Stride[1] == part.Shape[2])
}

// release launches what waits of a layer one by one; a rotation may go on waiting.
func (k *kernels) release() error {
	l := k.layer
	if l == nil {
		return nil
	}
	k.layer = nil
	steps := []func() error{func() error { return k.normLinear(*l.qkv) }}
	if l.rotate != nil {
		steps = append(steps, func() error { return k.rotateOrWait(*l.rotate) })
	}
	if l.attend != nil {
		steps = append(steps, func() error { return k.attend(*l.attend) })
	}
	if l.out != nil {
		steps = append(steps, func() error { return k.linear(l.out.dst, l.out.x, l.out.w, true) })
	}
	if l.up != nil {
		steps = append(steps, func() error { return k.normSwiGLU(*l.up) })
	}
	for i, step := range steps {
		if err := k.profile.doing(l.calls[min(i, len(l.calls)):min(i+1, len(l.calls))], step); err != nil {
			return err
		}
	}
	return nil
}

// smallPairs is how many outputs of gate and up a block has, on the multiprocessors that
// attention leaves free.
func (k *kernels) smallPairs(inner, keyHeads int) int {
	return ceil(inner, k.card.multiprocessors-keyHeads*smallCluster)
}

// smallUpBytes and the functions after it are sizes of struct Memory in kernels.
func smallUpBytes(hidden int) int {
	return hidden/64*2*32*128 + normedBytes(hidden) + 8*8*mostSmallPairs + 8*hidden/32
}
func smallDownBytes(inner int) int {
	return smallOuts*(2*inner+smallRowBytes) + 4*smallThreads/32*8 + 8*16
}
func smallAttendBytes(hidden, group int) int {
	exchange := 8*4*32*16 + 2*8*4*8 + 2*4*8*8 + 4*8*8*8 + 16
	row := 2 * ((group+2)*8 + (group+2)*64 + group*64)
	sums := 4 * (4*64 + smallThreads/32*8 + 2*hidden/8)
	return group*hidden/8*128 + 8*(2*hidden+smallRowBytes) + exchange + normedBytes(hidden) + sums + row + 4*64 + 3*8 + 8
}

// normedBytes is the size of struct Normed.
func normedBytes(hidden int) int { return 3*(2*hidden+smallRowBytes) + 4*smallThreads/32 }

type smallAttendArgs struct {
	o                             driver.TensorMap
	w, bias                       [3]vec
	ld                            [3]int64
	out, q, k, v, newK, newV      cube
	x, parts, h, gamma, freq, pos vec
	read                          vec
	capacity, early               int32
	eps, scale, turn              float32
	_                             int32
	_                             [24]byte // a TensorMap's alignment
}

type smallUpArgs struct {
	gate, up                      driver.TensorMap
	gateRows, upRows              vec
	gateLD, upLD                  int64
	dst, wide, h, x, parts, gamma vec
	outs                          int32
	eps                           float32
	_                             [40]byte // a TensorMap's alignment
}

type smallDownArgs struct {
	x, parts, w, y vec
	ld             int64
	outs, _        int32
}

// finishSmall launches a whole layer.
func (k *kernels) finishSmall(down productAdded) error {
	l := k.layer
	k.layer = nil
	var parts vec
	n := max(len(l.calls)-1, 0) // gate and up come last
	err := k.profile.doing(l.calls[:n], func() (err error) {
		parts, err = k.smallAttend(l)
		return err
	})
	if err == nil {
		err = k.profile.doing(l.calls[n:], func() error { return k.smallUp(l, parts) })
	}
	if err != nil {
		return err
	}
	inner, keyHeads, w := down.x.Shape[1], l.attend.K.Shape[0], down.w.Parts[0]
	c := k.call("small_down").sharedMemory().as("DST", down.dst.DType).set("COLUMNS", inner).set("PARTS", keyHeads)
	args := smallDownArgs{x: c.vec(down.dst), parts: parts, w: c.vec(w), y: c.vec(down.x), ld: int64(w.Stride[0]), outs: int32(w.Shape[0])}
	shared := smallDownBytes(inner)
	return launch(c.set("SHARED", shared), "small_down", k.early(blocks(ceil(w.Shape[0], smallOuts), smallThreads)), shared, &args)
}

// smallUp launches gate and up.
func (k *kernels) smallUp(l *smallLayer, parts vec) error {
	p, keyHeads := l.up, l.attend.K.Shape[0]
	hidden, inner, gate, up := p.x.Shape[1], p.dst.Shape[1], p.w.Parts[0], p.w.Parts[1]
	pairs := k.smallPairs(inner, keyHeads)
	c := k.call("small_up").sharedMemory().as("DST", p.dst.DType).as("SRC", p.x.DType).set("HIDDEN", hidden).set("PAIRS", pairs).set("PARTS", keyHeads)
	args := smallUpArgs{
		gate: c.boxes(gate, 32, 64), up: c.boxes(up, 32, 64), gateRows: c.vec(gate), upRows: c.vec(up), gateLD: int64(gate.Stride[0]), upLD: int64(up.Stride[0]),
		dst: c.vec(p.dst), wide: c.vec(p.gateUp), h: c.vec(p.h), x: c.vec(p.x), parts: parts, gamma: c.vec(p.norm.Gamma), outs: int32(inner), eps: p.norm.Eps,
	}
	shared := smallUpBytes(hidden)
	return launch(c.set("SHARED", shared), "small_up", k.early(blocks(ceil(inner, pairs), smallThreads)), shared, &args)
}

// smallAttend launches the half of a layer that attends, and says where it leaves what is
// to be added to x.
func (k *kernels) smallAttend(l *smallLayer) (parts vec, err error) {
	p, r, a, o := l.qkv, l.rotate, l.attend, l.out.w.Parts[0]
	heads, keyHeads, hidden := a.Q.Shape[1], a.K.Shape[0], p.x.Shape[1]
	group := heads / keyHeads
	c := k.call("small_attend").sharedMemory().as("SRC", p.x.DType).set("HIDDEN", hidden).set("GROUP", group)
	parts = c.scratch(4 * keyHeads * hidden)[0]
	args := smallAttendArgs{
		o: c.boxes(o, hidden/smallCluster, 64), out: c.cube(a.Out.Out), q: c.cube(a.Q), k: c.cube(a.K), v: c.cube(a.V), newK: c.cube(r.K), newV: c.cube(r.V),
		x: c.vec(p.x), parts: parts, h: c.vec(p.h), gamma: c.vec(p.norm.Gamma), freq: c.vec(r.RoPE.InvFreq), pos: c.vec(a.Pos), read: c.vec(a.Read),
		capacity: int32(a.K.Shape[1]), eps: p.norm.Eps, scale: a.Scale, turn: r.RoPE.Scale,
	}
	for i, w := range p.w.Parts {
		args.w[i], args.ld[i] = c.vec(w), int64(w.Stride[0])
		if len(p.w.Bias) > 0 {
			args.bias[i] = c.vec(p.w.Bias[i])
		}
	}
	args.early = c.frozenBefore(a.K, a.Pos) & c.frozenBefore(a.V, a.Pos)
	c.appends(a.K, a.Pos, nil)
	c.appends(a.V, a.Pos, nil)
	grid := driver.Grid{X: smallCluster, Y: keyHeads, Z: 1, Threads: smallThreads, Early: true, Cluster: smallCluster}
	shared := smallAttendBytes(hidden, group)
	return parts, launch(c.set("SHARED", shared), "small_attend", grid, shared, &args)
}
