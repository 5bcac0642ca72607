package divergence

import (
	"math"
	"testing"
)

// steps are twelve with simple figures: KLD 0 … 11, ln P = −1 and ln Q
// alternately −1 and −2, Δp = ±½, the top the same in nine.
func steps() []Step {
	var out []Step
	for i := range 12 {
		s := Step{KLD: float64(i), NLLBase: 1, NLL: 1 + float64(i%2), DeltaP: 0.5, SameTop: i%4 != 0, LogitMSE: 4}
		if i < 3 {
			s.DeltaP = -0.5
		}
		out = append(out, s)
	}
	return out
}

// byHand is mean and standard error from sums, as llama-perplexity takes them.
func byHand(values ...float64) Estimate {
	sum, squares, n := 0.0, 0.0, float64(len(values))
	for _, v := range values {
		sum += v
		squares += v * v
	}
	m := sum / n
	return Estimate{m, math.Sqrt((squares/n - m*m) / (n - 1))}
}

func TestSummarize(t *testing.T) {
	s := Summarize(steps())
	check := func(what string, got, want Estimate) {
		t.Helper()
		near(t, what, got.Value, want.Value, 1e-14)
		near(t, "error of "+what, got.Error, want.Error, 1e-14)
	}
	kld := byHand(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	nll := byHand(1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2)
	check("mean KLD", s.MeanKLD, kld)
	check("PPL", s.PPL, Estimate{math.Exp(1.5), math.Exp(1.5) * nll.Error})
	check("PPL of the base", s.PPLBase, Estimate{math.E, 0})
	check("ln of the ratio", s.LogPPLRatio, Estimate{0.5, nll.Error})
	check("ratio", s.PPLRatio, Estimate{math.Exp(0.5), math.Exp(0.5) * nll.Error})
	check("difference", s.PPLDifference, Estimate{math.Exp(1.5) - math.E, math.Exp(1.5) * nll.Error})
	check("mean Δp", s.MeanDeltaP, byHand(-0.5, -0.5, -0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5))
	check("RMS Δp", s.RMSDeltaP, Estimate{0.5, 0})
	check("same top p", s.SameTop, Estimate{0.75, math.Sqrt(0.75 * 0.25 / 11)})
	check("RMS logit error", s.RMSLogit, Estimate{2, 0})
	near(t, "median KLD", s.KLD.Median, 5.5, 1e-14)
	near(t, "99.9 % KLD", s.KLD.P999, 10.989, 1e-14)
	near(t, "10 % KLD", s.KLD.P10, 1.1, 1e-14)
	if s.Steps != 12 || s.KLD.Maximum != 11 || s.KLD.Minimum != 0 || s.DeltaP.Minimum != -0.5 {
		t.Errorf("%+v", s)
	}
}

// With the same loss in both, the errors cancel exactly; losses in step correlate
// fully.
func TestPairedErrors(t *testing.T) {
	for _, scale := range []float64{1, 0.1, 0.01, 1e-3, 1e-6} {
		paired := steps()
		for i := range paired {
			paired[i].NLL = scale * math.Sqrt(float64(i))
			paired[i].NLLBase = paired[i].NLL
		}
		s := Summarize(paired)
		near(t, "ratio", s.PPLRatio.Value, 1, 0)
		near(t, "error of the ratio", s.PPLRatio.Error, 0, 0)
		near(t, "error of the difference", s.PPLDifference.Error, 0, 0)
		near(t, "correlation", s.Correlation, 1, 1e-14)
		if s.PPL.Error == 0 {
			t.Error("the perplexity itself has no error")
		}
	}
}

func TestFewSteps(t *testing.T) {
	if got := Summarize(nil); got != (Summary{}) {
		t.Errorf("of none: %+v", got)
	}
	one := Summarize(steps()[3:4])
	if one.MeanKLD != (Estimate{3, 0}) || one.KLD.Median != 3 || one.SameTop != (Estimate{1, 0}) || one.PPLRatio.Error != 0 {
		t.Errorf("of one: %+v", one)
	}
	if ten := Summarize(steps()[:10]); ten.MeanKLD.Error != 0 || math.Abs(ten.SameTop.Error-math.Sqrt(0.7*0.3/9)) > 1e-15 {
		t.Errorf("of ten: %+v", ten)
	}
}

func TestOverSeeds(t *testing.T) {
	if got := OverSeeds([]float64{1, 2, 3, 6}); got.Value != 3 || math.Abs(got.Error-math.Sqrt(14.0/3/4)) > 1e-15 {
		t.Errorf("%+v", got)
	}
	if got := OverSeeds([]float64{2}); got.Value != 2 || !math.IsNaN(got.Error) {
		t.Errorf("of one: %+v", got)
	}
	if got := OverSeeds(nil); !math.IsNaN(got.Value) {
		t.Errorf("of none: %+v", got)
	}
}
