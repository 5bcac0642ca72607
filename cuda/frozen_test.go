package cuda

import (
	"testing"

	"blitzen/device"
)

// Rows before the position are as they were where the step appends one row, there.
func TestFrozenBefore(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens int
		other  bool // the row goes to another position than that asked for
		slots  bool
		twice  bool // and one more to yet another
		want   int32
	}{
		{name: "a row", tokens: 1, want: 1},
		{name: "rows", tokens: 2},
		{name: "another position", tokens: 1, other: true},
		{name: "a mapped row", tokens: 1, slots: true},
		{name: "two positions", tokens: 1, twice: true},
	} {
		p := newPlanner(90)
		p.kernels.gpu.recording = &recording{uses: map[*buffer]bool{}, touched: map[*buffer]bool{}, appended: map[*buffer]vec{}}
		cache, pos := p.tensor(device.BF16, 1, 64, 8), p.tensor(device.I32, 1)
		call := p.kernels.call("append")
		if call.frozenBefore(cache, pos) != 1 {
			t.Errorf("%s: rows that nobody writes are not frozen", c.name)
		}
		at := p.tensor(device.I32, c.tokens)
		if c.tokens == 1 && !c.other {
			at = pos
		}
		var slots *device.Tensor
		if c.slots {
			slots = p.tensor(device.I32, 1, 64)
		}
		if c.twice {
			call.appends(cache, p.tensor(device.I32, 1), nil)
		}
		call.appends(cache, at, slots)
		if got := call.frozenBefore(cache, pos); got != c.want {
			t.Errorf("%s: frozen %d, want %d", c.name, got, c.want)
		}
		if err := p.kernels.Increment(pos); err != nil || call.frozenBefore(cache, pos) != 0 {
			t.Errorf("%s: a position that the step writes is frozen (%v)", c.name, err)
		}
	}
}
