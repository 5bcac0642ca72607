package eval

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Resamples is the number of resamples behind an interval of [Bootstrap].
const Resamples = 10_000

// Bootstrap returns the mean of values, one a prompt, and its 95 % percentile
// bootstrap interval: the 2.5th and 97.5th percentiles of the means of
// [Resamples] samples of len(values) drawn with replacement (Efron and
// Tibshirani, An Introduction to the Bootstrap, chapter 13). Repeats of a
// prompt belong into one value, their mean, since they are not independent.
// The same values and seed give the same interval; no values give three NaN.
func Bootstrap(values []float64, seed uint64) (mean, low, high float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	means := make([]float64, Resamples)
	for i := range means {
		sum := 0.0
		for range values {
			sum += values[rng.IntN(len(values))]
		}
		means[i] = sum / float64(len(values))
	}
	slices.Sort(means)
	return stat.Mean(values, nil),
		stat.Quantile(0.025, stat.LinInterp, means, nil),
		stat.Quantile(0.975, stat.LinInterp, means, nil)
}
