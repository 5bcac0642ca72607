// Package host is the CPU device. It computes in float32: GoMLX multiplies many
// rows by a weight, the C kernels of host/kernels do the rest. Results do not
// depend on the number of threads.
package host

import (
	"errors"
	"fmt"
	"runtime"

	"blitzen/device"
	"blitzen/host/kernels"
)

// Options configure the CPU device.
type Options struct {
	// Threads that work at once; 0 for GOMAXPROCS.
	Threads int
	// CheckReplay makes every Step fail when it issues other operations than it
	// did when it was recorded.
	CheckReplay bool
	// Products of many rows: who multiplies.
	Products Products
}

// Products names what multiplies many rows by a weight.
type Products uint8

const (
	// ProductsC are the C kernels: 3 to 5 times faster than GoMLX in a build
	// with GOEXPERIMENT=simd, 25 times faster than in a plain one.
	ProductsC Products = iota
	// ProductsGoMLX is GoMLX's Go backend, written by others: the second
	// opinion on every product. Not with -race or -asan, whose pointer checks
	// its address arithmetic does not pass.
	ProductsGoMLX
)

// cpu implements device.Device.
type cpu struct {
	opts    Options
	kernels *hostKernels
	live    map[*buffer]bool
	stats   device.MemoryStats
	err     error // first misuse that could not be returned where it happened
	closed  bool
}

var errClosed = errors.New("the CPU device is closed")

// New makes a CPU device. The caller closes it.
func New(opts Options) (device.Device, error) {
	if opts.Threads < 0 {
		return nil, fmt.Errorf("cpu: %d threads; want 1 or more, or 0 for all", opts.Threads)
	}
	if opts.Threads == 0 {
		opts.Threads = runtime.GOMAXPROCS(0)
	}
	d := &cpu{opts: opts, live: map[*buffer]bool{}}
	d.kernels = &hostKernels{pool: newPool(opts.Threads)}
	if opts.Products == ProductsGoMLX {
		var err error
		if d.kernels.gomlx, err = newGoMLX(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Name implements device.Device.
func (d *cpu) Name() string {
	products := "C"
	if d.kernels.gomlx != nil {
		products = "GoMLX"
	}
	threads := "1 thread"
	if d.opts.Threads > 1 {
		threads = fmt.Sprintf("%d threads", d.opts.Threads)
	}
	return fmt.Sprintf("cpu (%s, %s, products %s)", kernels.ISA(), threads, products)
}

// DType implements device.Device.
func (d *cpu) DType() device.DType { return device.F32 }

// Queued implements device.Device: work is done when Run returns.
func (d *cpu) Queued() bool { return false }

// Prepare implements device.Device: kernels are there.
func (d *cpu) Prepare(fn func(*device.Ops)) error { return device.Check(fn) }

// Run implements device.Device.
func (d *cpu) Run(fn func(*device.Ops)) error { return d.pass(fn, nil) }

// Record implements device.Device.
func (d *cpu) Record(fn func(*device.Ops)) (device.Step, error) {
	s := &step{device: d, fn: fn, uses: map[*buffer]bool{}}
	if d.opts.CheckReplay {
		s.trace = new(device.Trace)
	}
	d.kernels.uses = s.uses
	err := d.pass(fn, s.trace)
	d.kernels.uses = nil
	if err != nil {
		return nil, err
	}
	for b := range s.uses {
		b.steps++
	}
	return s, nil
}

// pass runs fn once; a trace, if there is one, records or compares it.
func (d *cpu) pass(fn func(*device.Ops), trace *device.Trace) error {
	if err := d.usable(); err != nil {
		return err
	}
	if trace != nil {
		trace.Begin()
	}
	ops := device.NewOps(d.kernels, trace)
	fn(ops)
	if err := ops.Err(); err != nil {
		return err
	}
	if trace != nil {
		return trace.End()
	}
	return nil
}

func (d *cpu) usable() error {
	if d.closed {
		return errClosed
	}
	return d.err
}

// Close implements device.Device.
func (d *cpu) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	for b := range d.live {
		d.release(b)
	}
	d.kernels.close()
	return d.err
}

// step implements device.Step: it runs the function again.
type step struct {
	device *cpu
	fn     func(*device.Ops)
	trace  *device.Trace
	uses   map[*buffer]bool
	closed bool
}

// Run implements device.Step.
func (s *step) Run() error {
	if s.closed {
		return errors.New("cpu: a closed step was run")
	}
	return s.device.pass(s.fn, s.trace)
}

// Close implements device.Step.
func (s *step) Close() error {
	if !s.closed {
		s.closed = true
		for b := range s.uses {
			b.steps--
		}
	}
	return nil
}
