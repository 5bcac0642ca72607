package centroid

import (
	"math"

	"blitzen/attention/sampled"
)

// This file is the method's scores in float64, written to be read and to judge:
// no fast path calls it. The rest of the estimator is in package sampled.

// Scores are φ_g = ln n_g + a·q·k̄_g, k̄ the mean key of a cluster. q [d]; keys
// [rows][d]; cluster [rows], numbers below clusters, each with a row; a the
// softmax scale.
func Scores(q []float64, keys [][]float64, cluster []int32, clusters int, a float64) []float64 {
	sum, n := make([]float64, clusters), make([]float64, clusters)
	for i, k := range keys {
		sum[cluster[i]] += a * sampled.Dot(q, k) // the score of a mean is the mean score
		n[cluster[i]]++
	}
	phi := make([]float64, clusters)
	for g := range phi {
		phi[g] = math.Log(n[g]) + sum[g]/n[g]
	}
	return phi
}
