package bench

import (
	"fmt"
	"time"

	"blitzen/device"
)

// Stage is a part of the sampled attention, timed alone: times of stages have
// other caches and borders than the whole and are not to be added up.
type Stage struct {
	Name    string
	Rounds  []float64       // medians in microseconds
	Bytes   float64         // read and written, each tensor once; rows of the cache as counted
	Kernels []device.Launch // of one pass; nil where the device has no profile
}

// Time is the median of the rounds in microseconds.
func (s Stage) Time() float64 { return Median(s.Rounds) }

// StageConfig is how stages are timed.
type StageConfig struct {
	Drawn                int
	Rounds, Observations int
	Evict                func() error // ahead of every observation
}

// unit is what one observation of stages runs: an operation, or one that yields
// the times of its kernels.
type unit struct {
	name  string
	issue func(ops *device.Ops)
	split bool
}

// Stages times the operations that sampled attention is made of, the kernels
// that a device fuses them to, and the whole, on one layer. The order rotates
// from observation to observation.
func (o *Operator) Stages(watch device.Stopwatch, cfg StageConfig) ([]Stage, error) {
	a := o.args(0, cfg.Drawn)
	reads, err := o.Reads(cfg.Drawn)
	if err != nil {
		return nil, err
	}
	a.Routed, a.Rows, a.Suffix = nil, nil, nil
	memory := device.Owner{Dev: o.dev}
	defer memory.Free()
	steps, err := device.NewTeamsSteps(a, func(name string, t device.DType, shape ...int) (*device.Tensor, error) {
		return memory.New(name, t, shape...), memory.Err()
	})
	if err != nil {
		return nil, err
	}
	whole := func(ops *device.Ops) { ops.AttendTeams(a) }
	var units []unit
	for _, s := range steps.Stages(a) {
		units = append(units, unit{name: s.Name, issue: s.Issue})
	}
	units = append(units, unit{name: "whole", issue: whole})
	if _, ok := o.dev.(device.Profiler); ok {
		units = append(units, unit{name: "kernels", issue: whole, split: true})
	}
	s := &stager{dev: o.dev, watch: watch, cfg: cfg, units: units}
	if err := s.first(); err != nil {
		return nil, err
	}
	for range cfg.Rounds {
		if err := s.round(); err != nil {
			return nil, err
		}
	}
	return s.results(o, reads)
}

// stager collects the medians of each unit's kernels or of the unit.
type stager struct {
	dev      device.Device
	watch    device.Stopwatch
	cfg      StageConfig
	units    []unit
	launches [][]device.Launch // [units] of one pass
	rounds   [][][]float64     // [units][kernels, or one][rounds]
}

// first runs every unit in order, so that each has its input, and looks at its
// kernels.
func (s *stager) first() error {
	s.launches, s.rounds = make([][]device.Launch, len(s.units)), make([][][]float64, len(s.units))
	p, _ := s.dev.(device.Profiler)
	for i, u := range s.units {
		var err error
		if p != nil {
			s.launches[i], err = p.Profile(func() error { return s.dev.Run(u.issue) }, nil)
		} else {
			err = s.dev.Run(u.issue)
		}
		if err != nil {
			return fmt.Errorf("stage %s: %w", u.name, err)
		}
		s.rounds[i] = make([][]float64, 1)
		if u.split {
			s.rounds[i] = make([][]float64, len(s.launches[i]))
		}
	}
	return nil
}

func (s *stager) round() error {
	laps := make([][][]time.Duration, len(s.units))
	for i := range laps {
		laps[i] = make([][]time.Duration, len(s.rounds[i]))
	}
	for n := range s.cfg.Observations {
		for _, i := range Rotated(len(s.units), n) {
			times, err := s.observe(s.units[i])
			if err != nil {
				return fmt.Errorf("stage %s: %w", s.units[i].name, err)
			}
			if len(times) != len(laps[i]) {
				return fmt.Errorf("stage %s: %d kernels, at first %d", s.units[i].name, len(times), len(laps[i]))
			}
			for k, t := range times {
				laps[i][k] = append(laps[i][k], t)
			}
		}
	}
	for i := range laps {
		for k := range laps[i] {
			s.rounds[i][k] = append(s.rounds[i][k], Median(Microseconds(laps[i][k])))
		}
	}
	return nil
}

// observe times a unit once, or each of its kernels.
func (s *stager) observe(u unit) ([]time.Duration, error) {
	run := func() error { return s.dev.Run(u.issue) }
	if !u.split {
		if err := s.cfg.Evict(); err != nil {
			return nil, err
		}
		if err := observe(s.watch, run, true); err != nil {
			return nil, err
		}
		return s.watch.Laps()
	}
	launches, err := s.dev.(device.Profiler).Profile(run, s.cfg.Evict)
	times := make([]time.Duration, len(launches))
	for i, l := range launches {
		times[i] = l.Time
	}
	return times, err
}

func (s *stager) results(o *Operator, reads Reads) ([]Stage, error) {
	rowBytes := reads.Dense / float64(o.KeyHeads) / float64(o.Rows+o.Suffix)
	union, suffix := reads.Union*float64(o.KeyHeads)*rowBytes, float64(o.Suffix*o.KeyHeads)*rowBytes
	rows := map[string]float64{"read": union, "attend": suffix, "whole": union + suffix}
	var out []Stage
	for i, u := range s.units {
		calls, err := device.Calls(u.issue)
		if err != nil {
			return nil, err
		}
		own := float64(calls[0].Bytes())
		if !u.split {
			out = append(out, Stage{u.name, s.rounds[i][0], own + rows[u.name], s.launches[i]})
			continue
		}
		for k, l := range s.launches[i] { // the first scores representatives, the last reads rows
			stage := Stage{Name: l.Kernel, Rounds: s.rounds[i][k], Kernels: []device.Launch{l}}
			if k == 0 {
				stage.Bytes += own
			}
			if k == len(s.launches[i])-1 {
				stage.Bytes += union + suffix
			}
			out = append(out, stage)
		}
	}
	return out, nil
}
