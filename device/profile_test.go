package device_test

import (
	"testing"

	"blitzen/device"
)

// What operations read of weights, by hand: BF16 has two bytes.
func TestCallBytes(t *testing.T) {
	x, y := f32("x", 1, 8), f32("y", 1, 3)
	own := func(t *device.Tensor) *device.Tensor {
		t.Buffer = new(int)
		return t
	}
	expert := func() device.Expert {
		return device.Expert{GateUp: weight(own(b16("u", 4, 8)), own(b16("g", 4, 8))), Down: weight(own(b16("d", 8, 4)))}
	}
	const expertBytes = 2 * (8*8 + 8*4)
	cache := f32("k", 2, 100, 8)
	for _, c := range []struct {
		name           string
		issue          func(o *device.Ops)
		weights, bytes int64
	}{
		{"two rows of a table", func(o *device.Ops) { o.Embed(f32("dst", 2, 8), b16("table", 50, 8), i32("ids", 2)) }, 2 * 2 * 8, 2*2*8 + 4*2*8 + 4*2},
		{"parts and a bias", func(o *device.Ops) {
			o.Linear(f32("dst", 1, 5), x, device.Weight{Parts: []*device.Tensor{b16("a", 3, 8), b16("b", 2, 8)}, Bias: []*device.Tensor{f32("c", 3), f32("d", 2)}})
		}, 2*5*8 + 4*5, 2*5*8 + 4*5 + 4*5 + 4*8},
		{"two of four experts", func(o *device.Ops) {
			o.Experts(device.ExpertsArgs{Dst: x, X: f32("in", 1, 8), IDs: i32("ids", 1, 2), Weights: f32("w", 1, 2), Experts: []device.Expert{expert(), expert(), expert(), expert()}})
		}, 2 * expertBytes, 2*expertBytes + 2*4*8 + 2*4*2},
		{"no more experts than there are", func(o *device.Ops) {
			o.Experts(device.ExpertsArgs{Dst: f32("x", 4, 8), X: f32("in", 4, 8), IDs: i32("ids", 4, 2), Weights: f32("w", 4, 2), Experts: []device.Expert{expert(), expert()}})
		}, 2 * expertBytes, 2*expertBytes + 2*4*32 + 2*4*8},
		{"a cache is not all read", func(o *device.Ops) {
			o.Attend(device.AttendArgs{Out: device.Partial{Out: f32("out", 1, 2, 8)}, Q: f32("q", 1, 2, 8), K: cache, V: cache, Pos: i32("pos", 1), Scale: 1})
		}, 0, 2*4*16 + 4},
		{"once in place", func(o *device.Ops) { o.RMSNorm(y, y, y.Index(0, 0), 1) }, 4 * 3, 4*3 + 4*3},
	} {
		calls, err := device.Calls(c.issue)
		if err != nil || len(calls) != 1 {
			t.Fatalf("%s: %d operations, %v", c.name, len(calls), err)
		}
		if w, b := calls[0].WeightBytes(), calls[0].Bytes(); w != c.weights || b != c.bytes {
			t.Errorf("%s: %d bytes of weights and %d in all, want %d and %d", c.name, w, b, c.weights, c.bytes)
		}
	}
	if _, err := device.Calls(func(o *device.Ops) { o.Increment(x) }); err == nil {
		t.Error("an operation that is refused is listed")
	}
}
