package santapp

import (
	"math"

	"blitzen/attention/sampled"
)

// This file is the method's scores in float64, written to be read and to judge:
// no fast path calls it. The rest of the estimator is in package sampled.

// Scores are φ_g = ln n_g + a·q·ℓ_g (Eq. 3). q [d]; reps [teams][d], the key
// that represents each team; sizes [teams]; a the softmax scale.
func Scores(q []float64, reps [][]float64, sizes []int, a float64) []float64 {
	phi := make([]float64, len(reps))
	for g := range reps {
		phi[g] = math.Log(float64(sizes[g])) + a*sampled.Dot(q, reps[g])
	}
	return phi
}
