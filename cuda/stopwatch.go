package cuda

import (
	"errors"
	"slices"
	"time"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// stopwatch implements device.Stopwatch by events in the GPU's queue.
type stopwatch struct {
	gpu   *gpu
	marks []driver.Event // Start and Stop by turns; kept for the next laps
	used  int
}

// Stopwatch implements device.Profiler.
func (d *gpu) Stopwatch() (device.Stopwatch, error) {
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	leave()
	return &stopwatch{gpu: d}, nil
}

// Start implements device.Stopwatch.
func (s *stopwatch) Start() error {
	if s.used%2 == 1 {
		return errors.New("stopwatch: started twice")
	}
	return s.mark()
}

// Stop implements device.Stopwatch.
func (s *stopwatch) Stop() error {
	if s.used%2 == 0 {
		return errors.New("stopwatch: stopped before it was started")
	}
	return s.mark()
}

func (s *stopwatch) mark() error {
	leave, err := s.gpu.enter()
	if err != nil {
		return err
	}
	defer leave()
	if s.used == len(s.marks) {
		e, err := driver.NewEvent(true)
		if err != nil {
			return s.gpu.keep(err)
		}
		s.marks = append(s.marks, e)
	}
	s.used++
	return s.gpu.keep(s.marks[s.used-1].Record(s.gpu.stream))
}

// Laps implements device.Stopwatch.
func (s *stopwatch) Laps() ([]time.Duration, error) {
	switch {
	case s.used == 0:
		return nil, nil
	case s.used%2 == 1:
		return nil, errors.New("stopwatch: read while it runs")
	}
	leave, err := s.gpu.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := s.gpu.keep(s.marks[s.used-1].Wait()); err != nil {
		return nil, err
	}
	var laps []time.Duration
	for pair := range slices.Chunk(s.marks[:s.used], 2) {
		lap, err := driver.Elapsed(pair[0], pair[1])
		if err != nil {
			return nil, s.gpu.keep(err)
		}
		laps = append(laps, lap)
	}
	s.used = 0
	return laps, nil
}

// Close implements device.Stopwatch.
func (s *stopwatch) Close() (err error) {
	if s.gpu.closed {
		return nil
	}
	leave, err := s.gpu.enter()
	if err != nil {
		return err
	}
	defer leave()
	for _, m := range s.marks {
		err = errors.Join(err, m.Destroy())
	}
	s.marks, s.used = nil, 0
	return err
}

// CopyRate implements device.Profiler: the best of several runs of the driver's
// own copy, between halves of a block that passes any cache.
func (d *gpu) CopyRate() (float64, error) {
	leave, err := d.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	free, _, err := driver.MemoryInfo()
	if err != nil {
		return 0, d.keep(err)
	}
	half := int(min(free/4, 1<<30)) &^ (align - 1)
	block, err := driver.Alloc(2 * half)
	if err != nil {
		return 0, d.explain(err, 2*half)
	}
	watch := &stopwatch{gpu: d}
	err = d.copies(watch, block, half)
	laps, lapErr := watch.Laps()
	if err = errors.Join(err, lapErr, watch.Close(), driver.Free(block)); err != nil {
		return 0, err
	}
	return float64(2*copiesALap*half) / slices.Min(laps).Seconds(), nil
}

// copiesALap are timed together, so that the marks do not count.
const copiesALap = 4

func (d *gpu) copies(watch *stopwatch, block driver.Address, half int) error {
	const laps = 6
	for range laps {
		if err := watch.Start(); err != nil {
			return err
		}
		for range copiesALap {
			if err := d.stream.Copy(block+driver.Address(half), block, half); err != nil {
				return d.keep(err)
			}
		}
		if err := watch.Stop(); err != nil {
			return err
		}
	}
	return nil
}
