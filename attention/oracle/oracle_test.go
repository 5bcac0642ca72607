package oracle

import (
	"context"
	"math"
	"slices"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/attention/santapp"
	"blitzen/attention/uniform"
	"blitzen/internal/attentiontest"
	"blitzen/internal/modeltest"
	"blitzen/teams"
)

const testdata = "../../testdata/santa/"

func build(t *testing.T, l *attentiontest.Layer, cfg santapp.Config) (santapp.Teams, *sampled.Backend) {
	t.Helper()
	teams, err := santapp.Group(context.Background(), l.Dev, l.Cache, cfg, nil)
	attentiontest.Check(t, err)
	b, err := New(l.Dev, l.Cache, teams, cfg, l.Heads)
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
		return Scores(c.Queries[h], c.Prompt(h), p.Team, len(p.N), c.Softmax)
	}, func(h int, score float64) float64 {
		// ln Σ exp is off by no more than a score is; it sums up to n terms, each with
		// the rounding of an exp, and the result is rounded: of 2⁻²⁴ a piece.
		q := c.Queries[h]
		return 0x1p-24 * (float64(len(q)+2)*attentiontest.Reach(q, c.Prompt(h), c.Softmax) + float64(c.Rows+2) + math.Abs(score))
	})
	chain.CheckFused(t)
}

func TestUnbiased(t *testing.T) {
	l, f := attentiontest.Single(t, modeltest.Host(t), testdata)
	_, b := build(t, l, santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: 24})
	mean, variance := attentiontest.NewChain(t, l, b).Sums(t)
	attentiontest.CheckMeans(t, mean, variance, slices.Concat(f.Floats("Z"), f.Floats("U")))
}

// Knowing the masses must make every sum less uncertain than going by sizes
// does.
func TestLessVariance(t *testing.T) {
	l, _ := attentiontest.Single(t, modeltest.Host(t), testdata)
	cfg := santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: 24}
	made, b := build(t, l, cfg)
	_, own := attentiontest.NewChain(t, l, b).Sums(t)
	attentiontest.Check(t, l.Cache.Thaw())
	other, err := uniform.New(l.Dev, l.Cache, made, cfg)
	attentiontest.Check(t, err)
	t.Cleanup(other.Close)
	_, blind := attentiontest.NewChain(t, l, other).Sums(t)
	for i := range own {
		if own[i] > blind[i] {
			t.Errorf("sum %d: variance %v, drawn by size %v", i, own[i], blind[i])
		}
	}
}
