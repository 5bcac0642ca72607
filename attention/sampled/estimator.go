package sampled

import (
	"math"
	"sort"
)

// This file is drawing, reading and correcting in float64, written to be read
// and to judge: no fast path calls it. One query head at a time; logarithms are
// natural. What a group scores is each method's own: see its estimator.go.

// Selection is the sample of groups that one query head drew.
type Selection struct {
	Phi    []float64 // [groups] the scores
	Groups []int     // [K] falling perturbed score
	Tau    float64   // (K+1)-th largest perturbed score; NaN when every group is drawn
	LogC   []float64 // [K] ln of the inclusion probability given the other groups' noise
}

// Draw draws k of the groups (Eq. 6 and 7). phi [groups], their scores; gumbel
// [groups], independent standard Gumbel noise.
func Draw(phi, gumbel []float64, k int) Selection {
	m := len(phi)
	s := Selection{Phi: phi, Tau: math.NaN()}
	y := make([]float64, m)
	order := make([]int, m)
	for g := range phi {
		y[g] = phi[g] + gumbel[g]
		order[g] = g
	}
	if k >= m {
		s.Groups, s.LogC = order, make([]float64, m)
		return s
	}
	sort.SliceStable(order, func(i, j int) bool { return y[order[i]] > y[order[j]] })
	s.Groups, s.Tau = order[:k], y[order[k]]
	for _, g := range s.Groups {
		s.LogC = append(s.LogC, LogInclusion(phi[g]-s.Tau))
	}
	return s
}

// LogInclusion is ln c = ln(1 − exp(−exp δ)), δ = φ − τ. Below δ = −37, c and
// exp δ agree to the last bit of a float64.
func LogInclusion(delta float64) float64 {
	if delta < -37 {
		return delta
	}
	return math.Log(-math.Expm1(-math.Exp(delta)))
}

// Sum is attention over part of the rows: Out = Û/Ẑ, LogZ = ln Ẑ. Û and Ẑ are
// unbiased estimates of the dense numerator and mass; their ratio is not.
type Sum struct {
	LogZ float64
	Out  []float64
}

// Attend sums rows with logits a·q·k − bias, in numerator and mass alike
// (Eq. 4). keys [rows][d]; values [rows][dv]; bias [rows] is the ln c of each
// row's group, nil for exact rows.
func Attend(q []float64, keys, values [][]float64, bias []float64, a float64, dv int) Sum {
	logits := make([]float64, len(keys))
	top := math.Inf(-1)
	for i, k := range keys {
		logits[i] = a * Dot(q, k)
		if bias != nil {
			logits[i] -= bias[i]
		}
		top = math.Max(top, logits[i])
	}
	s := Sum{LogZ: math.Inf(-1), Out: make([]float64, dv)}
	if len(keys) == 0 {
		return s
	}
	z := 0.0
	for i, v := range values {
		w := math.Exp(logits[i] - top)
		z += w
		for j := range s.Out {
			s.Out[j] += w * v[j]
		}
	}
	for j := range s.Out {
		s.Out[j] /= z
	}
	s.LogZ = top + math.Log(z)
	return s
}

// Merge joins the sums over two disjoint parts of the rows.
func Merge(x, y Sum) Sum {
	top := math.Max(x.LogZ, y.LogZ)
	if math.IsInf(top, -1) {
		return x
	}
	wx, wy := math.Exp(x.LogZ-top), math.Exp(y.LogZ-top)
	out := make([]float64, len(x.Out))
	for j := range out {
		out[j] = (wx*x.Out[j] + wy*y.Out[j]) / (wx + wy)
	}
	return Sum{LogZ: top + math.Log(wx+wy), Out: out}
}

// Dot is Σ x·y.
func Dot(x, y []float64) float64 {
	s := 0.0
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}
