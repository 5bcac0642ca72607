package bench

import "blitzen/device"

// Timing is a time in microseconds and the half distance of its quartiles.
type Timing struct{ Median, Spread float64 }

// TimeLayers times attention inside a row of layers: a recorded step that issues
// every layer, several times where layers are few, since that a step begins
// takes microseconds itself. Every layer is cold when its turn comes, if all
// together read more than caches hold.
func (o *Operator) TimeLayers(watch device.Stopwatch, replays int, issue func(ops *device.Ops, layer int)) (Timing, error) {
	const calls = 64 // in a step, about
	rounds := max(1, calls/len(o.sets))
	step := func(ops *device.Ops) {
		for range rounds {
			for layer := range o.sets {
				issue(ops, layer)
			}
		}
	}
	if err := o.dev.Prepare(step); err != nil {
		return Timing{}, err
	}
	recorded, err := o.dev.Record(step)
	if err != nil {
		return Timing{}, err
	}
	defer recorded.Close()
	const warm = 3
	for i := range warm + replays {
		if err := observe(watch, recorded.Run, i >= warm); err != nil {
			return Timing{}, err
		}
	}
	laps, err := watch.Laps()
	if err != nil {
		return Timing{}, err
	}
	times := Microseconds(laps)
	for i := range times {
		times[i] /= float64(rounds * len(o.sets))
	}
	return Summary(times), nil
}

// Summary is the median of times and half the distance of their quartiles.
func Summary(times []float64) Timing {
	if len(times) == 0 {
		return Timing{}
	}
	return Timing{Median(times), (quantile(times, 0.75) - quantile(times, 0.25)) / 2}
}
