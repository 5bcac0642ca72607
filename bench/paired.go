package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"blitzen/device"
)

// Method is one of several ways to do the same work.
type Method struct {
	Name string
	// Run queues the work of one observation.
	Run func() error
	// Elsewhere takes the observations of a round by itself, in another process
	// say, in place of Run: with its own warm-ups and eviction.
	Elsewhere func(warm, observations int) ([]time.Duration, error)
}

// Paired is a protocol that compares methods in rounds. A round warms all
// methods up and then observes them by turns; adjacent rounds have them in
// reversed order. Methods that are measured elsewhere take their observations of
// a round in one piece, after or before the others.
//
// Source: SANTA++, appendix E.
type Paired struct {
	Rounds, Warm, Observations int // of a method: warm-ups and observations in a round
	// Evict queues work that leaves nothing of the methods' data in a cache,
	// ahead of every warm-up and observation and outside of its time.
	Evict func() error
}

// Of appendix E: 20,000 observations a method.
const (
	PaperRounds       = 20
	PaperWarm         = 300
	PaperObservations = 1000
)

// Rounds are the medians of all rounds in microseconds, [methods][rounds].
type Rounds [][]float64

// Measure runs the protocol. Methods measured elsewhere must come last.
func (p Paired) Measure(watch device.Stopwatch, methods []Method) (Rounds, error) {
	here := slices.IndexFunc(methods, func(m Method) bool { return m.Elsewhere != nil })
	if here < 0 {
		here = len(methods)
	}
	medians := make(Rounds, len(methods))
	for round := range p.Rounds {
		laps := make([][]time.Duration, len(methods))
		order := Reversed(len(methods), round)
		turns := slices.DeleteFunc(slices.Clone(order), func(m int) bool { return m >= here })
		for _, m := range order {
			var err error
			switch {
			case m >= here:
				laps[m], err = methods[m].Elsewhere(p.Warm, p.Observations)
			case m == turns[0]:
				err = p.byTurns(watch, methods, turns, laps)
			}
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round, methods[m].Name, err)
			}
		}
		for m := range methods {
			medians[m] = append(medians[m], Median(Microseconds(laps[m])))
		}
	}
	return medians, nil
}

// byTurns observes methods in the order of turns.
func (p Paired) byTurns(watch device.Stopwatch, methods []Method, turns []int, laps [][]time.Duration) error {
	for i := range p.Warm + p.Observations {
		for _, m := range turns {
			if err := p.Evict(); err != nil {
				return err
			}
			if err := observe(watch, methods[m].Run, i >= p.Warm); err != nil {
				return err
			}
		}
	}
	all, err := watch.Laps()
	for i, lap := range all {
		m := turns[i%len(turns)]
		laps[m] = append(laps[m], lap)
	}
	return err
}

// Reversed is the order of n methods in a round: up, then down, by turns.
func Reversed(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// Rotated is the order of n stages in an observation: every stage is first, and
// in any other place, as often as the others.
func Rotated(n, observation int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + observation) % n
	}
	return order
}

// Estimate is a method's time in microseconds: the median of its rounds.
func (r Rounds) Estimate(method int) float64 { return Median(r[method]) }

// Resamples is the number of resamples behind an interval of Ratio.
const Resamples = 10_000

// Ratio is the time of method a over that of b with its 95 % interval: the
// percentiles of the ratios of estimates over rounds drawn with replacement,
// which keep what a and b had in a round together. The same rounds and seed give
// the same interval; one round gives none, but zeros.
func (r Rounds) Ratio(a, b int, seed uint64) (ratio, low, high float64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	n := len(r[a])
	if n < 2 {
		return r.Estimate(a) / r.Estimate(b), 0, 0
	}
	ratios := make([]float64, Resamples)
	left, right := make([]float64, n), make([]float64, n)
	for i := range ratios {
		for j := range n {
			round := rng.IntN(n)
			left[j], right[j] = r[a][round], r[b][round]
		}
		ratios[i] = Median(left) / Median(right)
	}
	return r.Estimate(a) / r.Estimate(b), quantile(ratios, 0.025), quantile(ratios, 0.975)
}
