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
	"blitzen/internal/golden"
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
		want := Scores(q[h], keys[h/(heads/kvHeads)][:n], p.Team, len(p.N), scale)
		reach := 0.0 // the largest scale·Σ|q·k| of a row
		for _, k := range keys[h/(heads/kvHeads)][:n] {
			sum := 0.0
			for i := range k {
				sum += scale * math.Abs(q[h][i]*k[i])
			}
			reach = max(reach, sum)
		}
		for g := range want {
			// A score in float32 is off by less than (d+2)·2⁻²⁴·reach, ln Σ exp by no
			// more than a score is; it sums up to n terms, each with the rounding of
			// an exp, and the result is rounded: of 2⁻²⁴ a piece.
			off := 0x1p-24 * (float64(len(q[h])+2)*reach + n + 2 + math.Abs(want[g]))
			if math.Abs(got[h*most+g]-want[g]) > off {
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

// Knowing the masses must make every sum less uncertain than going by sizes
// does.
func TestLessVariance(t *testing.T) {
	f := golden.Open(t, testdata+"unbiased.safetensors")
	l := attentiontest.Fill(t, modeltest.Host(t), [][]float64{f.Floats("q")}, [][][]float64{f.Rows("K")}, [][][]float64{f.Rows("V")}, 96, 0.25)
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
