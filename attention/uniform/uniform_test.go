package uniform

import (
	"context"
	"math"
	"slices"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/attention/santapp"
	"blitzen/internal/attentiontest"
	"blitzen/internal/golden"
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
	const heads, kvHeads, n = 14, 2, 57
	f := golden.Open(t, testdata+"gqa7.safetensors")
	q, scale := f.Rows("Q"), 1/math.Sqrt(float64(len(f.Rows("Q")[0])))
	keys := [][][]float64{f.Rows("K", 0), f.Rows("K", 1)}
	l := attentiontest.Fill(t, modeltest.Host(t), q, keys, [][][]float64{f.Rows("V", 0), f.Rows("V", 1)}, n, scale)
	made, b := build(t, l, santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: 16})
	chain := attentiontest.NewChain(t, l, b)
	attentiontest.Check(t, l.Dev.Run(chain.Route))
	got, most := attentiontest.Floats(t, l.Dev, chain.Phi), chain.Phi.Shape[2]
	for h := range heads {
		p, err := made.Partition(h / (heads / kvHeads))
		attentiontest.Check(t, err)
		sizes := make([]int, len(p.N))
		for g, n := range p.N {
			sizes[g] = int(n)
		}
		want := Scores(sizes)
		for g := range want {
			// The logarithm in float32 is rounded to within one unit in the last place.
			if math.Abs(got[h*most+g]-want[g]) > 0x1p-23*math.Abs(want[g]) {
				t.Errorf("head %d, team %d scores %v, want %v", h, g, got[h*most+g], want[g])
			}
		}
	}
	chain.CheckFused(t)
}

func TestUnbiased(t *testing.T) {
	f := golden.Open(t, testdata+"unbiased.safetensors")
	l := attentiontest.Fill(t, modeltest.Host(t), [][]float64{f.Floats("q")}, [][][]float64{f.Rows("K")}, [][][]float64{f.Rows("V")}, 96, 0.25)
	_, b := build(t, l, santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: 24})
	mean, variance := attentiontest.NewChain(t, l, b).Sums(t)
	attentiontest.CheckMeans(t, mean, variance, slices.Concat(f.Floats("Z"), f.Floats("U")))
}
