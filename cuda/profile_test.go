package cuda

import (
	"testing"

	"blitzen/device"
)

// Profile sees every kernel of a pass under its operation, whether the pass is
// run or a step that issues it anew; what runs ahead of kernels is not seen and
// changes nothing.
func TestProfile(t *testing.T) {
	d := requireGPU(t, Options{DType: device.F32, Eager: true})
	c := newChain(t, d)
	calls, err := device.Calls(c.step)
	if err != nil {
		t.Fatal(err)
	}
	step, err := d.Record(c.step)
	if err != nil {
		t.Fatal(err)
	}
	defer step.Close()
	mark, err := d.New("mark", device.I32, 1)
	if err != nil {
		t.Fatal(err)
	}
	times := 0
	ahead := func() error {
		times++
		return d.Run(func(o *device.Ops) { o.Increment(mark) })
	}
	for name, run := range map[string]func() error{"run": func() error { return d.Run(c.step) }, "step": step.Run} {
		for _, hook := range []func() error{nil, ahead} {
			times = 0
			launches, err := d.Profile(func() error {
				if err := run(); err != nil {
					return err
				}
				return run()
			}, hook)
			if err != nil {
				t.Fatal(err)
			}
			if len(launches) < 2*len(calls) || hook != nil && times != len(launches) {
				t.Errorf("%s: %d launches of %d operations, %d times ahead", name, len(launches), 2*len(calls), times)
			}
			for i, l := range launches {
				if l.Call.Name != calls[l.Number%len(calls)].Name || l.Time <= 0 || l.Kernel == "" {
					t.Errorf("%s: launch %d is %+v", name, i, l)
				}
				if l.Blocks > 0 && (l.Registers == 0 || l.Occupancy <= 0 || l.Occupancy > 1) {
					t.Errorf("%s: launch %d is %+v", name, i, l)
				}
			}
			if last := launches[len(launches)-1].Number; last != 2*len(calls)-1 {
				t.Errorf("%s: the last launch is of operation %d of %d", name, last, 2*len(calls))
			}
		}
	}
}

// A stopwatch's laps grow with the work, and misuse is an error.
func TestStopwatch(t *testing.T) {
	d := requireGPU(t, Options{DType: device.F32})
	w, err := d.Stopwatch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if laps, err := w.Laps(); len(laps) != 0 || err != nil {
		t.Errorf("laps %v, %v", laps, err)
	}
	large, err := d.New("large", device.I32, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(func(o *device.Ops) { o.Increment(large) }); err != nil { // compiled now
		t.Fatal(err)
	}
	for range 3 {
		for _, n := range []int{1, 64 << 20} {
			if err := w.Start(); err != nil {
				t.Fatal(err)
			}
			if err := d.Run(func(o *device.Ops) { o.Increment(large.Slice(0, 0, n)) }); err != nil {
				t.Fatal(err)
			}
			if err := w.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		laps, err := w.Laps()
		if err != nil || len(laps) != 2 || laps[0] <= 0 || laps[1] < 2*laps[0] {
			t.Errorf("laps %v, %v", laps, err)
		}
		t.Log(laps)
	}
	if w.Stop() == nil {
		t.Error("stopped twice")
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	if w.Start() == nil {
		t.Error("started twice")
	}
	if _, err := w.Laps(); err == nil {
		t.Error("read while it runs")
	}
	rate, err := d.CopyRate()
	if err != nil || rate < 1e10 {
		t.Errorf("%v bytes a second, %v", rate, err)
	}
	t.Logf("copies move %.0f GB/s", rate/1e9)
}
