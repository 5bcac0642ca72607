package bench_test

import (
	"fmt"
	"testing"
	"time"

	"blitzen/bench"
	"blitzen/device"
)

// Launches are summed by kernel and operation; bytes stand at the longest kernel
// of an operation, and those of cache rows are added to attention alone.
func TestKernels(t *testing.T) {
	b16 := func(name string, shape ...int) *device.Tensor {
		return device.NewTensor(name, device.BF16, new(int), shape...)
	}
	i32 := func(shape ...int) *device.Tensor { return device.NewTensor("i", device.I32, new(int), shape...) }
	x, y := b16("x", 1, 8), b16("y", 1, 6)
	calls, err := device.Calls(func(o *device.Ops) {
		o.Linear(y, x, device.Weight{Parts: []*device.Tensor{b16("a", 2, 8), b16("b", 4, 8)}})
		o.Attend(device.AttendArgs{Out: device.Partial{Out: b16("o", 1, 2, 4)}, Q: b16("q", 1, 2, 4), K: b16("k", 1, 90, 4), V: b16("v", 1, 90, 4), Pos: i32(1), Scale: 1})
		o.Append(b16("cache", 1, 90, 4), b16("rows", 1, 1, 4), i32(1), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	var launches []device.Launch
	for i, l := range []struct {
		kernel string
		call   int
		us     int
	}{{"gemv", 0, 4}, {"few", 1, 9}, {"merge", 1, 2}, {"append", 2, 1}, {"gemv", 0, 6}, {"few", 1, 8}, {"merge", 1, 2}} {
		launches = append(launches, device.Launch{Kernel: l.kernel, Time: time.Duration(l.us) * time.Microsecond, Call: calls[l.call], Number: i})
	}
	const weights, attend = 2*6*8 + 2*6 + 2*8, 2*8 + 2*8 + 4
	for rows, bytes := range map[float64]float64{1000: attend + 1000, 0: 0} {
		want := fmt.Sprintf("[{Attend few 2 17 %v} {Linear 6×8 gemv 2 10 %v} {Attend merge 2 4 0} {Append append 1 1 %v}]", bytes, weights, 8+4)
		if got := fmt.Sprint(bench.Kernels(launches, rows)); got != want {
			t.Errorf("kernels %s\nwant    %s", got, want)
		}
	}
}

// A kernel that does several operations stands under their names, whose weights are of
// different sizes, with the bytes of all.
func TestKernelsOfSeveralOperations(t *testing.T) {
	w := device.NewTensor("w", device.BF16, nil, 6, 8)
	calls := device.Call{Name: "Linear, LinearAdd", Read: 1, Of: 1, Args: []device.Arg{{Name: "weight", Tensor: w}, {Name: "weight", Tensor: device.NewTensor("v", device.BF16, nil, 8, 6)}}}
	got := fmt.Sprint(bench.Kernels([]device.Launch{{Kernel: "both", Time: 2 * time.Microsecond, Call: calls}}, 0))
	if want := fmt.Sprintf("[{Linear, LinearAdd both 1 2 %d}]", 2*2*6*8); got != want {
		t.Errorf("kernels %s, want %s", got, want)
	}
}
