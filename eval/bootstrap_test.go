package eval

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), 2, 9).Draw(t, "values")
		seed := rapid.Uint64().Draw(t, "seed")
		got := Mean([][]float64{values}, seed)
		least, most := values[0], values[0]
		for _, v := range values {
			least, most = min(least, v), max(most, v)
		}
		// A sum of n values rounds n times: the bounds hold to n·ulp(100·n).
		eps := 9 * 9 * 100 * 0x1p-52
		if got.Low < least-eps || got.High > most+eps || got.Low > got.High || got.Mean < least-eps || got.Mean > most+eps {
			t.Fatalf("%+v of %v", got, values)
		}
		if again := Mean([][]float64{values}, seed); again != got {
			t.Fatal("the same seed gives another interval")
		}
	})
	if none := Mean([][]float64{nil}, 1); !math.IsNaN(none.Mean) || !math.IsNaN(none.Low) || !math.IsNaN(none.High) {
		t.Errorf("no values: %+v", none)
	}
	if one := Mean([][]float64{{0.5}, {1}}, 1); one.Mean != 0.75 || !math.IsNaN(one.Low) || !math.IsNaN(one.High) {
		t.Errorf("one value a task: %+v", one)
	}
}

// TestMeanBinomial compares with the interval known exactly: means of
// resamples of 50 ones and 50 zeros are binomial (100, 1/2) / 100, whose 2.5th
// and 97.5th percentiles are 0.40 and 0.60. An estimated percentile is off by
// sqrt(p(1−p)/Resamples) = 0.0016 in rank; the distribution function at 0.40
// is 0.0284 and at 0.39 is 0.0176, 2.2 and 4.7 of those away from 0.025: one
// step to the outside may happen by chance for some seeds, not two.
func TestMeanBinomial(t *testing.T) {
	values := make([]float64, 100)
	for i := range 50 {
		values[i] = 1
	}
	for seed := range uint64(20) {
		got := Mean([][]float64{values}, seed)
		if got.Mean != 0.5 || math.Abs(got.Low-0.40) > 0.0101 || math.Abs(got.High-0.60) > 0.0101 {
			t.Errorf("seed %d: %+v, want 0.40 to 0.60", seed, got)
		}
	}
}

// Tasks weigh the same however many prompts they have, and prompts are drawn
// within them: a task without spread adds none.
func TestMeanOfTasks(t *testing.T) {
	one, two := []float64{1, 1, 1, 1}, []float64{0, 1}
	got := Mean([][]float64{one, two}, 3)
	if got.Mean != 0.75 || got.Low != 0.5 || got.High != 1 {
		t.Errorf("%+v, want 0.75, 0.5 to 1", got)
	}
	if none := Mean([][]float64{one, nil}, 3); !math.IsNaN(none.Mean) {
		t.Errorf("a task without prompts: %+v", none)
	}
}

// Ends that meet tell something of all or nothing alone.
func TestKnown(t *testing.T) {
	nan := math.NaN()
	for i, want := range map[Interval]bool{
		{0.5, 0.4, 0.6}: true, {1, 0.9, 1}: true, {1, 1, 1}: true, {0, 0, 0}: true, {-1, -1, -1}: true,
		{0.5, 0.5, 0.5}: false, {0.5, nan, nan}: false, {1, nan, nan}: false, {nan, nan, nan}: false,
	} {
		if i.Known() != want {
			t.Errorf("%+v: %v", i, !want)
		}
	}
}

// Pairs are kept: equal values differ by nothing, and a share of itself is one,
// without spread; a constant loss has the spread of nothing either.
func TestPairs(t *testing.T) {
	a := [][]float64{{1, 0, 1, 1, 0.5}, {0.25, 1}}
	b := [][]float64{{0.5, -0.5, 0.5, 0.5, 0}, {-0.25, 0.5}}
	if d := Difference(a, a, 1); d != (Interval{}) {
		t.Errorf("difference to itself %+v", d)
	}
	if r := Ratio(a, a, 1); r != (Interval{1, 1, 1}) {
		t.Errorf("share of itself %+v", r)
	}
	// 7 additions of values below 1 round to a few times 2^-53.
	if d := Difference(a, b, 1); math.Abs(d.Mean-0.5) > 1e-15 || math.Abs(d.Low-0.5) > 1e-15 || math.Abs(d.High-0.5) > 1e-15 {
		t.Errorf("difference %+v, want 0.5 without spread", d)
	}
	if r := Ratio(a, [][]float64{{0, 0, 0, 0, 0}, {0, 0}}, 1); !math.IsInf(r.Mean, 1) || !math.IsNaN(r.Low) {
		t.Errorf("share of nothing %+v", r)
	}
}
