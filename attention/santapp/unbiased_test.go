package santapp

import (
	"context"
	"math"
	"testing"

	"blitzen/attention/sampled"
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

func buildUnbiased(t *testing.T, l *layerCase, budget int) *sampled.Backend {
	b, err := Build(context.Background(), l.dev, l.cache, Config{
		Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: budget, Parents: teams.Contiguous,
	}, nil)
	check(t, err)
	t.Cleanup(b.Close)
	return b
}

// sums are mean and variance of Ẑ and Û, suffix included, over the seeds.
func sums(t *testing.T, l *layerCase, b *sampled.Backend) (mean, variance []float64) {
	c := newChain(t, l, b)
	step, err := l.dev.Record(c.attend)
	check(t, err)
	defer step.Close()
	mean, variance = make([]float64, l.heads*(1+l.dv)), make([]float64, l.heads*(1+l.dv))
	for seed := range uint64(draws) {
		check(t, b.Reseed(seed))
		check(t, step.Run())
		for i, x := range corrected(t, l, c) {
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

// corrected is Ẑ and Û of one draw, head after head.
func corrected(t *testing.T, l *layerCase, c *chain) []float64 {
	prompt, err := device.Read[float32](l.dev, c.Prompt.LSE)
	check(t, err)
	tail, err := device.Read[float32](l.dev, c.Suffix.LSE)
	check(t, err)
	out, err := device.Read[float32](l.dev, l.out)
	check(t, err)
	var all []float64
	for h := range l.heads {
		z := math.Exp(float64(prompt[h])) + math.Exp(float64(tail[h]))
		all = append(all, z)
		for _, o := range out[h*l.dv : (h+1)*l.dv] {
			all = append(all, z*float64(o))
		}
	}
	return all
}

// The same on the latent form. Its estimates are heavy-tailed at the golden's
// queries, so these are scaled by 0.2; 4 heads of 33 sums each must all be
// within 4.5 standard errors, which a right estimator misses once in 1,100
// seeds of the test.
func TestUnbiasedLatent(t *testing.T) {
	c := latentCases(t)[0]
	f := golden.Open(t, testdata+c.Case+".safetensors")
	l := fillLatent(t, open(t), f, c, 0.2)
	b, err := Build(context.Background(), l.dev, l.cache, Config{
		Config: teams.Config{ParentSize: c.P, Representatives: c.R}, Budget: c.S, Parents: teams.Contiguous,
	}, nil)
	check(t, err)
	defer b.Close()
	mean, variance := sums(t, l, b)
	keys, latent := latentKeys(f)
	for h := range c.Heads {
		q := absorbed(f, h)
		for i := range q {
			q[i] *= 0.2
		}
		dense := Attend(q, keys, latent, nil, c.Scale, c.Latent)
		want := []float64{math.Exp(dense.LogZ)}
		for _, o := range dense.Out {
			want = append(want, math.Exp(dense.LogZ)*o)
		}
		for i := range want {
			at := h*len(want) + i
			if z := (mean[at] - want[i]) / math.Sqrt(variance[at]/draws); math.Abs(z) > 4.5 {
				t.Errorf("head %d, sum %d: mean %v, dense %v: %.1f standard errors apart", h, i, mean[at], want[i], z)
			}
		}
	}
}
