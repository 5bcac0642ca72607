package device_test

import (
	"errors"
	"testing"

	"blitzen/device"
)

// tensor is a contiguous tensor of no device: operations only check it.
func tensor(name string, t device.DType, shape ...int) *device.Tensor {
	return device.NewTensor(name, t, name, shape...)
}

func f32(name string, shape ...int) *device.Tensor { return tensor(name, device.F32, shape...) }
func b16(name string, shape ...int) *device.Tensor { return tensor(name, device.BF16, shape...) }
func i32(name string, shape ...int) *device.Tensor { return tensor(name, device.I32, shape...) }
func i64(name string, shape ...int) *device.Tensor { return tensor(name, device.I64, shape...) }
func u32(name string, shape ...int) *device.Tensor { return tensor(name, device.U32, shape...) }

// int8Matrix is what a device makes of a matrix with ImportInt8.
func int8Matrix(name string, rows, n int) *device.Tensor {
	t, _ := device.NewInt8Tensor(name, name, rows, n)
	return t
}

func weight(parts ...*device.Tensor) device.Weight { return device.Weight{Parts: parts} }

// checked is a call and the exact words with which it is refused; "" where it
// is right.
type checked struct {
	call func(o *device.Ops)
	want string
}

func check(t *testing.T, calls []checked) {
	t.Helper()
	for i, c := range calls {
		o := device.NewOps(nil, nil)
		c.call(o)
		got := ""
		if o.Err() != nil {
			got = o.Err().Error()
		}
		if got != c.want {
			t.Errorf("call %d: error\n\t%q, want\n\t%q", i, got, c.want)
		}
	}
}

func TestEmbed(t *testing.T) {
	check(t, []checked{
		{func(o *device.Ops) { o.Embed(f32("dst", 2, 8), b16("table", 9, 8), i32("ids", 2)) }, ``},
		{func(o *device.Ops) { o.Embed(nil, b16("table", 9, 8), i32("ids", 2)) }, `Embed: dst is nil`},
		{func(o *device.Ops) { o.Embed(i32("dst", 2, 8), b16("table", 9, 8), i32("ids", 2)) }, `Embed: dst is dst I32[2 8], want F32 or BF16`},
		{func(o *device.Ops) { o.Embed(f32("dst", 2), b16("table", 9, 8), i32("ids", 2)) }, `Embed: dst is dst F32[2], want shape [? ?]`},
		{func(o *device.Ops) { o.Embed(f32("dst", 2, 8), b16("table", 9, 7), i32("ids", 2)) }, `Embed: table is table BF16[9 7], want shape [? 8]`},
		{func(o *device.Ops) { o.Embed(f32("dst", 2, 8), tensor("table", device.I8, 9, 8), i32("ids", 2)) }, `Embed: table is table I8[9 8], want F32 or BF16`},
		{func(o *device.Ops) { o.Embed(f32("dst", 2, 8), b16("table", 9, 8), i32("ids", 3)) }, `Embed: ids is ids I32[3], want shape [2]`},
		{func(o *device.Ops) { o.Embed(f32("dst", 2, 8), b16("table", 9, 8), u32("ids", 2)) }, `Embed: ids is ids U32[2], want I32`},
	})
}

func TestViewsAreChecked(t *testing.T) {
	x, gamma := f32("x", 4, 6), f32("gamma", 6)
	check(t, []checked{
		{func(o *device.Ops) { o.RMSNorm(x.Slice(0, 1, 3), x.Slice(0, 1, 3), gamma, 1) }, ``},
		{func(o *device.Ops) { o.RMSNorm(x, x.Slice(0, 2, 5), gamma, 1) }, `RMSNorm: x: slice [2:5] of dimension 0 of x F32[4 6] is out of bounds`},
		{func(o *device.Ops) { o.RMSNorm(x, x.Index(2, 0), gamma, 1) }, `RMSNorm: x: slice [0:1] of dimension 2 of x F32[4 6] is out of bounds`},
		{func(o *device.Ops) { o.RMSNorm(x, x.Unflatten(1, 4, 2), gamma, 1) }, `RMSNorm: x: unflatten of dimension 1 into [4 2] of x F32[4 6] is out of bounds`},
		{func(o *device.Ops) { o.RMSNorm(x, x.Transpose(0, 2), gamma, 1) }, `RMSNorm: x: transpose of dimensions 0 and 2 of x F32[4 6] is out of bounds`},
		{func(o *device.Ops) { o.RMSNorm(x, x.Repeat(0, 0), gamma, 1) }, `RMSNorm: x: repeat 0 times as dimension 0 of x F32[4 6] is out of bounds`},
		{func(o *device.Ops) { o.RMSNorm(x, x.Slice(0, 5, 6).Index(0, 9), gamma, 1) }, `RMSNorm: x: slice [5:6] of dimension 0 of x F32[4 6] is out of bounds`},
		{func(o *device.Ops) { o.RMSNorm(x, f32("y", 6, 4).Transpose(0, 1), gamma, 1) }, `RMSNorm: x is y F32[4 6] with a gap between the elements of a row (strides [1 4])`},
		{func(o *device.Ops) { o.RMSNorm(x, x, f32("g", 1).Index(0, 0).Repeat(0, 6), 1) }, `RMSNorm: gamma is g F32[6] with a gap between the elements of a row (strides [0])`},
	})
}

