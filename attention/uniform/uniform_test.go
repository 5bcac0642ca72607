package uniform

import (
	"context"
	"math"
	"slices"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/attention/santapp"
	"blitzen/internal/attentiontest"
	"blitzen/internal/modeltest"
	"blitzen/teams"
)

const testdata = "../../testdata/santa/"

func build(t *testing.T, l *attentiontest.Layer, cfg santapp.Config) (santapp.Teams, *sampled.Backend) {
	t.Helper()
	teams, err := santapp.Group(context.Background(), l.Dev, l.Cache, cfg, nil)
	attentiontest.Check(t, err)
	b, err := New(l.Dev, l.Cache, teams, cfg)
	attentiontest.Check(t, err)
	t.Cleanup(b.Close)
	return teams, b
}

// Teams scored on the device must be those of the estimator.
func TestScores(t *testing.T) {
	c := attentiontest.Grouped(t, modeltest.Host(t), testdata)
	made, b := build(t, c.Layer, santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: 16})
	chain := attentiontest.NewChain(t, c.Layer, b)
	chain.CheckScores(t, func(h int) []float64 {
		p, err := made.Partition(c.KeyHead(h))
		attentiontest.Check(t, err)
		sizes := make([]int, len(p.N))
		for g, n := range p.N {
			sizes[g] = int(n)
		}
		return Scores(sizes)
	}, func(_ int, score float64) float64 {
		return 0x1p-23 * math.Abs(score) // the logarithm is rounded to within one unit in the last place
	})
	chain.CheckFused(t)
}

func TestUnbiased(t *testing.T) {
	l, f := attentiontest.Single(t, modeltest.Host(t), testdata)
	_, b := build(t, l, santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: 24})
	mean, variance := attentiontest.NewChain(t, l, b).Sums(t)
	attentiontest.CheckMeans(t, mean, variance, slices.Concat(f.Floats("Z"), f.Floats("U")))
}
