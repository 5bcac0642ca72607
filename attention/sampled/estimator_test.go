package sampled

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLogInclusionLimits(t *testing.T) {
	for _, c := range []struct{ delta, want float64 }{
		{math.Inf(1), 0}, {800, 0}, {-800, -800}, {math.Inf(-1), math.Inf(-1)},
		{0, math.Log(1 - math.Exp(-1))},
	} {
		if got := LogInclusion(c.delta); math.Abs(got-c.want) > 1e-15*math.Max(1, math.Abs(c.want)) && got != c.want {
			t.Errorf("ln c(%v) = %v, want %v", c.delta, got, c.want)
		}
	}
	// Both branches meet at the switch.
	below, above := LogInclusion(-37-1e-9), LogInclusion(-37+1e-9)
	if math.Abs(above-below) > 3e-9 {
		t.Errorf("ln c jumps from %v to %v at δ = −37", below, above)
	}
}

// Whatever the scores, the drawn groups' 1/c must be 1 on average for each
// group: 100,000 draws, within 4.5 standard errors, which one of 12 means misses
// in 12,000 seeds of the test.
func TestDrawUnbiased(t *testing.T) {
	const draws = 100_000
	rng := rand.New(rand.NewPCG(7, 8))
	for _, k := range []int{1, 3} {
		phi := []float64{0, 1.5, -2, 0.3, -0.7, 2}
		sum, squares, gumbel := make([]float64, len(phi)), make([]float64, len(phi)), make([]float64, len(phi))
		for range draws {
			for g := range gumbel {
				gumbel[g] = -math.Log(rng.ExpFloat64())
			}
			s := Draw(phi, gumbel, k)
			for i, g := range s.Groups {
				w := math.Exp(-s.LogC[i])
				sum[g] += w
				squares[g] += w * w
			}
		}
		for g := range phi {
			mean := sum[g] / draws
			se := math.Sqrt((squares[g]/draws - mean*mean) / draws)
			if z := (mean - 1) / se; math.Abs(z) > 4.5 {
				t.Errorf("K = %d, group %d: mean of 1/c is %v, %.1f standard errors from 1", k, g, mean, z)
			}
		}
	}
}
