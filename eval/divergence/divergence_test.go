package divergence

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance || math.IsNaN(got) != math.IsNaN(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// A few roundings of numbers around 1.
const rounding = 1e-15

// P = (½, ½) and Q = (e, 1)/(1+e).
func TestTwoTokens(t *testing.T) {
	got := Compare([]float32{0, 0}, []float32{1, 0}, 0)
	all := math.Log(1 + math.E)
	near(t, "KLD", got.KLD, all-0.5-math.Ln2, rounding)
	near(t, "NLL of the base", got.NLLBase, math.Ln2, rounding)
	near(t, "NLL", got.NLL, all-1, rounding)
	near(t, "Δp", got.DeltaP, math.E/(1+math.E)-0.5, rounding)
	near(t, "logit error", got.LogitMSE, 0.25, rounding)
	if !got.SameTop { // the first of equals
		t.Error("the top tokens differ")
	}
	if Compare([]float32{0, 0}, []float32{0, 1}, 0).SameTop {
		t.Error("the top tokens are the same")
	}
}

// Softmax does not see a shift: everything is 0, not nearly 0.
func TestShiftIsNoDifference(t *testing.T) {
	base, q := []float32{3, -7, 0.5, 80}, []float32{11, 1, 8.5, 88}
	for _, other := range [][]float32{base, q} {
		got := Compare(base, other, 1)
		if got.KLD != 0 || got.DeltaP != 0 || got.LogitMSE != 0 || !got.SameTop || got.NLL != got.NLLBase {
			t.Errorf("%v: %+v", other, got)
		}
	}
}

// A logit moved by ε gives P(1−P)ε²/2 to first order, far below what a
// difference of two sums around 1 could show.
func TestSmallDifference(t *testing.T) {
	const step = 0x1p-20
	p := 1 / (1 + math.E)
	got := Compare([]float32{0, 1}, []float32{step, 1}, 0).KLD
	want := p * (1 - p) * step * step / 2
	near(t, "KLD over its first order", got/want, 1, 1e-3)
}

func TestImpossibleTokens(t *testing.T) {
	inf := float32(math.Inf(-1))
	both := Compare([]float32{0, 0, inf}, []float32{1, 0, inf}, 0).KLD
	near(t, "KLD with a token impossible in both", both, math.Log(1+math.E)-0.5-math.Ln2, rounding)
	near(t, "KLD with a token impossible in the base", Compare([]float32{0, inf}, []float32{0, 0}, 0).KLD, math.Ln2, rounding)
	if got := Compare([]float32{0, 0}, []float32{0, inf}, 0).KLD; !math.IsInf(got, 1) {
		t.Errorf("KLD with a token impossible in the other alone is %v", got)
	}
	if got := Compare([]float32{0, 200}, []float32{200, 0}, 0).KLD; math.Abs(got-200) > 1e-10 {
		t.Errorf("KLD of opposites is %v, want 200", got)
	}
}

// The definition, summed as it stands: terms of either sign up to 20, each
// rounded, and at most 50 of them.
func TestDefinition(t *testing.T) {
	logit := rapid.Float32Range(-10, 10)
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(r, "tokens")
		base, q := rapid.SliceOfN(logit, n, n).Draw(r, "base"), rapid.SliceOfN(logit, n, n).Draw(r, "q")
		p, o := probabilities(base), probabilities(q)
		want := 0.0
		for i := range p {
			want += p[i] * math.Log(p[i]/o[i])
		}
		got := Compare(base, q, 0)
		if math.Abs(got.KLD-want) > 1e-12 || got.KLD < 0 {
			r.Fatalf("KLD is %v, want %v", got.KLD, want)
		}
		if d := o[0] - p[0]; math.Abs(got.DeltaP-d) > 1e-13 {
			r.Fatalf("Δp is %v, want %v", got.DeltaP, d)
		}
	})
}

func probabilities(x []float32) []float64 {
	p, sum := make([]float64, len(x)), 0.0
	for i, v := range x {
		p[i] = math.Exp(float64(v))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
