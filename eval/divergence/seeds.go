package divergence

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// OverSeeds is the mean of one value a seed with the standard error of that
// mean; the error of a single seed is not known: NaN. No values give two NaN.
func OverSeeds(values []float64) Estimate {
	switch len(values) {
	case 0:
		return Estimate{math.NaN(), math.NaN()}
	case 1:
		return Estimate{values[0], math.NaN()}
	}
	m, variance := stat.MeanVariance(values, nil)
	return Estimate{m, math.Sqrt(variance / float64(len(values)))}
}
