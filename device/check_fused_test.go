package device_test

import (
	"testing"

	"blitzen/device"
)

func TestFused(t *testing.T) {
	x, h, gamma := f32("x", 3, 8), b16("h", 3, 8), b16("gamma", 8)
	norm := device.Norm{Gamma: gamma, Eps: 1}
	w := device.Weight{Parts: []*device.Tensor{b16("a", 4, 8), b16("b", 2, 8)}}
	check(t, []checked{
		{func(o *device.Ops) { o.NormLinear(b16("dst", 3, 6), h, x, norm, w) }, ``},
		{func(o *device.Ops) { o.NormLinear(b16("dst", 3, 6), x, x, norm, w) }, ``},
		{func(o *device.Ops) { o.NormLinear(b16("dst", 3, 7), h, x, norm, w) }, `NormLinear: the weight has 6 outputs, want 7`},
		{func(o *device.Ops) { o.NormLinear(b16("dst", 2, 6), h, x, norm, w) }, `NormLinear: dst is dst BF16[2 6], want shape [3 ?]`},
		{func(o *device.Ops) { o.NormLinear(b16("dst", 3, 6), b16("h", 3, 7), x, norm, w) }, `NormLinear: h is h BF16[3 7], want shape [3 8]`},
		{func(o *device.Ops) { o.NormLinear(b16("dst", 3, 6), h, x, device.Norm{}, w) }, `NormLinear: gamma is nil`},
		{func(o *device.Ops) { o.NormSwiGLU(b16("dst", 3, 3), b16("gu", 3, 6), h, x, norm, w) }, ``},
		{func(o *device.Ops) { o.NormSwiGLU(b16("dst", 3, 3), b16("gu", 3, 5), h, x, norm, w) }, `NormSwiGLU: gateUp is gu BF16[3 5], want shape [3 6]`},
		{func(o *device.Ops) { o.NormSwiGLU(b16("dst", 3, 4), b16("gu", 3, 8), h, x, norm, w) }, `NormSwiGLU: the weight has 6 outputs, want 8`},
	})
}

func TestRotateAppend(t *testing.T) {
	with := func(edit func(a *device.RotateAppendArgs)) func(o *device.Ops) {
		a := device.RotateAppendArgs{Q: b16("q", 3, 6, 4), K: b16("k", 3, 2, 10), V: b16("v", 3, 2, 5), Turned: b16("turned", 3, 6, 4),
			Norm: device.Norm{Gamma: b16("gamma", 6)}, Pos: i32("pos", 3), RoPE: device.RoPE{InvFreq: f32("freq", 2)},
			Keys: b16("keys", 2, 9, 10), Values: b16("values", 2, 9, 5), Slots: i32("slots", 2, 7)}
		edit(&a)
		return func(o *device.Ops) { o.RotateAppend(a) }
	}
	check(t, []checked{
		{with(func(a *device.RotateAppendArgs) {}), ``},
		{with(func(a *device.RotateAppendArgs) {
			a.V, a.Values, a.Turned, a.Slots, a.Norm = nil, nil, nil, nil, device.Norm{}
		}), ``},
		{with(func(a *device.RotateAppendArgs) { a.Q = b16("q", 3, 6, 3) }), `RotateAppend: queries are rotated over 3 numbers, keys have 10`},
		{with(func(a *device.RotateAppendArgs) { a.K = b16("k", 3, 2, 3) }), `RotateAppend: queries are rotated over 4 numbers, keys have 3`},
		{with(func(a *device.RotateAppendArgs) { a.K = b16("k", 2, 2, 10) }), `RotateAppend: k is k BF16[2 2 10], want shape [3 ? ?]`},
		{with(func(a *device.RotateAppendArgs) { a.Turned = b16("turned", 3, 6, 5) }), `RotateAppend: turned is turned BF16[3 6 5], want shape [3 6 4]`},
		{with(func(a *device.RotateAppendArgs) { a.Norm.Gamma = b16("gamma", 5) }), `RotateAppend: gamma is gamma BF16[5], want shape [6]`},
		{with(func(a *device.RotateAppendArgs) { a.Keys = b16("keys", 2, 9, 9) }), `RotateAppend: keys is keys BF16[2 9 9], want shape [2 ? 10]`},
		{with(func(a *device.RotateAppendArgs) { a.Values = nil }), `RotateAppend: values is nil`},
		{with(func(a *device.RotateAppendArgs) { a.Values = b16("values", 2, 8, 5) }), `RotateAppend: values is values BF16[2 8 5], want shape [2 9 5]`},
		{with(func(a *device.RotateAppendArgs) { a.RoPE.InvFreq = f32("freq", 3) }), `RotateAppend: invFreq is freq F32[3], want shape [2]`},
		{with(func(a *device.RotateAppendArgs) { a.Slots = i32("slots", 1, 7) }), `RotateAppend: slots is slots I32[1 7], want shape [2 ?]`},
	})
}

func TestMoE(t *testing.T) {
	expert := func(width int) device.Expert {
		return device.Expert{GateUp: device.Weight{Parts: []*device.Tensor{b16("gate", width, 8), b16("up", width, 8)}}, Down: device.Weight{Parts: []*device.Tensor{b16("down", 8, width)}}}
	}
	with := func(edit func(a *device.MoEArgs)) func(o *device.Ops) {
		a := device.MoEArgs{X: f32("x", 2, 8), Norm: device.Norm{Gamma: b16("gamma", 8)},
			Router:  device.RouterArgs{IDs: i32("ids", 2, 1), Weights: f32("weights", 2, 1), X: b16("h", 2, 8), Gate: b16("gate", 2, 8), Groups: 1, TopGroups: 1},
			Experts: []device.Expert{expert(4), expert(4)}, Shared: expert(6), GateUp: b16("gu", 2, 12), Inner: b16("inner", 2, 6)}
		edit(&a)
		return func(o *device.Ops) { o.MoE(a) }
	}
	check(t, []checked{
		{with(func(a *device.MoEArgs) {}), ``},
		{with(func(a *device.MoEArgs) { a.Shared, a.GateUp, a.Inner = device.Expert{}, nil, nil }), ``},
		{with(func(a *device.MoEArgs) { a.Norm.Gamma = b16("gamma", 7) }), `MoE: gamma is gamma BF16[7], want shape [8]`},
		{with(func(a *device.MoEArgs) { a.Router.X = b16("h", 1, 8) }), `MoE: h is h BF16[1 8], want shape [2 8]`},
		{with(func(a *device.MoEArgs) { a.Router.Gate = b16("gate", 2, 7) }), `MoE: gate is gate BF16[2 7], want shape [? 8]`},
		{with(func(a *device.MoEArgs) { a.Experts = nil }), `MoE: no experts`},
		{with(func(a *device.MoEArgs) { a.Experts = a.Experts[:1] }), `MoE: the gate is gate BF16[2 8] for 1 experts`},
		{with(func(a *device.MoEArgs) { a.GateUp = nil }), `MoE: gateUp is nil`},
		{with(func(a *device.MoEArgs) { a.Inner = b16("inner", 2, 5) }), `MoE: inner is inner BF16[2 5], want shape [2 6]`},
	})
}
