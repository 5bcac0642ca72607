package cuda

import (
	"errors"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// recording collects what the step being recorded refers to.
type recording struct {
	uses     map[*buffer]bool
	touched  map[*buffer]bool // by kernels that may have written them
	appended map[*buffer]vec  // the address of the position that rows were appended at
}

// step implements device.Step: a graph, or fn to be called again.
type step struct {
	device *gpu
	graph  driver.Graph
	fn     func(*device.Ops) // eager only
	trace  device.Trace
	uses   map[*buffer]bool
	closed bool
}

// Record implements device.Device.
func (d *gpu) Record(fn func(*device.Ops)) (device.Step, error) {
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if d.recording != nil {
		return nil, errors.New("cuda: Record inside Record")
	}
	d.recording = &recording{uses: map[*buffer]bool{}, touched: map[*buffer]bool{}, appended: map[*buffer]vec{}}
	s := &step{device: d, uses: d.recording.uses}
	if d.opts.Eager || d.opts.Sync {
		err = s.rehearse(fn)
	} else {
		err = s.capture(fn)
	}
	d.recording = nil
	if err != nil {
		return nil, err
	}
	for b := range s.uses {
		b.steps++
	}
	return s, nil
}

// capture has the operations' launches collected in a graph.
func (s *step) capture(fn func(*device.Ops)) error {
	d := s.device
	if err := d.stream.Capture(); err != nil {
		return d.keep(err)
	}
	failed := d.issue(fn, nil)
	graph, err := d.stream.EndCapture()
	if failed != nil {
		if err == nil {
			graph.Destroy()
		}
		return failed
	}
	s.graph = graph
	return d.keep(err)
}

// rehearse prepares everything and launches nothing.
func (s *step) rehearse(fn func(*device.Ops)) error {
	d := s.device
	s.fn = fn
	d.kernels.rehearsal = true
	err := s.pass()
	d.kernels.rehearsal = false
	return err
}

// pass calls fn and compares what it issues with what it issued at first.
func (s *step) pass() error {
	s.trace.Begin()
	if err := s.device.issue(s.fn, &s.trace); err != nil {
		return err
	}
	return s.trace.End()
}

// Run implements device.Step: it queues the work and returns.
func (s *step) Run() error {
	if s.closed {
		return errors.New("cuda: a closed step was run")
	}
	leave, err := s.device.enter()
	if err != nil {
		return err
	}
	defer leave()
	if s.device.recording != nil {
		return errors.New("cuda: a step was run inside Record")
	}
	if s.fn != nil {
		return s.pass()
	}
	return s.device.keep(s.graph.Launch(s.device.stream))
}

// Close implements device.Step.
func (s *step) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	for b := range s.uses {
		b.steps--
	}
	if s.fn != nil || s.device.closed {
		return nil
	}
	leave, err := s.device.enter()
	if err != nil {
		return err
	}
	defer leave()
	return s.device.keep(s.graph.Destroy())
}
