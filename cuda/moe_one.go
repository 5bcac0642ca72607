package cuda

import (
	"bytes"
	"unsafe"

	"blitzen/device"
)

// Numbers of kernels/moe.cu.
const (
	moeThreads = 512
	moeBlocks  = 2   // of a multiprocessor
	moeOuts    = 8   // of a block
	moeDeep    = 6   // loads of a segment
	moeChoices = 32  // at most
	moeExperts = 256 // at most
	moePieces  = 4   // of 4 numbers of a row, a thread, at most
)

type moeArgs struct {
	x, gamma, router, ids, weights, gate, up, down, table, inner, logits vec
	routerLD, gateLD, upLD, downLD                                       int64
	hidden, shared, width, experts, k, normalize                         int32
	segment, sharedParts, expertParts                                    int32
	eps, scale                                                           float32
	_                                                                    int32
}

// MoE implements device.Kernels: for one row in two kernels.
func (k *kernels) MoE(a device.MoEArgs) error {
	vector, ok := k.forMoE(a)
	if !ok {
		return device.MoEBySteps(k, a)
	}
	first, r := a.Experts[0], a.Router
	hidden, width := a.X.Shape[1], first.GateUp.Out()/2
	c := k.call("moe").as("SRC", a.X.DType).as("GAMMA", a.Norm.Gamma.DType).as("W", r.Gate.DType).as("BIAS", device.F32)
	c.set("VEC", vector).set("EACH", ceil(len(a.Experts), 32)).set("THREADS", moeThreads).set("BLOCKS", moeBlocks).set("PIECES", ceil(hidden, 4*moeThreads))
	args := moeArgs{
		x: c.vec(a.X), gamma: c.vec(a.Norm.Gamma), router: c.vec(r.Gate), ids: c.vec(r.IDs), weights: c.vec(r.Weights),
		table: c.table(device.ExpertsArgs{Experts: a.Experts}), logits: c.moeLogits(), routerLD: int64(r.Gate.Stride[0]),
		hidden: int32(hidden), width: int32(width), experts: int32(len(a.Experts)), k: int32(r.IDs.Shape[1]), eps: a.Norm.Eps, scale: r.Scale,
	}
	if r.Normalize {
		args.normalize = 1
	}
	segment := ceil(ceil(width, ceil(width, moeDeep*32*vector)), 8) * 8
	parts := ceil(width, segment) * r.IDs.Shape[1]
	args.segment, args.expertParts = int32(segment), int32(ceil(width, segment))
	if len(a.Shared.GateUp.Parts) > 0 {
		e, err := c.expert(a.Shared, first)
		if err != nil {
			return err
		}
		args.gate, args.up, args.down = e.gate, e.up, e.down
		args.gateLD, args.upLD, args.downLD = e.gateLD, e.upLD, e.downLD
		args.shared, args.sharedParts = int32(e.width), int32(ceil(int(e.width), segment))
		parts += int(args.sharedParts)
	}
	args.inner = c.scratch(4 * parts * segment)[0]
	if err := launch(c, "up", k.early(blocks(moeBlocks*k.card.multiprocessors, moeThreads)), 4*hidden, &args); err != nil {
		return err
	}
	return launch(c, "down", k.early(blocks(ceil(hidden, moeOuts), moeThreads)), len(a.Experts)*int(unsafe.Sizeof(expert{}))+4*moeOuts*parts, &args)
}

// moeLogits is where the blocks of kernels/moe.cu hand logits on: one operation uses
// it at a time, and leaves it as it was.
func (c *call) moeLogits() vec {
	if c.err != nil || c.k.plan != nil {
		return 0
	}
	return c.kept([]byte("moe"), func() ([]byte, error) { return bytes.Repeat([]byte{0xff}, 4*moeExperts), nil })
}

// forMoE reports whether kernels/moe.cu takes these types, sizes and alignments, and
// how many weights a load brings.
func (k *kernels) forMoE(a device.MoEArgs) (vector int, ok bool) {
	r, hidden := a.Router, a.X.Shape[1]
	t := r.Gate.DType
	if !k.overlaps() || a.X.Shape[0] != 1 || r.Groups != 1 || r.IDs.Shape[1] > moeChoices || !t.Float() || hidden > 4*moeThreads*moePieces ||
		len(a.Experts) > min(moeExperts, moeBlocks*k.card.multiprocessors) {
		return 0, false
	}
	width, all := a.Experts[0].GateUp.Out()/2, []*device.Tensor{r.Gate}
	for i, e := range append([]device.Expert{a.Shared}, a.Experts...) {
		if len(e.GateUp.Bias)+len(e.Down.Bias) > 0 || i > 0 && e.GateUp.Out() != 2*width {
			return 0, false
		}
		all = append(append(all, e.GateUp.Parts...), e.Down.Parts...)
	}
	for _, w := range all {
		if w.DType != t {
			return 0, false
		}
	}
	vector = 16 / t.Size()
	return vector, vectorOf(vector, all...) == vector && vectorOf(4, a.X, a.Norm.Gamma) == 4
}
