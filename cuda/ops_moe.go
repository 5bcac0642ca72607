package cuda

import (
	"fmt"
	"slices"
	"unsafe"

	"blitzen/cuda/driver"
	"blitzen/device"
)

type routerArgs struct {
	ids, weights, logits                     mat
	experts, k, groups, topGroups, normalize int32
	scale                                    float32
}

// Router implements device.Kernels: products with the gates, then the choice.
func (k *kernels) Router(a device.RouterArgs) error {
	tokens, experts := a.X.Shape[0], a.Gate.Shape[0]
	c := k.call("router")
	logits, err := c.scratchTensor(device.F32, tokens, experts)
	if err != nil {
		return err
	}
	if err := k.Linear(logits, a.X, device.Weight{Parts: []*device.Tensor{a.Gate}}, false); err != nil {
		return err
	}
	args := routerArgs{
		c.mat(a.IDs), c.mat(a.Weights), c.mat(logits),
		int32(experts), int32(a.IDs.Shape[1]), int32(a.Groups), int32(a.TopGroups), 0, a.Scale,
	}
	if a.Normalize {
		args.normalize = 1
	}
	if each := ceil(experts, 32); a.Groups == 1 && each <= 8 && args.k <= 32 {
		return launch(c.set("EACH", each), "choose", k.early(blocks(tokens, 32)), 0, &args)
	}
	return launch(c.set("EACH", 0), "router", k.early(blocks(tokens, 64)), 4*(experts+a.Groups), &args)
}

// expert is a row of the table that kernels find experts' weights in.
type expert struct {
	gate, up, down             vec
	gateLD, upLD, downLD       int64
	gateBias, upBias, downBias vec
	gateScale, upScale         vec
	downScale                  vec
	width                      int64
}

type expertsFewArgs struct {
	dst, x, ids, weights                   mat
	table, inner                           vec
	innerLD                                int64
	tokens, hidden, width, k, experts, pad int32
}

type expertsManyArgs struct {
	dst, x, ids, weights                       mat
	table, order, tiles, inner                 vec
	innerLD                                    int64
	outer                                      vec
	hidden, k, experts, choices, maxTiles, pad int32
}

// Experts implements device.Kernels.
func (k *kernels) Experts(a device.ExpertsArgs) error {
	width := 0
	for _, e := range a.Experts {
		width = max(width, e.GateUp.Out()/2)
	}
	switch {
	case a.X.Shape[0] <= fewTokens && a.Experts[0].Down.Parts[0].DType == device.I8:
		return k.expertsFewInt8(a, width)
	case a.X.Shape[0] <= fewTokens:
		return k.expertsFew(a, width)
	case k.card.capability == hopper && expertsForTensorCores(a, width):
		return k.expertsHopper(a, width)
	default:
		return k.expertsMany(a, width)
	}
}

// biasesOf is the type of an expert's biases; F32 without any.
func biasesOf(e device.Expert) device.DType {
	for _, b := range slices.Concat(e.Down.Bias, e.GateUp.Bias) {
		return b.DType
	}
	return device.F32
}

// expertTypes sets the macros of expert.cuh.
func (c *call) expertTypes(a device.ExpertsArgs) *call {
	e := a.Experts[0]
	return c.as("DST", a.Dst.DType).as("SRC", a.X.DType).as("W", e.Down.Parts[0].DType).as("BIAS", biasesOf(e))
}

func (k *kernels) expertsFew(a device.ExpertsArgs, width int) error {
	tokens, n, hidden := a.X.Shape[0], a.IDs.Shape[1], a.X.Shape[1]
	c := k.call("experts_few").expertTypes(a)
	w := []*device.Tensor{a.X}
	for _, e := range a.Experts {
		w = append(append(w, e.GateUp.Parts...), e.Down.Parts...)
	}
	vector := vectorOf(16/a.Experts[0].Down.Parts[0].DType.Size(), w...)
	const threads, outs = 512, 8
	c.set("VEC", vector).set("THREADS", threads).set("OUTS", outs)
	ld := ceil(width, 8) * 8
	args := expertsFewArgs{
		c.mat(a.Dst), c.mat(a.X), c.mat(a.IDs), c.mat(a.Weights), c.table(a), c.scratch(4 * tokens * n * ld)[0], int64(ld),
		int32(tokens), int32(hidden), int32(width), int32(n), int32(len(a.Experts)), 0,
	}
	all := blocks(min(2*k.card.multiprocessors, tokens*n*width), threads)
	shared := len(a.Experts)*int(unsafe.Sizeof(expert{})) + 4*tokens*n
	if err := launch(c, "gate_up", k.early(all), shared, &args); err != nil {
		return err
	}
	return launch(c, "down", k.early(driver.Grid{X: ceil(hidden, outs), Y: tokens, Z: 1, Threads: threads}), shared+4*outs*n, &args)
}

