package divergence

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Estimate is a value with its standard error over steps, 0 for the few steps
// (up to 10) from which llama-perplexity gives none.
type Estimate struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"`
}

// Quantiles of a quantity over steps.
type Quantiles struct {
	Maximum float64 `json:"maximum"`
	P999    float64 `json:"p99_9"`
	P99     float64 `json:"p99"`
	P95     float64 `json:"p95"`
	P90     float64 `json:"p90"`
	Median  float64 `json:"median"`
	P10     float64 `json:"p10"`
	P5      float64 `json:"p5"`
	P1      float64 `json:"p1"`
	Minimum float64 `json:"minimum"`
}

// Summary is what llama-perplexity prints of a run, and the RMS logit error.
// Probabilities are shares, not percent.
type Summary struct {
	Steps int `json:"steps"`

	PPL           Estimate `json:"mean_ppl_q"`
	PPLBase       Estimate `json:"mean_ppl_base"`
	Correlation   float64  `json:"cor_ln_ppl"`               // of ln PPL(Q) and ln PPL(base) over steps
	LogPPLRatio   Estimate `json:"mean_ln_ppl_q_ppl_base"`   // ln(PPL(Q)/PPL(base))
	PPLRatio      Estimate `json:"mean_ppl_q_ppl_base"`      // PPL(Q)/PPL(base)
	PPLDifference Estimate `json:"mean_ppl_q_less_ppl_base"` // PPL(Q) − PPL(base)

	MeanKLD Estimate  `json:"mean_kld"`
	KLD     Quantiles `json:"kld"`

	MeanDeltaP Estimate  `json:"mean_delta_p"`
	DeltaP     Quantiles `json:"delta_p"`
	RMSDeltaP  Estimate  `json:"rms_delta_p"`
	SameTop    Estimate  `json:"same_top_p"`

	RMSLogit Estimate `json:"rms_logit_error"` // over vocabulary and steps
}

// Enough is the number of steps that standard errors take at least, but for that
// of a share.
const Enough = 11

// Summarize sums up steps. Of none everything is 0.
func Summarize(steps []Step) Summary {
	n := len(steps)
	if n == 0 {
		return Summary{}
	}
	column := func(of func(Step) float64) []float64 {
		values := make([]float64, n)
		for i, s := range steps {
			values[i] = of(s)
		}
		return values
	}
	s := Summary{Steps: n}
	s.perplexity(column(func(s Step) float64 { return s.NLL }), column(func(s Step) float64 { return s.NLLBase }))

	kld := column(func(s Step) float64 { return s.KLD })
	s.MeanKLD, s.KLD = mean(kld), quantiles(kld)

	delta := column(func(s Step) float64 { return s.DeltaP })
	s.MeanDeltaP, s.DeltaP = mean(delta), quantiles(delta)
	s.RMSDeltaP = root(mean(column(func(s Step) float64 { return s.DeltaP * s.DeltaP })))
	s.RMSLogit = root(mean(column(func(s Step) float64 { return s.LogitMSE })))

	for _, step := range steps {
		if step.SameTop {
			s.SameTop.Value += 1 / float64(n)
		}
	}
	s.SameTop.Value = min(s.SameTop.Value, 1)
	if n > 1 {
		s.SameTop.Error = math.Sqrt(s.SameTop.Value * (1 - s.SameTop.Value) / float64(n-1))
	}
	return s
}

// perplexity takes −ln of the probabilities of the tokens. Errors are carried
// through exp to first order.
func (s *Summary) perplexity(nll, base []float64) {
	q, p := mean(nll), mean(base)
	covariance := 0.0 // of the two means
	if len(nll) >= Enough {
		covariance = stat.Covariance(nll, base, nil) / float64(len(nll))
	}
	scaled := func(e Estimate) Estimate { return Estimate{math.Exp(e.Value), math.Exp(e.Value) * e.Error} }
	// Of differences step by step, so that equal losses have no error at all.
	paired := func(a, b float64) float64 {
		differences := make([]float64, len(nll))
		for i := range nll {
			differences[i] = a*nll[i] - b*base[i]
		}
		return mean(differences).Error
	}

	s.PPL, s.PPLBase = scaled(q), scaled(p)
	if q.Error*p.Error > 0 {
		s.Correlation = covariance / (q.Error * p.Error)
	}
	s.LogPPLRatio = Estimate{q.Value - p.Value, paired(1, 1)}
	s.PPLRatio = scaled(s.LogPPLRatio)
	s.PPLDifference = Estimate{s.PPL.Value - s.PPLBase.Value, paired(s.PPL.Value, s.PPLBase.Value)}
}

// mean is the mean with the standard error of a mean.
func mean(values []float64) Estimate {
	m, variance := stat.MeanVariance(values, nil)
	if len(values) < Enough {
		return Estimate{Value: m}
	}
	return Estimate{m, math.Sqrt(variance / float64(len(values)))}
}

// root is the square root, its error to first order.
func root(e Estimate) Estimate {
	value := math.Sqrt(e.Value)
	if value == 0 {
		return Estimate{}
	}
	return Estimate{value, 0.5 / value * e.Error}
}

func quantiles(values []float64) Quantiles {
	v := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 {
		place := share * float64(len(v)-1)
		i := int(place)
		rest := place - float64(i)
		return (1-rest)*v[i] + rest*v[min(i+1, len(v)-1)]
	}
	return Quantiles{
		Maximum: v[len(v)-1], P999: at(0.999), P99: at(0.99), P95: at(0.95), P90: at(0.9), Median: at(0.5),
		P10: at(0.1), P5: at(0.05), P1: at(0.01), Minimum: v[0],
	}
}
