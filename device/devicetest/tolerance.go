package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

// How tolerances are derived. u is the unit roundoff: 2⁻²⁴ for F32, 2⁻⁸ for
// BF16, 2⁻¹¹ for F16. Storing a result rounds it by u·|result|: tolerance.round. A float32
// sum of k terms rounds k times, each time by up to u of the partial sum; the
// roundings are independent, so they add up as a random walk to about
// u·√k·(typical term·√k of a sum of random signs) = u·|x|·|w| for a product of
// two vectors. The factor safety covers the largest of a million elements
// (5 standard deviations) and orders of summation that are worse than one
// random walk: tolerance.abs. Where that magnitude is the size of the results
// themselves, it is given by tolerance.ofMax.
const safety = 8

// unit is the unit roundoff of a float type.
func unit(t device.DType) float64 {
	switch t {
	case device.BF16:
		return 0x1p-8
	case device.F16:
		return 0x1p-11
	}
	return 0x1p-24
}

// f32Error is the error of a float32 calculation whose intermediate results
// are of the given magnitude.
func f32Error(magnitude float64) float64 { return safety * unit(device.F32) * magnitude }

// tolerance is how far an element may be from the reference. The zero value
// asks for equality.
type tolerance struct {
	round float64 // times the element
	abs   float64
	ofMax float64 // times the largest element
}

// stored is the tolerance of a float32 sum of the given magnitude stored as t.
func stored(t device.DType, magnitude float64) tolerance {
	return tolerance{round: unit(t), abs: f32Error(magnitude)}
}

// compare reports the first way in which got is not want, looking at NaN and
// Inf, the largest error, and the relative error of all elements together.
// Elements with skip set are not looked at.
func compare(got, want []float64, tol tolerance, skip []bool) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, want %d", len(got), len(want))
	}
	var g, w []float64
	for i := range want {
		if skip != nil && skip[i] {
			continue
		}
		if special(got[i]) || special(want[i]) {
			if got[i] != want[i] && !(math.IsNaN(got[i]) && math.IsNaN(want[i])) {
				return fmt.Errorf("element %d of %d is %v, want %v", i, len(want), got[i], want[i])
			}
			continue
		}
		g, w = append(g, got[i]), append(w, want[i])
	}
	return compareFinite(g, w, tol)
}

func special(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

func compareFinite(got, want []float64, tol tolerance) error {
	abs := tol.abs + tol.ofMax*maxAbs(want)
	worst, at := 0.0, 0
	var diff2, want2, got2, both float64
	for i := range want {
		d := math.Abs(got[i] - want[i])
		if over := d - (tol.round*math.Abs(want[i]) + abs); over > worst {
			worst, at = over, i
		}
		diff2 += d * d
		want2 += want[i] * want[i]
		got2 += got[i] * got[i]
		both += got[i] * want[i]
	}
	n := math.Sqrt(float64(len(want)))
	// Errors of many elements average out: half the bound in the mean square.
	allowed := tol.round*math.Sqrt(want2) + abs*n*(0.5+0.5/max(n, 1))
	if worst == 0 && math.Sqrt(diff2) <= allowed {
		return nil
	}
	return fmt.Errorf("finite element %d of %d is %v, want %v ± %.3g; |error| %.3g of %.3g, allowed %.3g; cosine %.9f (near 1: a wrong factor)",
		at, len(want), got[at], want[at], tol.round*math.Abs(want[at])+abs, math.Sqrt(diff2), math.Sqrt(want2), allowed, both/math.Sqrt(got2*want2))
}

// maxAbs is the largest finite magnitude.
func maxAbs(x []float64) float64 {
	top := 0.0
	for _, v := range x {
		if !special(v) {
			top = max(top, math.Abs(v))
		}
	}
	return top
}

// maxNorm is the largest Euclidean norm of the finite rows of a matrix with
// the given width.
func maxNorm(x []float64, width int) float64 {
	top := 0.0
	for ; len(x) >= width && width > 0; x = x[width:] {
		if n := math.Sqrt(dot(x[:width], x[:width])); !special(n) {
			top = max(top, n)
		}
	}
	return top
}