func TestRMSNorm(t *testing.T) {
	check(t, []checked{
		{func(o *device.Ops) { o.RMSNorm(b16("dst", 2, 8), f32("x", 2, 8), b16("gamma", 8), 1e-6) }, ``},
		{func(o *device.Ops) { o.RMSNorm(b16("dst", 2, 8), f32("x", 2, 8, 1), b16("gamma", 8), 1e-6) }, `RMSNorm: x is x F32[2 8 1], want shape [? ?]`},
		{func(o *device.Ops) { o.RMSNorm(b16("dst", 2, 9), f32("x", 2, 8), b16("gamma", 8), 1e-6) }, `RMSNorm: dst is dst BF16[2 9], want shape [2 8]`},
		{func(o *device.Ops) { o.RMSNorm(b16("dst", 2, 8), f32("x", 2, 8), b16("gamma", 9), 1e-6) }, `RMSNorm: gamma is gamma BF16[9], want shape [8]`},
	})
}

func TestLinear(t *testing.T) {
	x, w, bias := f32("x", 2, 8), b16("w", 3, 8), f32("b", 3)
	check(t, []checked{
		{func(o *device.Ops) { o.Linear(f32("dst", 2, 3), x, weight(w)) }, ``},
		{func(o *device.Ops) { o.LinearAdd(f32("dst", 2, 5), x, weight(w, int8Matrix("q", 2, 8))) }, ``},
		{func(o *device.Ops) {
			o.Linear(f32("dst", 2, 2), x, weight(int8Matrix("q", 5, 9).Slice(0, 3, 5).Slice(1, 1, 9)))
		}, ``},
		{func(o *device.Ops) { o.Linear(f32("dst", 2, 2), x, weight(tensor("q", device.I8, 2, 8))) }, `Linear: weight is q I8[2 8] with the scales nil; want one a row`},
		{func(o *device.Ops) { o.Linear(f32("dst", 3, 3), x, weight(w)) }, `Linear: dst is dst F32[3 3], want shape [2 ?]`},
		{func(o *device.Ops) { o.LinearAdd(f32("dst", 2, 4), x, weight(w)) }, `LinearAdd: the weight has 3 outputs, want 4`},
		{func(o *device.Ops) { o.Linear(f32("dst", 2, 3), x, weight()) }, `Linear: the weight has no parts`},
		{func(o *device.Ops) { o.Linear(f32("dst", 2, 3), x, weight(nil)) }, `Linear: weight is nil`},
		{func(o *device.Ops) { o.Linear(f32("dst", 2, 3), x, weight(b16("w", 3, 9))) }, `Linear: weight is w BF16[3 9], want shape [? 8]`},
		{func(o *device.Ops) { o.Linear(f32("dst", 2, 3), x, weight(i32("w", 3, 8))) }, `Linear: weight is w I32[3 8], want F32 or BF16 or I8`},
		{func(o *device.Ops) {
			o.Linear(f32("dst", 2, 6), x, device.Weight{Parts: []*device.Tensor{w, w}, Bias: []*device.Tensor{bias}})
		}, `Linear: 1 biases for 2 parts`},
		{func(o *device.Ops) {
			o.Linear(f32("dst", 2, 3), x, device.Weight{Parts: []*device.Tensor{w}, Bias: []*device.Tensor{f32("b", 4)}})
		}, `Linear: bias is b F32[4], want shape [3]`},
		{func(o *device.Ops) {
			o.Linear(f32("dst", 2, 3), x, device.Weight{Parts: []*device.Tensor{w}, Bias: []*device.Tensor{nil}})
		}, `Linear: bias is nil`},
	})
}

