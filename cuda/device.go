// Package cuda is the device for one NVIDIA GPU.
//
//	Ops → kernels (ops_*.go) → call → driver.Stream ─┬─ run: launched at once
//	        │                                        └─ record: captured in a graph
//	        └ programs: kernels/*.cu, compiled for the card by NVRTC, kept on disk
//
// Weights and activations are BF16 or F32, sums are float32. Work is queued on
// one stream in the order in which it is given; only Pending.Wait and Close wait
// for it. NVIDIA's libraries are opened at run time (package driver).
package cuda

import (
	"errors"
	"fmt"
	"runtime"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// Options configure a GPU.
type Options struct {
	// Ordinal numbers the GPU, from 0.
	Ordinal int
	// DType is the type of weights, activations and cache rows: BF16 or F32.
	DType device.DType
	// Sync waits after every kernel, so that an error names the operation that
	// failed, and fills scratch memory with NaN first. Slow; for debugging.
	Sync bool
	// Bounds has kernels check every address of global memory that they use against
	// the tensors of their operation, so that an error names the line; implies Sync.
	Bounds bool
	// Eager makes steps issue their operations anew instead of replaying a graph.
	// Sync implies it.
	Eager bool
	// CacheDir is where compiled kernels are kept; "" for the user's cache folder.
	CacheDir string
}

// gpu implements device.Device.
type gpu struct {
	opts    Options
	name    string
	context driver.Context
	stream  driver.Stream
	live    map[*buffer]bool
	block   *block // that the next small tensor of a checkpoint is cut from
	stats   device.MemoryStats
	upload  *uploader
	fetches *fetches
	scratch *scratch
	steps   *scratch // between the operations that one operation is made of
	kernels *kernels

	recording *recording // of the Record under way, or nil
	err       error      // sticky: a misuse that could not be returned, or a lost GPU
	closed    bool
}

var errClosed = errors.New("the GPU device is closed")

// Open makes a device of a GPU; the caller closes it. The error says what is
// missing: a library, a driver, a GPU of that number, a type the GPU lacks.
func Open(opts Options) (device.Device, error) {
	if opts.DType != device.BF16 && opts.DType != device.F32 {
		return nil, fmt.Errorf("cuda: activations cannot be %v; want BF16 or F32", opts.DType)
	}
	opts.Sync = opts.Sync || opts.Bounds
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	card, err := findCard(opts)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	d := &gpu{opts: opts, name: fmt.Sprintf("cuda:%d %s", opts.Ordinal, card.name), live: map[*buffer]bool{}}
	if err := d.start(card); err != nil {
		d.Close()
		return nil, fmt.Errorf("cuda: %w", err)
	}
	return d, nil
}

// start takes what a device needs on its card.
func (d *gpu) start(c card) (err error) {
	if d.context, err = c.device.Retain(); err != nil {
		return err
	}
	if err = d.context.MakeCurrent(); err != nil {
		return err
	}
	if d.stream, err = driver.NewStream(); err != nil {
		return err
	}
	if d.upload, err = newUploader(d.stream); err != nil {
		return err
	}
	d.fetches = newFetches(d.stream)
	d.scratch = &scratch{stream: d.stream, poison: d.opts.Sync}
	d.steps = &scratch{stream: d.stream, poison: d.opts.Sync}
	target, err := newTarget(c.capability)
	if err != nil {
		return err
	}
	blas, err := newProducts(d.stream)
	if err != nil {
		return err
	}
	d.kernels = &kernels{gpu: d, card: c, programs: newPrograms(target, newCache(d.opts.CacheDir)), products: blas, tables: map[string]*buffer{}}
	if d.opts.Bounds {
		d.kernels.bounds, err = newBounds(d)
		d.kernels.programs.bounds = d.kernels.bounds
	}
	return err
}

// Name implements device.Device.
func (d *gpu) Name() string { return d.name }

// DType implements device.Device.
func (d *gpu) DType() device.DType { return d.opts.DType }

// Queued implements device.Device: Step.Run returns at once.
func (d *gpu) Queued() bool { return true }

// enter makes the GPU that of the calling thread until leave is called.
func (d *gpu) enter() (leave func(), err error) {
	if d.closed {
		return nil, errClosed
	}
	if d.err != nil {
		return nil, d.err
	}
	runtime.LockOSThread()
	if err := d.context.MakeCurrent(); err != nil {
		runtime.UnlockOSThread()
		return nil, d.keep(err)
	}
	if err := d.kernels.flush(); err != nil { // the caller may read what was asked for
		runtime.UnlockOSThread()
		return nil, d.keep(err)
	}
	return runtime.UnlockOSThread, nil
}

// keep makes an error sticky when nothing can be done on the GPU after it.
func (d *gpu) keep(err error) error {
	var failed *driver.Error
	if d.err == nil && errors.As(err, &failed) && failed.Lost() {
		d.err = fmt.Errorf("the GPU stopped: %w", err)
		if !d.opts.Sync {
			d.err = fmt.Errorf("%w; the debug option that waits after every kernel names the operation", d.err)
		}
		return d.err
	}
	return err
}

// fail makes a misuse that cannot be returned the device's error.
func (d *gpu) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Run implements device.Device.
func (d *gpu) Run(fn func(*device.Ops)) error {
	leave, err := d.enter()
	if err != nil {
		return err
	}
	defer leave()
	if d.recording != nil {
		return errors.New("cuda: Run inside Record")
	}
	return d.issue(fn, nil)
}

// issue calls fn with the kernels.
func (d *gpu) issue(fn func(*device.Ops), trace *device.Trace) error {
	if p := d.kernels.profile; p != nil {
		trace = p.follow(trace)
	}
	if b := d.kernels.bounds; b != nil {
		trace = b.begin(trace)
	}
	ops := device.NewOps(d.kernels, trace)
	fn(ops)
	if err := ops.Err(); err != nil {
		d.kernels.rotation, d.kernels.layer = nil, nil
		return d.keep(err)
	}
	if err := d.kernels.flush(); err != nil {
		return d.keep(err)
	}
	return d.err
}

// Close implements device.Device. It goes on after errors and returns the first.
func (d *gpu) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if d.context == (driver.Context{}) {
		return nil
	}
	errs := []error{d.err, d.context.MakeCurrent()}
	if d.stream != (driver.Stream{}) {
		errs = append(errs, d.stream.Wait())
	}
	if d.kernels != nil {
		errs = append(errs, d.kernels.close())
	}
	for _, s := range []*scratch{d.scratch, d.steps} {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	for b := range d.live {
		errs = append(errs, d.giveBack(b))
	}
	if d.fetches != nil {
		errs = append(errs, d.fetches.close())
	}
	if d.upload != nil {
		errs = append(errs, d.upload.close())
	}
	if d.stream != (driver.Stream{}) {
		errs = append(errs, d.stream.Destroy())
	}
	errs = append(errs, d.context.Release())
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
