package device_test

import (
	"testing"

	"blitzen/device"
)

func TestTrace(t *testing.T) {
	n, m, x := i32("n", 4), i32("m", 4), f32("x", 2, 8)
	gamma := x.Index(0, 0)
	recorded := func(o *device.Ops) {
		o.Increment(n)
		o.RMSNorm(x, x, gamma, 0.5)
		o.Append(f32("c", 1, 3, 8).Slice(0, 0, 1), x.Unflatten(0, 2, 1), n.Slice(0, 0, 2), nil)
	}
	for _, c := range []struct {
		name   string
		replay func(o *device.Ops)
		want   string
	}{
		{"the same", recorded, ``},
		{"equal views cut anew", func(o *device.Ops) {
			o.Increment(n.Slice(0, 0, 4))
			o.RMSNorm(x, x, x.Slice(0, 0, 1).Index(0, 0), 0.5)
			o.Append(f32("c", 1, 3, 8), x.Unflatten(0, 2, 1), n.Slice(0, 0, 2), nil)
		}, ``},
		{"another tensor", func(o *device.Ops) { o.Increment(m) },
			`replay: operation 0, Increment, got another tensor: was n I32[4], now m I32[4]`},
		{"another view", func(o *device.Ops) { o.Increment(n.Slice(0, 1, 4)) },
			`replay: operation 0, Increment, got another tensor: was n I32[4], now n I32[3]`},
		{"another operation", func(o *device.Ops) { o.MarkSeen(n, n) },
			`replay: operation 0 was Increment(), now MarkSeen()`},
		{"another scalar", func(o *device.Ops) { o.Increment(n); o.RMSNorm(x, x, gamma, 0.25) },
			`replay: operation 1 was RMSNorm(0.5), now RMSNorm(0.25)`},
		{"a tensor for none", func(o *device.Ops) {
			o.Increment(n)
			o.RMSNorm(x, x, gamma, 0.5)
			o.Append(f32("c", 1, 3, 8), x.Unflatten(0, 2, 1), n.Slice(0, 0, 2), i32("s", 1, 1))
		}, `replay: operation 2, Append, got another tensor: was nil, now s I32[1 1]`},
		{"fewer", func(o *device.Ops) { o.Increment(n) },
			`replay: the step stopped after 1 of 3 operations; next was RMSNorm`},
		{"more", func(o *device.Ops) { recorded(o); o.Increment(n) },
			`replay: operation 3, Increment, was not recorded`},
		{"a wrong call", func(o *device.Ops) { o.Increment(x) }, `Increment: t is x F32[2 8], want I32`},
	} {
		trace := new(device.Trace)
		if err := pass(trace, recorded); err != nil {
			t.Fatal(err)
		}
		for range 2 { // an error must not spoil the recording
			got := ""
			if err := pass(trace, c.replay); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s: error\n\t%q, want\n\t%q", c.name, got, c.want)
			}
			if err := pass(trace, recorded); err != nil {
				t.Errorf("%s: the recorded operations were refused afterwards: %v", c.name, err)
			}
		}
	}
}

// pass is what a device does with a step.
func pass(trace *device.Trace, fn func(o *device.Ops)) error {
	trace.Begin()
	o := device.NewOps(nil, trace)
	fn(o)
	if o.Err() != nil {
		return o.Err()
	}
	return trace.End()
}

func TestTapOffersUntilAnError(t *testing.T) {
	var names []string
	o := device.NewOps(nil, nil)
	o.Tap("before anyone asks", f32("x", 1))
	o.OnTap(func(name string, x *device.Tensor) { names = append(names, name+" "+x.Name) })
	o.Tap("embed", f32("x", 1))
	o.Increment(nil)
	o.Tap("after an error", f32("x", 1))
	if len(names) != 1 || names[0] != "embed x" {
		t.Errorf("taps %q, want only embed", names)
	}
}
