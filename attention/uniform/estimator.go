package uniform

import "math"

// This file is the method's scores in float64, written to be read and to judge:
// no fast path calls it. The rest of the estimator is in package sampled.

// Scores are φ_g = ln n_g. sizes [teams].
func Scores(sizes []int) []float64 {
	phi := make([]float64, len(sizes))
	for g, n := range sizes {
		phi[g] = math.Log(float64(n))
	}
	return phi
}
