package cuda

import (
	"slices"
	"testing"

	"blitzen/device"
)

// wholeLayer is what a small layer waits for, and its last product.
type wholeLayer struct {
	smallLayer
	down productAdded
}

// wholeLayer has tensors for a layer of one token.
func (p *planner) wholeLayer(m model, hidden, inner int) wholeLayer {
	x := func(shape ...int) *device.Tensor { return p.tensor(device.BF16, shape...) }
	row, h, attention, sum, pos := x(1, (m.heads+2*m.keyHeads)*m.dk), x(1, hidden), x(1, m.heads*m.dk), p.tensor(device.F32, 1, hidden), p.tensor(device.I32, 1)
	norm, heads, between := device.Norm{Gamma: x(hidden), Eps: 1e-6}, row.Unflatten(1, m.heads+2*m.keyHeads, m.dk), x(1, inner)
	r := device.RotateAppendArgs{
		Q: heads.Slice(1, 0, m.heads), K: heads.Slice(1, m.heads, m.heads+m.keyHeads), V: heads.Slice(1, m.heads+m.keyHeads, m.heads+2*m.keyHeads),
		Pos: pos, RoPE: device.RoPE{InvFreq: p.tensor(device.F32, m.dk/2), Scale: 1}, Keys: x(m.keyHeads, 4096, m.dk), Values: x(m.keyHeads, 4096, m.dk),
	}
	return wholeLayer{
		smallLayer: smallLayer{
			qkv:    &normedRow{dst: row, h: h, x: sum, norm: norm, w: p.weight(hidden, m.heads*m.dk, m.keyHeads*m.dk, m.keyHeads*m.dk)},
			rotate: &r,
			attend: &device.AttendArgs{Out: device.Partial{Out: attention.Unflatten(1, m.heads, m.dk)}, Q: r.Q, K: r.Keys, V: r.Values, Pos: pos, Scale: 1, Most: smallMost},
			out:    &productAdded{sum, attention, p.weight(m.heads*m.dk, hidden)},
			up:     &normedRow{dst: between, gateUp: x(1, 2*inner), h: h, x: sum, norm: norm, w: p.weight(hidden, inner, inner)},
		},
		down: productAdded{sum, between, p.weight(inner, hidden)},
	}
}

// operations are those of the layer, in order.
func (l wholeLayer) operations() []func(*device.Ops) {
	return []func(*device.Ops){
		func(o *device.Ops) { o.NormLinear(l.qkv.dst, l.qkv.h, l.qkv.x, l.qkv.norm, l.qkv.w) },
		func(o *device.Ops) { o.RotateAppend(*l.rotate) },
		func(o *device.Ops) { o.Attend(*l.attend) },
		func(o *device.Ops) { o.LinearAdd(l.out.dst, l.out.x, l.out.w) },
		func(o *device.Ops) { o.NormSwiGLU(l.up.dst, l.up.gateUp, l.up.h, l.up.x, l.up.norm, l.up.w) },
		func(o *device.Ops) { o.LinearAdd(l.down.dst, l.down.x, l.down.w) },
	}
}

// inOrder are the files of the kernels that operations run, and those left waiting at the end.
func (p *planner) inOrder(t *testing.T, issue ...func(*device.Ops)) (files []string) {
	t.Helper()
	p.kernels.plan = func(program program) { files = append(files, program.file) }
	ops := device.NewOps(p.kernels, nil)
	for _, operation := range issue {
		operation(ops)
	}
	if ops.Err() != nil || p.kernels.flush() != nil {
		t.Fatal("cannot be planned:", ops.Err())
	}
	return files
}

// Operations that wait for a layer to be whole go before anything that is not the layer's, in
// their order, and at the end.
func TestWhatWaitsGoesFirst(t *testing.T) {
	for n, want := range [][]string{
		{}, {"gemv"}, {"gemv", "rotate_append"}, {"gemv", "attend_one"}, {"gemv", "attend_one", "gemv"}, {"gemv", "attend_one", "gemv", "gemv"}, {"small_attend", "small_up", "small_down"},
	} {
		p := newPlanner(90)
		first := p.wholeLayer(models["qwen2.5-0.5b"], 896, 4864).operations()[:n]
		if got := p.inOrder(t, first...); !slices.Equal(got, want) {
			t.Errorf("%d operations: %v, want %v", n, got, want)
		}
		other := func(o *device.Ops) { o.Copy(p.tensor(device.BF16, 8), p.tensor(device.BF16, 8)) }
		if got, want := p.inOrder(t, append(first, other)...), append(want, "copy"); !slices.Equal(got, want) {
			t.Errorf("%d operations and another: %v, want %v", n, got, want)
		}
	}
}

// What looks like a small layer and is not goes by steps.
func TestLayersThatAreNotSmall(t *testing.T) {
	const hidden, inner, width = 896, 4864, 14 * 64
	x := func(p *planner, shape ...int) *device.Tensor { return p.tensor(device.BF16, shape...) }
	for name, spoil := range map[string]func(p *planner, l *wholeLayer){
		"any number of rows":            func(_ *planner, l *wholeLayer) { l.attend.Most = 0 },
		"too many rows":                 func(_ *planner, l *wholeLayer) { l.attend.Most = smallMost + 1 },
		"another position":              func(p *planner, l *wholeLayer) { l.attend.Pos = p.tensor(device.I32, 1) },
		"a first row":                   func(p *planner, l *wholeLayer) { l.attend.From = p.tensor(device.I32, 1) },
		"the sum of weights is wanted":  func(p *planner, l *wholeLayer) { l.attend.Out.LSE = p.tensor(device.F32, 1, 14) },
		"rows have places":              func(p *planner, l *wholeLayer) { l.rotate.Slots = p.tensor(device.I32, 2, 4096) },
		"gate and up differ in size":    func(p *planner, l *wholeLayer) { l.up.w = p.weight(hidden, inner+64, inner-64) },
		"gate and up have biases":       func(p *planner, l *wholeLayer) { l.up.w.Bias = []*device.Tensor{x(p, inner), x(p, inner)} },
		"one matrix for q, k and v":     func(p *planner, l *wholeLayer) { l.qkv.w = p.weight(hidden, width+2*128) },
		"a matrix at an odd element":    func(p *planner, l *wholeLayer) { l.down.w.Parts[0] = x(p, hidden, inner+8).Slice(1, 1, inner+1) },
		"attention is where h is":       func(_ *planner, l *wholeLayer) { l.attend.Out.Out, l.out.x = l.qkv.h.Unflatten(1, 14, 64), l.qkv.h },
		"the last sum is another row's": func(p *planner, l *wholeLayer) { l.down.dst = p.tensor(device.F32, 1, hidden) },
		"o multiplies more than attention": func(p *planner, l *wholeLayer) {
			l.out.x, l.out.w = x(p, 1, 2*width), p.weight(2*width, hidden)
			l.attend.Out.Out = l.out.x.Slice(1, 0, width).Unflatten(1, 14, 64)
		},
		"h takes the place of x": func(p *planner, l *wholeLayer) {
			sum := x(p, 1, hidden)
			l.qkv.x, l.out.dst, l.up.x, l.up.h, l.down.dst = sum, sum, sum, sum, sum
		},
	} {
		p := newPlanner(90)
		l := p.wholeLayer(models["qwen2.5-0.5b"], hidden, inner)
		spoil(p, &l)
		if files := p.inOrder(t, l.operations()...); slices.Contains(files, "small_up") {
			t.Errorf("%s: %v", name, files)
		}
	}
}
