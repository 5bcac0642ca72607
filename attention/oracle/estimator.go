package oracle

import "blitzen/attention/sampled"

// This file is the method's scores in float64, written to be read and to judge:
// no fast path calls it. The rest of the estimator is in package sampled.

// Scores are φ_g = ln Σ_{i in g} exp(a·q·k_i). q [d]; keys [rows][d]; team
// [rows], numbers below teams; a the softmax scale.
func Scores(q []float64, keys [][]float64, team []int32, teams int, a float64) []float64 {
	members := make([][][]float64, teams)
	for i, k := range keys {
		members[team[i]] = append(members[team[i]], k)
	}
	phi := make([]float64, teams)
	for g := range phi {
		phi[g] = sampled.Attend(q, members[g], members[g], nil, a, 0).LogZ
	}
	return phi
}
