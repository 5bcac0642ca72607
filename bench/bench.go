// Package bench measures: the attention of one decode step by itself, on rows
// of a trained model, and the kernels of a pass.
//
//	Capture → Source → Operator ─┬─ TimeLayers  many layers in a graph, cold
//	                             ├─ Paired      appendix E of the paper
//	                             └─ Stages      parts alone
//
// Times are the device's own where it has a clock (device.Profiler), else the
// host's.
package bench

import (
	"slices"
	"time"

	"blitzen/device"

	"gonum.org/v1/gonum/stat"
)

// Watch is a stopwatch for a device's work. The caller closes it. own is false
// where it is the host's clock, for a device that works while the host waits.
func Watch(dev device.Device) (w device.Stopwatch, own bool, err error) {
	if p, ok := dev.(device.Profiler); ok {
		w, err := p.Stopwatch()
		return w, true, err
	}
	return &wall{}, false, nil
}

// wall is the host's clock.
type wall struct {
	start time.Time
	laps  []time.Duration
}

func (w *wall) Start() error {
	w.start = time.Now()
	return nil
}

func (w *wall) Stop() error {
	w.laps = append(w.laps, time.Since(w.start))
	return nil
}

func (w *wall) Laps() ([]time.Duration, error) {
	laps := w.laps
	w.laps = nil
	return laps, nil
}

func (w *wall) Close() error { return nil }

// observe runs work, timed if it counts.
func observe(watch device.Stopwatch, work func() error, counts bool) error {
	if !counts {
		return work()
	}
	if err := watch.Start(); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return watch.Stop()
}

// Microseconds of durations.
func Microseconds(ds []time.Duration) []float64 {
	out := make([]float64, len(ds))
	for i, d := range ds {
		out[i] = float64(d.Nanoseconds()) / 1e3
	}
	return out
}

// Median of values, the mean of the two in the middle of an even number; 0 for
// none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func quantile(values []float64, p float64) float64 {
	return stat.Quantile(p, stat.LinInterp, slices.Sorted(slices.Values(values)), nil)
}
