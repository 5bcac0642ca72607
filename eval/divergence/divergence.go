// Package divergence says how far one model's next-token distributions are from
// another's on the same tokens, in the words and with the uncertainties of
// llama.cpp's llama-perplexity --kl-divergence. All sums are in float64.
//
// The distribution that is taken for right is the base, P; the other is Q. Both
// are softmax of a row of logits, and both have seen the same tokens.
package divergence

import "math"

// Step compares the two distributions of one step. Logs are natural.
type Step struct {
	KLD     float64 `json:"kld"`      // Σ P ln(P/Q), nats; at least 0
	NLLBase float64 `json:"nll_base"` // −ln P(token)
	NLL     float64 `json:"nll"`      // −ln Q(token)
	DeltaP  float64 `json:"delta_p"`  // Q(token) − P(token)
	SameTop bool    `json:"same_top"` // the most probable tokens are the same
	// LogitMSE is the mean over the vocabulary of the squared difference of the
	// logits, each row less its mean: softmax does not see a shift.
	LogitMSE float64 `json:"logit_mse"`
}

// Compare compares the logits base and q, [vocab] both, of one step after which
// token came. The token is an id of the vocabulary.
//
// KLD is summed as Σ P·(d + e⁻ᵈ − 1) with d = ln P − ln Q, which is the same
// since Σ P = Σ Q. No term is negative, so nothing cancels between tokens: the
// sum is right to rounding where the distributions are nearly equal.
func Compare(base, q []float32, token int32) Step {
	lseP, lseQ := logSumExp(base), logSumExp(q)
	var s Step
	for i := range base {
		s.KLD += term(float64(base[i])-lseP, float64(q[i])-lseQ)
	}
	s.NLLBase, s.NLL = lseP-float64(base[token]), lseQ-float64(q[token])
	s.DeltaP = math.Exp(-s.NLL) - math.Exp(-s.NLLBase)
	s.SameTop = largest(base) == largest(q)
	s.LogitMSE = centredMSE(base, q)
	return s
}

// term is P·(d + e⁻ᵈ − 1) for log-probabilities of one token.
func term(logP, logQ float64) float64 {
	p, q, d := math.Exp(logP), math.Exp(logQ), logP-logQ
	switch {
	case p == 0:
		return q
	case math.Abs(d) < 1:
		return p * (d + math.Expm1(-d))
	}
	return p*d - p + q
}

func logSumExp(x []float32) float64 {
	most := float64(x[largest(x)])
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	return most + math.Log(sum)
}

// largest is the index of the largest value, the lower among equals.
func largest(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

func centredMSE(a, b []float32) float64 {
	n := float64(len(a))
	shift := 0.0
	for i := range a {
		shift += (float64(b[i]) - float64(a[i])) / n
	}
	sum := 0.0
	for i := range a {
		e := float64(b[i]) - float64(a[i]) - shift
		sum += e * e / n
	}
	return sum
}
