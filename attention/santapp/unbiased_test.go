package santapp

import (
	"context"
	"math"
	"testing"

	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/teams"
)

const draws = 20_000

// Over seeds 0 … 19,999 the means of Ẑ and of every coordinate of Û must be
// within 4.5 standard errors of the dense mass and numerator: for 9 sums of a
// right estimator that fails once in 16,000 runs, and with fixed seeds either
// always or never. The wrong corrections listed in cases.json are off by tens
// of standard errors.
func TestUnbiased(t *testing.T) {
	l, f := unbiasedCase(t)
	b := buildUnbiased(t, l, 24)
	mean, variance := sums(t, l, b)
	want := append(f.Floats("Z"), f.Floats("U")...)
	for i := range want {
		se := math.Sqrt(variance[i] / draws)
		if z := (mean[i] - want[i]) / se; math.Abs(z) > 4.5 {
			t.Errorf("sum %d: mean %v, dense %v: %.1f standard errors apart", i, mean[i], want[i], z)
		}
	}
}

// Twice the budget must lower the variance of every sum, here by a factor of
// about two or more.
func TestVarianceFalls(t *testing.T) {
	l, _ := unbiasedCase(t)
	_, small := sums(t, l, buildUnbiased(t, l, 24))
	check(t, l.cache.Thaw())
	_, large := sums(t, l, buildUnbiased(t, l, 48))
	for i := range small {
		if large[i] > small[i] {
			t.Errorf("sum %d: variance %v with 6 teams, %v with 12", i, small[i], large[i])
		}
	}
}

func unbiasedCase(t *testing.T) (*layerCase, *golden.File) {
	f := golden.Open(t, testdata+"unbiased.safetensors")
	return fill(t, open(t), [][]float64{f.Floats("q")}, [][][]float64{f.Rows("K")}, [][][]float64{f.Rows("V")}, 96, 0.25), f
}

func buildUnbiased(t *testing.T, l *layerCase, budget int) *Backend {
	b, err := Build(context.Background(), l.dev, l.cache, 1, Config{
		Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: budget, Parents: teams.Contiguous,
	}, nil)
	check(t, err)
	t.Cleanup(b.Close)
	return b
}

// sums are mean and variance of Ẑ and Û, suffix included, over the seeds.
func sums(t *testing.T, l *layerCase, b *Backend) (mean, variance []float64) {
	step, err := l.dev.Record(func(ops *device.Ops) { b.Attend(ops, l.input()) })
	check(t, err)
	defer step.Close()
	mean, variance = make([]float64, 1+l.dv), make([]float64, 1+l.dv)
	for seed := range uint64(draws) {
		check(t, b.Reseed(seed))
		check(t, step.Run())
		for i, x := range corrected(t, l, b) {
			// Welford's update.
			d := x - mean[i]
			mean[i] += d / float64(seed+1)
			variance[i] += d * (x - mean[i])
		}
	}
	for i := range variance {
		variance[i] /= draws - 1
	}
	return mean, variance
}

// corrected is Ẑ and Û of one draw.
func corrected(t *testing.T, l *layerCase, b *Backend) []float64 {
	z := 0.0
	for _, p := range []device.Partial{b.step.prompt, b.step.tail} {
		lse, err := device.Read[float32](l.dev, p.LSE)
		check(t, err)
		z += math.Exp(float64(lse[0]))
	}
	out, err := device.Read[float32](l.dev, l.out)
	check(t, err)
	all := []float64{z}
	for _, o := range out {
		all = append(all, z*float64(o))
	}
	return all
}