func (k *kernels) expertsMany(a device.ExpertsArgs, width int) error {
	tokens, n, hidden, experts := a.X.Shape[0], a.IDs.Shape[1], a.X.Shape[1], len(a.Experts)
	choices := tokens * n
	maxTiles := choices/64 + experts
	c := k.call("experts_many").expertTypes(a)
	s := c.scratch(4*choices, 16*maxTiles, 4*choices*width, 4*choices*hidden)
	args := expertsManyArgs{
		c.mat(a.Dst), c.mat(a.X), c.mat(a.IDs), c.mat(a.Weights), c.table(a), s[0], s[1], s[2], int64(width), s[3],
		int32(hidden), int32(n), int32(experts), int32(choices), int32(maxTiles), 0,
	}
	for _, l := range []struct {
		kernel string
		grid   driver.Grid
		shared int
	}{
		{"group", blocks(1, 1024), 8 * experts},
		{"gate_up", driver.Grid{X: ceil(width, 32), Y: maxTiles, Z: 1, Threads: threads}, 0},
		{"down", driver.Grid{X: ceil(hidden, 64), Y: maxTiles, Z: 1, Threads: threads}, 0},
		{"combine", driver.Grid{X: tokens, Y: ceil(hidden, threads), Z: 1, Threads: threads}, 0},
	} {
		if err := launch(c, l.kernel, l.grid, l.shared, &args); err != nil {
			return err
		}
	}
	return nil
}

// table is the experts' addresses on the GPU. Tables are made once and kept:
// there is one for each layer.
func (c *call) table(a device.ExpertsArgs) vec {
	rows := c.expertRows(a)
	if rows == nil {
		return 0
	}
	return c.kept(bytesOf(rows), func() ([]byte, error) { return bytesOf(rows), nil })
}

// expertRows is nil where there is no GPU memory to point at.
func (c *call) expertRows(a device.ExpertsArgs) []expert {
	rows := make([]expert, len(a.Experts))
	for i, e := range a.Experts {
		var err error
		if rows[i], err = c.expert(e, a.Experts[0]); err != nil && c.err == nil {
			c.err = fmt.Errorf("expert %d: %w", i, err)
		}
	}
	if c.err != nil || c.k.plan != nil {
		return nil
	}
	return rows
}

// kept is memory on the GPU with contents that are made once for a key.
func (c *call) kept(key []byte, contents func() ([]byte, error)) vec {
	b, ok := c.k.tables[string(key)]
	if !ok {
		var bytes []byte
		if bytes, c.err = contents(); c.err != nil {
			return 0
		}
		if b, c.err = c.k.gpu.constant(bytes); c.err != nil {
			return 0
		}
		c.k.tables[string(key)] = b
	}
	if c.watched() {
		c.k.bounds.table(uint64(b.at), b.size)
	}
	return uint64(b.at)
}

func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// expert is a table row; all experts have the types of the first.
func (c *call) expert(e, first device.Expert) (expert, error) {
	if len(e.Down.Parts) != 1 || len(e.GateUp.Parts) > 2 {
		return expert{}, fmt.Errorf("down has %d parts and gate‖up %d; want 1, and 1 or 2", len(e.Down.Parts), len(e.GateUp.Parts))
	}
	gate, up := e.GateUp.Parts[0], e.GateUp.Parts[len(e.GateUp.Parts)-1]
	width := e.GateUp.Out() / 2
	if len(e.GateUp.Parts) == 1 {
		gate, up = gate.Slice(0, 0, width), gate.Slice(0, width, 2*width)
	} else if gate.Shape[0] != width {
		return expert{}, fmt.Errorf("gate has %d rows and up %d", gate.Shape[0], up.Shape[0])
	}
	down := e.Down.Parts[0]
	r := expert{
		gate: c.vec(gate), up: c.vec(up), down: c.vec(down),
		gateLD: int64(gate.Stride[0]), upLD: int64(up.Stride[0]), downLD: int64(down.Stride[0]), width: int64(width),
	}
	r.gateScale, r.upScale, r.downScale = c.vec(gate.Scale), c.vec(up.Scale), c.vec(down.Scale)
	types, biases := []device.DType{gate.DType, up.DType, down.DType}, []device.DType(nil)
	if len(e.GateUp.Bias) > 0 {
		b, c2 := e.GateUp.Bias[0], e.GateUp.Bias[len(e.GateUp.Bias)-1]
		if len(e.GateUp.Bias) == 1 {
			b, c2 = b.Slice(0, 0, width), b.Slice(0, width, 2*width)
		}
		r.gateBias, r.upBias = c.vec(b), c.vec(c2)
		biases = append(biases, b.DType, c2.DType)
	}
	if len(e.Down.Bias) > 0 {
		r.downBias = c.vec(e.Down.Bias[0])
		biases = append(biases, e.Down.Bias[0].DType)
	}
	for _, t := range types {
		if t != first.Down.Parts[0].DType {
			return r, fmt.Errorf("weights are %v and %v; all must have one type", t, first.Down.Parts[0].DType)
		}
	}
	for _, t := range biases {
		if t != biasesOf(first) {
			return r, fmt.Errorf("biases are %v and %v; all must have one type", t, biasesOf(first))
		}
	}
	return r, nil
}
