package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

type attendManyArgs struct {
	out                     cube
	lse                     mat
	q, k, v                 cube
	from, pos, read         vec
	tokens, group, capacity int32
	scale                   float32
}

type attendTensorArgs struct {
	out                            cube
	lse                            mat
	q, k, v                        cube
	from, pos, read                vec
	tokens, heads, group, capacity int32
	scale                          float32
}

type attendHopperArgs struct {
	q, k, v                        driver.TensorMap
	out                            cube
	lse                            mat
	from, pos, read                vec
	tokens, heads, group, capacity int32
	scale                          float32
	_                              [44]byte // a TensorMap's alignment
}

// attendMany is attention of more than fewTokens tokens.
func (k *kernels) attendMany(a device.AttendArgs) error {
	switch {
	case !forTensorCores(a):
		return k.attendPlain(a)
	case k.card.capability == hopper:
		return k.attendHopper(a)
	default:
		return k.attendTensor(a)
	}
}

// forTensorCores reports whether the tensor cores' kernels take these types,
// sizes and alignments.
func forTensorCores(a device.AttendArgs) bool {
	dk, dv := a.K.Shape[2], a.V.Shape[2]
	for _, t := range []*device.Tensor{a.Q, a.K, a.V} {
		if t.DType != device.BF16 || vectorOf(8, t) < 8 {
			return false
		}
	}
	wide := 16 / a.Out.Out.DType.Size()
	return dk%16 == 0 && dk <= 192 && (dv == 64 || dv == 128) && a.Scale > 0 && vectorOf(wide, a.Out.Out) == wide
}

// attendTensor runs on the tensor cores of any card that has BF16.
func (k *kernels) attendTensor(a device.AttendArgs) error {
	const queries, keys = 128, 64
	tokens, heads, dk, dv := a.Q.Shape[0], a.Q.Shape[1], a.K.Shape[2], a.V.Shape[2]
	shared := 2*((queries+keys)*(dk+8)+keys*(dv+8)) + 4*queries // struct Memory
	c := k.call("attend_prefill").as("DST", a.Out.Out.DType).set("DK", dk).set("DV", dv).set("KEYS", keys).set("SHARED", shared)
	args := attendTensorArgs{
		c.cube(a.Out.Out), c.mat(a.Out.LSE), c.cube(a.Q), c.cube(a.K), c.cube(a.V), c.vec(a.From), c.vec(a.Pos), c.vec(a.Read),
		int32(tokens), int32(heads), int32(heads / a.K.Shape[0]), int32(a.K.Shape[1]), a.Scale,
	}
	return launch(c, "attend_prefill", blocks(heads*ceil(tokens, queries), 128), shared, &args)
}

// attendHopper runs on Hopper's tensor cores, with its copy engine.
func (k *kernels) attendHopper(a device.AttendArgs) error {
	const keys, stages = 128, 2
	tokens, heads, dk, dv := a.Q.Shape[0], a.Q.Shape[1], a.K.Shape[2], a.V.Shape[2]
	consumers := 2            // warpgroups of 64 queries
	if dk == 64 && dv == 64 { // few products for each exponential: more queries a key
		consumers = 3
	}
	queries, panels := 64*consumers, ceil(dk, 64)
	shared := 128*(panels*queries+stages*(panels+dv/64)*keys) + 8*(1+4*stages) + 4*queries // struct Memory
	c := k.call("attend_prefill_hopper").as("DST", a.Out.Out.DType).set("DK", dk).set("DV", dv)
	c.set("KEYS", keys).set("STAGES", stages).set("CONSUMERS", consumers).set("SHARED", shared)
	args := attendHopperArgs{
		q: c.boxes(a.Q, queries, 1, 64), k: c.boxes(a.K, 1, keys, 64), v: c.boxes(a.V, 1, keys, 64),
		out: c.cube(a.Out.Out), lse: c.mat(a.Out.LSE), from: c.vec(a.From), pos: c.vec(a.Pos), read: c.vec(a.Read),
		tokens: int32(tokens), heads: int32(heads), group: int32(heads / a.K.Shape[0]), capacity: int32(a.K.Shape[1]), scale: a.Scale,
	}
	return launch(c, "attend_prefill", blocks(heads*ceil(tokens, queries), 128*(consumers+1)), shared, &args)
}

// attendPlain takes any types, sizes and alignments.
func (k *kernels) attendPlain(a device.AttendArgs) error {
	tokens, heads, dk, dv := a.Q.Shape[0], a.Q.Shape[1], a.K.Shape[2], a.V.Shape[2]
	c := k.call("attend_many").as("DST", a.Out.Out.DType).as("Q", a.Q.DType).as("K", a.K.DType).as("V", a.V.DType)
	c.set("DK", dk).set("DV", dv)
	args := attendManyArgs{
		c.cube(a.Out.Out), c.mat(a.Out.LSE), c.cube(a.Q), c.cube(a.K), c.cube(a.V), c.vec(a.From), c.vec(a.Pos), c.vec(a.Read),
		int32(tokens), int32(heads / a.K.Shape[0]), int32(a.K.Shape[1]), a.Scale,
	}
	queries := 32
	if dk > 256 {
		queries = 16
	}
	shared := 4 * (queries*dk + 32*33 + queries*32 + queries) // struct Memory
	return launch(c, "attend_many", driver.Grid{X: ceil(tokens, queries), Y: heads, Z: 1, Threads: threads}, shared, &args)
}
