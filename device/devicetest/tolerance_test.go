package devicetest

import (
	"math"
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	one := tolerance{abs: 1}
	for _, c := range []struct {
		name      string
		got, want []float64
		tol       tolerance
		skip      []bool
		ok        bool
	}{
		{"equal", []float64{1, nan, inf, -inf}, []float64{1, nan, inf, -inf}, tolerance{}, nil, true},
		{"lengths", []float64{1}, []float64{1, 2}, one, nil, false},
		{"NaN for a number", []float64{nan, 2}, []float64{1, 2}, tolerance{abs: inf}, nil, false},
		{"a number for NaN", []float64{1, 2}, []float64{nan, 2}, one, nil, false},
		{"the other infinity", []float64{inf}, []float64{-inf}, one, nil, false},
		{"Inf for a number", []float64{inf}, []float64{1e30}, one, nil, false},
		{"within abs", []float64{1.9}, []float64{1}, one, nil, true},
		{"beyond abs", []float64{2.1}, []float64{1}, one, nil, false},
		{"within round", []float64{110}, []float64{100}, tolerance{round: 0.1}, nil, true},
		{"round is of the element", []float64{110, 1.2}, []float64{100, 1}, tolerance{round: 0.1}, nil, false},
		{"ofMax is of the largest", []float64{110, 1.2}, []float64{100, 1}, tolerance{ofMax: 0.1}, nil, true},
		{"one error of many", append(make([]float64, 99), 0.9), make([]float64, 100), one, nil, true},
		{"many errors as large as one may be", slices.Repeat([]float64{0.9}, 100), make([]float64, 100), one, nil, false},
		{"skipped", []float64{nan, 1}, []float64{5, 1}, tolerance{}, []bool{true, false}, true},
		{"not skipped", []float64{nan, 1}, []float64{5, 1}, tolerance{}, []bool{false, true}, false},
		{"none", nil, nil, tolerance{}, nil, true},
	} {
		if err := compare(c.got, c.want, c.tol, c.skip); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestMaxNormAndMaxAbs(t *testing.T) {
	x := []float64{3, 4, math.NaN(), 100, -1, -1}
	if got := maxNorm(x, 2); got != 5 {
		t.Errorf("largest norm %v, want 5: a row with NaN does not count", got)
	}
	if got := maxAbs([]float64{1, -7, math.Inf(1), math.NaN()}); got != 7 {
		t.Errorf("largest magnitude %v, want 7", got)
	}
}
