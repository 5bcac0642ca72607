package santapp

import (
	"context"
	"math"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/internal/attentiontest"
	"blitzen/internal/golden"
	"blitzen/teams"
)

// Over the seeds the means of Ẑ and of every coordinate of Û must be near the
// dense mass and numerator.
func TestUnbiased(t *testing.T) {
	l, f := unbiasedCase(t)
	b := buildUnbiased(t, l, 24, false)
	mean, variance := attentiontest.NewChain(t, l, b).Sums(t)
	attentiontest.CheckMeans(t, mean, variance, append(f.Floats("Z"), f.Floats("U")...))
}

// Representatives as F8 change how teams are drawn, but by the chances that are
// corrected for: the same means.
func TestUnbiasedF8(t *testing.T) {
	l, f := unbiasedCase(t)
	b := buildUnbiased(t, l, 24, true)
	mean, variance := attentiontest.NewChain(t, l, b).Sums(t)
	attentiontest.CheckMeans(t, mean, variance, append(f.Floats("Z"), f.Floats("U")...))
}

// Twice the budget must lower the variance of every sum, here by a factor of
// about two or more.
func TestVarianceFalls(t *testing.T) {
	l, _ := unbiasedCase(t)
	_, small := attentiontest.NewChain(t, l, buildUnbiased(t, l, 24, false)).Sums(t)
	attentiontest.Check(t, l.Cache.Thaw())
	_, large := attentiontest.NewChain(t, l, buildUnbiased(t, l, 48, false)).Sums(t)
	for i := range small {
		if large[i] > small[i] {
			t.Errorf("sum %d: variance %v with 6 teams, %v with 12", i, small[i], large[i])
		}
	}
}

func unbiasedCase(t *testing.T) (*attentiontest.Layer, *golden.File) {
	return attentiontest.Single(t, open(t), testdata)
}

func buildUnbiased(t *testing.T, l *attentiontest.Layer, budget int, f8 bool) *sampled.Backend {
	b, err := Build(context.Background(), l.Dev, l.Cache, Config{
		Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: budget, Parents: teams.Contiguous, RepsF8: f8,
	}, nil)
	attentiontest.Check(t, err)
	t.Cleanup(b.Close)
	return b
}

// The same on the latent form. Its estimates are heavy-tailed at the golden's
// queries, so these are scaled by 0.2; 4 heads of 33 sums each must all be
// within attentiontest.Limit, which a right estimator misses once in 1,100
// seeds of the test.
func TestUnbiasedLatent(t *testing.T) {
	c := latentCases(t)[0]
	f := golden.Open(t, testdata+c.Case+".safetensors")
	l := fillLatent(t, open(t), f, c, 0.2)
	b, err := Build(context.Background(), l.Dev, l.Cache, Config{
		Config: teams.Config{ParentSize: c.P, Representatives: c.R}, Budget: c.S, Parents: teams.Contiguous,
	}, nil)
	attentiontest.Check(t, err)
	defer b.Close()
	mean, variance := attentiontest.NewChain(t, l, b).Sums(t)
	keys, latent := latentKeys(f)
	for h := range c.Heads {
		q := absorbed(f, h)
		for i := range q {
			q[i] *= 0.2
		}
		dense := sampled.Attend(q, keys, latent, nil, c.Scale, c.Latent)
		want := []float64{math.Exp(dense.LogZ)}
		for _, o := range dense.Out {
			want = append(want, math.Exp(dense.LogZ)*o)
		}
		at := h * len(want)
		attentiontest.CheckMeans(t, mean[at:], variance[at:], want)
	}
}
