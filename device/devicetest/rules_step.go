package devicetest

import (
	"errors"
	"fmt"

	"blitzen/device"
)

func stepRules() []rule {
	return []rule{
		{"step/the first error sticks", firstErrorSticks},
		{"step/a bad view is an error", badViewFails},
		{"step/preparing executes nothing", preparingExecutesNothing},
		{"step/recording executes nothing", recordingExecutesNothing},
		{"step/recording reports errors", recordingReports},
		{"step/steps take turns", stepsTakeTurns},
		{"step/a replay that differs is refused", differentReplayRefused},
		{"step/the capacity changes no bit", capacityChangesNothing},
	}
}

func firstErrorSticks(d device.Device) error {
	k := &desk{dev: d}
	n, x := k.new("n", device.I32, []float64{0}, 1), k.new("x", device.F32, nil, 1)
	mine := errors.New("mine")
	err := d.Run(func(o *device.Ops) {
		o.Increment(n)
		o.Increment(x)
		o.Increment(n)
		o.Fail(mine)
	})
	k.refused("Increment of F32", err)
	if errors.Is(err, mine) {
		k.note(errors.New("a later error replaced the first"))
	}
	k.expect("one operation before the error, one after", n, 1)
	if err := d.Run(func(o *device.Ops) { o.Fail(mine) }); !errors.Is(err, mine) {
		k.note(fmt.Errorf("Run returned %v for Fail", err))
	}
	k.note(d.Run(func(o *device.Ops) { o.Increment(n) }))
	k.expect("a run after an error", n, 2)
	return k.done()
}

func badViewFails(d device.Device) error {
	k := &desk{dev: d}
	n := k.new("n", device.I32, []float64{0, 0}, 2)
	k.refused("a view past the end", d.Run(func(o *device.Ops) { o.Increment(n.Slice(0, 1, 3)) }))
	k.expect("nothing", n, 0, 0)
	return k.done()
}

func preparingExecutesNothing(d device.Device) error {
	k := &desk{dev: d}
	n, x := k.new("n", device.I32, []float64{10}, 1), k.new("x", device.F32, nil, 1)
	k.note(d.Prepare(func(o *device.Ops) { o.Increment(n) }))
	k.expect("after preparing", n, 10)
	k.refused("preparing Increment of F32", d.Prepare(func(o *device.Ops) { o.Increment(x) }))
	k.note(d.Run(func(o *device.Ops) { o.Increment(n) }))
	k.expect("after running", n, 11)
	return k.done()
}

func recordingExecutesNothing(d device.Device) error {
	k := &desk{dev: d}
	n := k.new("n", device.I32, []float64{10}, 1)
	step, err := d.Record(func(o *device.Ops) { o.Increment(n) })
	if err != nil {
		return errors.Join(err, k.done())
	}
	k.expect("after recording", n, 10)
	k.note(step.Run())
	k.note(step.Run())
	k.expect("after two replays", n, 12)
	k.note(d.Upload(n, Encode(device.I32, []float64{50})))
	k.note(step.Run())
	k.expect("after an upload and a replay", n, 51)
	k.note(step.Close())
	return k.done()
}

func recordingReports(d device.Device) error {
	k := &desk{dev: d}
	x := k.new("x", device.F32, nil, 1)
	_, err := d.Record(func(o *device.Ops) { o.Increment(x) })
	k.refused("recording Increment of F32", err)
	return k.done()
}

// stepsTakeTurns replays two steps on the same tensors, with a run between.
func stepsTakeTurns(d device.Device) error {
	k := &desk{dev: d}
	a, b := k.new("a", device.I32, []float64{0}, 1), k.new("b", device.I32, []float64{0}, 1)
	one, err := d.Record(func(o *device.Ops) { o.Increment(a) })
	k.note(err)
	both, err := d.Record(func(o *device.Ops) { o.Increment(a); o.Copy(b, a) })
	k.note(err)
	if k.err != nil {
		return k.done()
	}
	k.note(one.Run())
	k.note(both.Run())
	k.expect("b", b, 2)
	k.note(d.Run(func(o *device.Ops) { o.Increment(b) }))
	k.note(one.Run())
	k.expect("a", a, 3)
	k.expect("b", b, 3)
	k.note(one.Close())
	k.note(both.Run())
	k.expect("b", b, 4)
	k.note(both.Close())
	return k.done()
}

// differentReplayRefused holds for devices that call the function again; one
// that replays what it captured cannot notice.
func differentReplayRefused(d device.Device) error {
	k := &desk{dev: d}
	a, b := k.new("a", device.I32, []float64{0}, 1), k.new("b", device.I32, []float64{0}, 1)
	x := k.new("x", device.F32, []float64{1, 1}, 1, 2)
	for what, other := range map[string]func(o *device.Ops){
		"another tensor":    func(o *device.Ops) { o.Increment(b); o.RMSNorm(x, x, x.Index(0, 0), 1) },
		"another operation": func(o *device.Ops) { o.Copy(a, b); o.RMSNorm(x, x, x.Index(0, 0), 1) },
		"another scalar":    func(o *device.Ops) { o.Increment(a); o.RMSNorm(x, x, x.Index(0, 0), 2) },
		"fewer operations":  func(o *device.Ops) { o.Increment(a) },
		"more operations":   func(o *device.Ops) { o.Increment(a); o.RMSNorm(x, x, x.Index(0, 0), 1); o.Increment(b) },
	} {
		calls := 0
		step, err := d.Record(func(o *device.Ops) {
			calls++
			if calls > 1 {
				other(o)
				return
			}
			o.Increment(a)
			o.RMSNorm(x, x, x.Index(0, 0), 1)
		})
		if err != nil {
			return errors.Join(err, k.done())
		}
		if err := step.Run(); err == nil && calls > 1 {
			k.note(fmt.Errorf("%s at a replay was not refused", what))
		}
		k.note(step.Close())
	}
	return k.done()
}

// capacityChangesNothing attends the same rows in caches of several
// capacities: the order of the sums depends on the range alone.
func capacityChangesNothing(d device.Device) error {
	const heads, rows, width = 7, 200, 64
	ty, err := typesOf(d)
	if err != nil {
		return err
	}
	var first []result
	for _, capacity := range []int{rows, rows + 1, 4096} {
		b := newBench("capacity", d, ty, packed)
		q, content := b.normal(heads*width, 1), b.normal(rows*width, 1)
		k := b.rows(1, capacity, width, 0, 0)
		copy(k, content)
		a := device.AttendArgs{
			Q: b.tensor("q", b.act(), q, 1, heads, width), K: b.tensor("k", b.act(), k, 1, capacity, width),
			V: b.tensor("v", b.act(), k, 1, capacity, width), Pos: b.ints("pos", []int{rows - 1}, 1), Scale: 0.125,
			Out: device.Partial{Out: b.blank("out", device.F32, 1, heads, width), LSE: b.blank("lse", device.F32, 1, heads)},
		}
		b.want("out", a.Out.Out, tolerance{})
		b.want("lse", a.Out.LSE, tolerance{})
		b.run(func(o *device.Ops) { o.Attend(a) })
		b.close()
		if b.err != nil {
			return b.err
		}
		if first == nil {
			first = b.results
		}
		for i, r := range b.results {
			if err := compare(r.values, first[i].values, r.tol, nil); err != nil {
				return fmt.Errorf("%s with capacity %d: %w", r.name, capacity, err)
			}
		}
	}
	return nil
}
