package diagnostics

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Divergence is KL(p‖q) of dense attention over the prompt, p, from what a
// routing proposes, q, in nats (Eq. 11). It is the sum of two parts: how far the
// probabilities of whole groups are apart, and how unevenly p lies within them.
// The first is the fault of the scores, the second of the grouping: no score
// takes it away.
type Divergence struct{ Scores, Grouping float64 }

// KL is the whole.
func (d Divergence) KL() float64 { return d.Scores + d.Grouping }

// Diverge compares p = softmax(logits) over rows with q_i = P(g)/n_g, g the
// group of row i and P = softmax(phi) over groups. logits [rows], a·q·k; group
// [rows], numbers from 0 to the last, each with a row; phi [groups], ln n_g plus
// the score of the group's key.
//
//	KL = Σ_g p(g)·ln(p(g)/P(g)) + Σ_g p(g)·KL(p(·|g) ‖ 1/n_g)
func Diverge(logits []float64, group []int32, phi []float64) Divergence {
	type members struct{ n, mass, weighted float64 }
	groups := make([]members, len(phi))
	top := slices.Max(logits)
	total := 0.0
	for i, g := range group {
		w := math.Exp(logits[i] - top)
		groups[g].n++
		groups[g].mass += w
		groups[g].weighted += w * (logits[i] - top)
		total += w
	}
	norm := floats.LogSumExp(phi)
	var d Divergence
	for g, m := range groups {
		if m.mass == 0 { // weights below e⁻⁷⁴⁵ of the largest
			continue
		}
		p, logMass := m.mass/total, math.Log(m.mass)
		d.Scores += p * (logMass - math.Log(total) - (phi[g] - norm))
		d.Grouping += p * (m.weighted/m.mass - logMass + math.Log(m.n))
	}
	return d
}

// WER is the window effectiveness ratio (Eq. 12): the mass of the k disjoint
// windows of w tokens with most attention over that of the w·k tokens with
// most. weights [tokens]. A short last window counts as one.
func WER(weights []float64, w, k int) float64 {
	windows := make([]float64, (len(weights)+w-1)/w)
	for i, x := range weights {
		windows[i/w] += x
	}
	return sumLargest(windows, k) / sumLargest(weights, w*k)
}

func sumLargest(x []float64, n int) float64 {
	falling := slices.SortedFunc(slices.Values(x), func(a, b float64) int { return cmp.Compare(b, a) })
	sum := 0.0
	for _, v := range falling[:min(n, len(falling))] {
		sum += v
	}
	return sum
}

// Compactness is the mean Euclidean distance of the rows of x [rows, d] to the
// mean of their group (Appendix B.3). group [rows].
func Compactness(x []float32, d int, group []int32) float64 {
	groups := int(slices.Max(group)) + 1
	mean, n := make([]float64, groups*d), make([]float64, groups)
	for i, g := range group {
		n[g]++
		for j, v := range x[i*d : (i+1)*d] {
			mean[int(g)*d+j] += float64(v)
		}
	}
	sum := 0.0
	for i, g := range group {
		square := 0.0
		for j, v := range x[i*d : (i+1)*d] {
			diff := float64(v) - mean[int(g)*d+j]/n[g]
			square += diff * diff
		}
		sum += math.Sqrt(square)
	}
	return sum / float64(len(group))
}

// Jensen is what a mean key makes of a group's mass (Eq. 2): logarithms of the
// exact Σ exp(s) and of the surrogate n·exp(mean s).
type Jensen struct{ Exact, Surrogate float64 }

// JensenOf is that of a group's logits.
func JensenOf(logits []float64) Jensen {
	mean := 0.0
	for _, s := range logits {
		mean += s / float64(len(logits))
	}
	return Jensen{floats.LogSumExp(logits), math.Log(float64(len(logits))) + mean}
}

// Ratio is exact over surrogate, at least 1 but for rounding.
func (j Jensen) Ratio() float64 { return math.Exp(j.Exact - j.Surrogate) }