func TestHeadLinear(t *testing.T) {
	dst, x := f32("dst", 2, 3, 5), f32("x", 2, 3, 8)
	check(t, []checked{
		{func(o *device.Ops) { o.HeadLinear(dst, x, b16("w", 3, 5, 8), false) }, ``},
		{func(o *device.Ops) { o.HeadLinear(dst, x, b16("w", 3, 8, 5), true) }, ``},
		{func(o *device.Ops) {
			o.HeadLinear(dst, x, int8Matrix("w", 30, 8).Unflatten(0, 3, 10).Slice(1, 4, 9), false)
		}, ``},
		{func(o *device.Ops) {
			o.HeadLinear(dst, x, int8Matrix("w", 5, 24).Unflatten(1, 3, 8).Transpose(0, 1), false)
		}, `HeadLinear: w is w I8[3 5 8] with the scales nil; want one a row`},
		{func(o *device.Ops) { o.HeadLinear(dst, x, b16("w", 3, 8, 5), false) }, `HeadLinear: w is w BF16[3 8 5], want shape [3 5 8]`},
		{func(o *device.Ops) { o.HeadLinear(dst, x, b16("w", 3, 5, 8), true) }, `HeadLinear: w is w BF16[3 5 8], want shape [3 8 5]`},
		{func(o *device.Ops) { o.HeadLinear(f32("dst", 2, 4, 5), x, b16("w", 3, 5, 8), false) }, `HeadLinear: dst is dst F32[2 4 5], want shape [2 3 ?]`},
		{func(o *device.Ops) { o.HeadLinear(dst, f32("x", 2, 24), b16("w", 3, 5, 8), false) }, `HeadLinear: x is x F32[2 24], want shape [? ? ?]`},
	})
}

func TestRotate(t *testing.T) {
	rope := device.RoPE{InvFreq: f32("freq", 4), Scale: 1}
	check(t, []checked{
		{func(o *device.Ops) { o.Rotate(b16("x", 2, 3, 8), i32("pos", 2), rope) }, ``},
		{func(o *device.Ops) { o.Rotate(b16("x", 2, 3, 8), i32("pos", 3), rope) }, `Rotate: pos is pos I32[3], want shape [2]`},
		{func(o *device.Ops) { o.Rotate(b16("x", 2, 3, 7), i32("pos", 2), rope) }, `Rotate: x is x BF16[2 3 7]: the last dimension must be even`},
		{func(o *device.Ops) { o.Rotate(b16("x", 2, 3, 6), i32("pos", 2), rope) }, `Rotate: invFreq is freq F32[4], want shape [3]`},
		{func(o *device.Ops) { o.Rotate(b16("x", 2, 3, 8), i32("pos", 2), device.RoPE{}) }, `Rotate: invFreq is nil`},
	})
}

func TestSwiGLU(t *testing.T) {
	check(t, []checked{
		{func(o *device.Ops) { o.SwiGLU(f32("dst", 2, 4), b16("gateUp", 2, 8)) }, ``},
		{func(o *device.Ops) { o.SwiGLU(f32("dst", 2, 4), b16("gateUp", 2, 4)) }, `SwiGLU: gateUp is gateUp BF16[2 4], want shape [2 8]`},
		{func(o *device.Ops) { o.SwiGLU(f32("dst", 2, 4), b16("gateUp", 3, 8)) }, `SwiGLU: gateUp is gateUp BF16[3 8], want shape [2 8]`},
	})
}

func TestRouter(t *testing.T) {
	with := func(edit func(a *device.RouterArgs)) func(o *device.Ops) {
		a := device.RouterArgs{IDs: i32("ids", 2, 3), Weights: f32("weights", 2, 3), X: f32("x", 2, 8), Gate: b16("gate", 12, 8), Groups: 4, TopGroups: 2, Scale: 1}
		edit(&a)
		return func(o *device.Ops) { o.Router(a) }
	}
	check(t, []checked{
		{with(func(a *device.RouterArgs) {}), ``},
		{with(func(a *device.RouterArgs) { a.IDs = i32("ids", 3, 3) }), `Router: ids is ids I32[3 3], want shape [2 ?]`},
		{with(func(a *device.RouterArgs) { a.Weights = f32("weights", 2, 2) }), `Router: weights is weights F32[2 2], want shape [2 3]`},
		{with(func(a *device.RouterArgs) { a.Gate = b16("gate", 12, 7) }), `Router: gate is gate BF16[12 7], want shape [? 8]`},
		{with(func(a *device.RouterArgs) { a.IDs, a.Weights = i32("ids", 2, 0), f32("weights", 2, 0) }), `Router: 0 of 12 experts`},
		{with(func(a *device.RouterArgs) { a.IDs, a.Weights = i32("ids", 2, 13), f32("weights", 2, 13) }), `Router: 13 of 12 experts`},
		{with(func(a *device.RouterArgs) { a.Groups = 0 }), `Router: 12 experts in 0 groups`},
		{with(func(a *device.RouterArgs) { a.Groups = 5 }), `Router: 12 experts in 5 groups`},
		{with(func(a *device.RouterArgs) { a.TopGroups = 5 }), `Router: 5 of 4 groups`},
		{with(func(a *device.RouterArgs) { a.TopGroups = 0 }), `Router: 0 of 4 groups`},
		{with(func(a *device.RouterArgs) { a.IDs, a.Weights = i32("ids", 2, 7), f32("weights", 2, 7) }), `Router: 7 experts from 2 groups of 3`},
	})
}

