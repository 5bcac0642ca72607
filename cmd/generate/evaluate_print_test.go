package main

import (
	"math"
	"testing"

	"blitzen/eval"
	"blitzen/eval/divergence"
)

// Prompts that were all right, or all wrong, leave an interval without width: a
// line says what it is worth. 1 − 0.05^(1/50) = 0.0582, 1 − 0.05^(1/3) = 0.6316.
func TestUnvaried(t *testing.T) {
	for _, c := range []struct {
		prompts, exact int
		mean, low      float64
		want           string
	}{
		{50, 50, 1, 1, "All or none of 50 prompts right: an interval without width says only that the other outcome's rate is below 5.8 % (95 %; about 3/n)"},
		{3, 0, 0, 0, "All or none of 3 prompts right: an interval without width says only that the other outcome's rate is below 63.2 % (95 %; about 3/n)"},
		{50, 45, 0.9, 0.8, ""},
		{1, 1, 1, math.NaN(), ""},
	} {
		lines := []eval.Line{
			{Prompts: c.prompts, Answers: c.prompts, Score: eval.Interval{Mean: 0.5, Low: 0.4, High: 0.6}},
			{Prompts: c.prompts, Answers: c.prompts, Exact: c.exact, Score: eval.Interval{Mean: c.mean, Low: c.low, High: c.mean}},
		}
		if got := unvaried(lines); got != c.want {
			t.Errorf("%d of %d prompts: %q", c.exact, c.prompts, got)
		}
	}
}

// What rounds to 0 has no minus.
func TestFixed(t *testing.T) {
	minus := math.Copysign(0, -1)
	for _, c := range []struct{ got, want string }{
		{fixed("%.3f", -0.0004), "0.000"}, {fixed("%.3f", -0.0006), "-0.001"}, {fixed("%.3f", 0.5), "0.500"}, {fixed("%+.3f", 0.5), "+0.500"},
		{signed(eval.Interval{Mean: -0.0001, Low: -0.01, High: 0.0001}), "+0.000 (-0.010 to +0.000)"},
		{signed(eval.Interval{Mean: 0.5, Low: 0.5, High: 0.5}), "+0.500"},
		{intervalPercent(eval.Interval{Low: -0.0001, High: 0.1}), "0.0 to 10.0"}, {meanPercent(-0.0001), "0.0"},
		{percentEstimate(divergence.Estimate{Value: -0.0001, Error: 0.1}), "0.000 ± 0.100 %"}, {figure(minus), "0.000000"}, {figure(-0.00001), "-1.00e-05"},
		{fixed("%.3f", math.Inf(-1)), "-Inf"}, {fixed("%.1f", -10), "-10.0"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
