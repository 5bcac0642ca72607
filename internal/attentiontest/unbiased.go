package attentiontest

import (
	"math"
	"testing"

	"blitzen/device"
)

// Draws is how many seeds the means are taken over: 0 … Draws−1.
const Draws = 20_000

// Limit is how many standard errors a mean may be off: with 9 sums a right
// estimator fails once in 16,000 tests, and with fixed seeds either always or
// never. The wrong corrections listed in testdata/santa/cases.json are off by
// tens of standard errors.
const Limit = 4.5

// Moments are mean and variance over the seeds of what a step of fn leaves.
func Moments(t testing.TB, dev device.Device, fn func(*device.Ops), reseed func(uint64) error, read func() []float64) (mean, variance []float64) {
	t.Helper()
	step, err := dev.Record(fn)
	Check(t, err)
	defer step.Close()
	for seed := range uint64(Draws) {
		Check(t, reseed(seed))
		Check(t, step.Run())
		x := read()
		if mean == nil {
			mean, variance = make([]float64, len(x)), make([]float64, len(x))
		}
		for i := range x {
			// Welford's update.
			d := x[i] - mean[i]
			mean[i] += d / float64(seed+1)
			variance[i] += d * (x[i] - mean[i])
		}
	}
	for i := range variance {
		variance[i] /= Draws - 1
	}
	return mean, variance
}

// Sums are mean and variance of Ẑ and Û over the seeds, suffix included, head
// after head.
func (c *Chain) Sums(t testing.TB) (mean, variance []float64) {
	t.Helper()
	return Moments(t, c.layer.Dev, c.All, c.Reseed, func() []float64 { return c.corrected(t) })
}

// corrected is Ẑ and Û of one draw.
func (c *Chain) corrected(t testing.TB) []float64 {
	l := c.layer
	prompt, tail, out := Floats(t, l.Dev, c.Prompt.LSE), Floats(t, l.Dev, c.Suffix.LSE), Floats(t, l.Dev, l.Out)
	var all []float64
	for h := range l.Heads {
		z := math.Exp(prompt[h]) + math.Exp(tail[h])
		all = append(all, z)
		for _, o := range out[h*l.DV : (h+1)*l.DV] {
			all = append(all, z*o)
		}
	}
	return all
}

// CheckMeans compares means over the seeds with what they estimate.
func CheckMeans(t testing.TB, mean, variance, want []float64) {
	t.Helper()
	for i := range want {
		if z := (mean[i] - want[i]) / math.Sqrt(variance[i]/Draws); !(math.Abs(z) <= Limit) {
			t.Errorf("sum %d: mean %v, exactly %v: %.1f standard errors apart", i, mean[i], want[i], z)
		}
	}
}