func TestExperts(t *testing.T) {
	expert := device.Expert{GateUp: weight(b16("gate", 5, 8), b16("up", 5, 8)), Down: weight(b16("down", 8, 5))}
	with := func(edit func(a *device.ExpertsArgs)) func(o *device.Ops) {
		a := device.ExpertsArgs{Dst: f32("dst", 2, 8), X: b16("x", 2, 8), IDs: i32("ids", 2, 1), Weights: f32("weights", 2, 1), Experts: []device.Expert{expert, expert}}
		edit(&a)
		return func(o *device.Ops) { o.Experts(a) }
	}
	check(t, []checked{
		{with(func(a *device.ExpertsArgs) {}), ``},
		{with(func(a *device.ExpertsArgs) { a.Dst = f32("dst", 2, 7) }), `Experts: dst is dst F32[2 7], want shape [2 8]`},
		{with(func(a *device.ExpertsArgs) { a.IDs = i32("ids", 1, 1) }), `Experts: ids is ids I32[1 1], want shape [2 ?]`},
		{with(func(a *device.ExpertsArgs) { a.Weights = f32("weights", 2, 2) }), `Experts: weights is weights F32[2 2], want shape [2 1]`},
		{with(func(a *device.ExpertsArgs) { a.Experts = nil }), `Experts: no experts`},
		{with(func(a *device.ExpertsArgs) { a.Experts[1].Down = weight(b16("down", 8, 6)) }), `Experts: weight is down BF16[8 6], want shape [? 5]`},
		{with(func(a *device.ExpertsArgs) { a.Experts[1].Down = weight(b16("down", 7, 5)) }), `Experts: the weight has 7 outputs, want 8`},
		{with(func(a *device.ExpertsArgs) { a.Experts[1].GateUp = weight(b16("gate", 5, 8)) }), `Experts: the weight has 5 outputs, want 4`},
		{with(func(a *device.ExpertsArgs) { a.Experts[1].GateUp = weight(nil, nil) }), `Experts: weight is nil`},
	})
}

func TestCopy(t *testing.T) {
	check(t, []checked{
		{func(o *device.Ops) { o.Copy(f32("dst", 2, 3), b16("src", 2, 3)) }, ``},
		{func(o *device.Ops) { o.Copy(i64("dst", 2, 3), i64("src", 3).Repeat(0, 2)) }, ``},
		{func(o *device.Ops) { o.Copy(f32("dst", 2, 3), b16("src", 3, 2)) }, `Copy: dst is dst F32[2 3], want shape [3 2]`},
		{func(o *device.Ops) { o.Copy(f32("dst", 2, 3), i32("src", 2, 3)) }, `Copy: cannot convert src I32[2 3] to dst F32[2 3]`},
		{func(o *device.Ops) { o.Copy(i32("dst", 2), u32("src", 2)) }, `Copy: cannot convert src U32[2] to dst I32[2]`},
		{func(o *device.Ops) { o.Copy(f32("dst", 2), tensor("src", device.I8, 2)) }, `Copy: src is src I8[2], want F32 or F16 or BF16 or F8_E4M3 or I32 or U32 or I64`},
		{func(o *device.Ops) { o.Copy(nil, f32("src", 2)) }, `Copy: dst is nil`},
		{func(o *device.Ops) { o.Copy(f32("dst", 2), nil) }, `Copy: src is nil`},
	})
}

func TestIncrement(t *testing.T) {
	check(t, []checked{
		{func(o *device.Ops) { o.Increment(i32("t", 3)) }, ``},
		{func(o *device.Ops) { o.Increment(i64("t", 3)) }, `Increment: t is t I64[3], want I32`},
		{func(o *device.Ops) { o.Increment(i32("t", 3, 1)) }, `Increment: t is t I32[3 1], want shape [?]`},
		{func(o *device.Ops) { o.Increment(nil) }, `Increment: t is nil`},
	})
}

func TestFirstErrorSticks(t *testing.T) {
	mine := errors.New("mine")
	check(t, []checked{
		{func(o *device.Ops) { o.Fail(mine); o.Increment(nil) }, `mine`},
		{func(o *device.Ops) { o.Increment(nil); o.Fail(mine); o.Increment(f32("t", 1)) }, `Increment: t is nil`},
	})
}
