package cuda

import (
	"errors"
	"unsafe"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// profile times the launches of a Profile under way.
type profile struct {
	gpu      *gpu
	ahead    func() error
	trace    *device.Trace // of the pass under way
	before   int           // operations of the passes before it, up to the last that launched
	last     int           // number of that operation
	does     []device.Call // what is launched now, if not for the last operation of the pass
	laps     *stopwatch
	launches []device.Launch
}

// Profile implements device.Profiler. Without ahead the GPU is first given work
// for some milliseconds, so that marks and kernels are queued before it comes
// to them: the time between two marks is then the kernel's alone.
func (d *gpu) Profile(fn, ahead func() error) ([]device.Launch, error) {
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if d.recording != nil || d.kernels.profile != nil {
		return nil, errors.New("cuda: Profile inside Record or Profile")
	}
	p := &profile{gpu: d, ahead: ahead, last: -1, laps: &stopwatch{gpu: d}}
	defer p.laps.Close()
	if ahead == nil {
		block, err := d.busy()
		if err != nil {
			return nil, d.keep(err)
		}
		defer driver.Free(block)
	}
	d.kernels.profile = p
	err = fn()
	d.kernels.profile = nil
	if err != nil {
		return nil, err
	}
	return p.results()
}

// busy queues a few milliseconds of work on memory that the caller frees.
func (d *gpu) busy() (driver.Address, error) {
	const size, times = 256 << 20, 60
	at, err := driver.Alloc(size)
	if err != nil {
		return 0, d.explain(err, size)
	}
	for range times {
		if err := d.stream.Fill(at, 0, size); err != nil {
			return 0, errors.Join(err, driver.Free(at))
		}
	}
	return at, nil
}

// follow has the operations of a pass traced.
func (p *profile) follow(trace *device.Trace) *device.Trace {
	if trace == nil {
		trace = &device.Trace{}
	}
	p.trace, p.before = trace, p.last+1
	return trace
}

func (p *profile) launch(kernel string, f driver.Function, g driver.Grid, shared int, args unsafe.Pointer) error {
	l := device.Launch{Kernel: kernel, Blocks: g.X * g.Y * g.Z, Threads: g.Threads, Shared: shared}
	var err error
	if l.Registers, err = f.Registers(); err != nil {
		return err
	}
	resident, err := f.Resident(g.Threads, shared)
	if err != nil {
		return err
	}
	room, err := p.gpu.kernels.card.device.ThreadsEach()
	if err != nil {
		return err
	}
	atOnce := min(float64(resident), float64(l.Blocks)/float64(p.gpu.kernels.card.multiprocessors))
	l.Occupancy = atOnce * float64(g.Threads) / float64(room)
	return p.time(l, func() error { return p.gpu.stream.Launch(f, g, shared, args) })
}

// time queues what launch does between two marks. Without a profile it only
// does it.
func (p *profile) time(l device.Launch, launch func() error) error {
	if p == nil {
		return launch()
	}
	if p.ahead != nil {
		p.gpu.kernels.profile = nil
		err := p.ahead()
		p.gpu.kernels.profile = p
		if err != nil {
			return err
		}
	}
	if p.trace != nil {
		l.Call, l.Number = p.trace.Last()
		l.Number += p.before
		p.last = l.Number
		if len(p.does) > 0 {
			l.Call = together(p.does)
		}
	}
	p.launches = append(p.launches, l)
	if err := p.laps.Start(); err != nil {
		return err
	}
	if err := launch(); err != nil {
		return err
	}
	return p.laps.Stop()
}

// doing has launches be for these operations.
func (p *profile) doing(calls []device.Call, launch func() error) error {
	if p == nil {
		return launch()
	}
	p.does = calls
	err := launch()
	p.does = nil
	return err
}

// together is operations as one.
func together(calls []device.Call) device.Call {
	all := device.Call{Read: 1, Of: 1}
	for i, c := range calls {
		if i > 0 {
			all.Name += ", "
		}
		all.Name += c.Name
		all.Args = append(all.Args, c.Args...)
	}
	return all
}

func (p *profile) results() ([]device.Launch, error) {
	laps, err := p.laps.Laps()
	if err != nil {
		return nil, err
	}
	for i, lap := range laps {
		p.launches[i].Time = lap
	}
	return p.launches, nil
}
