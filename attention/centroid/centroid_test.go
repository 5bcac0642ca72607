package centroid

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/internal/attentiontest"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
)

const testdata = "../../testdata/santa/"

// Clusters scored on the device must be those of the estimator: exp(φ) of all
// is what float32 keeps of Σ n·exp(a·q·k̄), with the mean of each cluster's keys.
func TestScores(t *testing.T) {
	const block = 4
	dev := modeltest.Host(t)
	l := attentiontest.Grouped(t, dev, testdata)
	cfg := Config{Block: block, Budget: 5 * block}
	c, err := Group(context.Background(), dev, l.Cache, cfg, nil)
	attentiontest.Check(t, err)
	b, err := New(dev, l.Cache, c, cfg)
	attentiontest.Check(t, err)
	defer b.Close()
	chain := attentiontest.NewChain(t, l.Layer, b)
	chain.CheckScores(t, func(h int) []float64 {
		p, err := c.Partition(l.KeyHead(h))
		attentiontest.Check(t, err)
		return Scores(l.Queries[h], l.Prompt(h), p.Team, len(p.N), l.Softmax)
	}, func(h int, score float64) float64 {
		// A score as any other, of a mean whose numbers were rounded once; then ln n,
		// rounded, and their sum. |ln n| is at most that of all rows.
		q := l.Queries[h]
		reach := attentiontest.Reach(q, l.Prompt(h), l.Softmax)
		return 0x1p-24 * (float64(len(q)+3)*reach + math.Log(float64(l.Rows)) + math.Abs(score))
	})
	chain.CheckFused(t)
}

func TestUnbiased(t *testing.T) {
	dev := modeltest.Host(t)
	l, f := attentiontest.Single(t, dev, testdata)
	for _, block := range []int{4, 16} {
		b, err := Build(context.Background(), dev, l.Cache, Config{Block: block, Budget: 4 * block, SampleAlways: true}, nil)
		attentiontest.Check(t, err)
		mean, variance := attentiontest.NewChain(t, l, b).Sums(t)
		attentiontest.CheckMeans(t, mean, variance, slices.Concat(f.Floats("Z"), f.Floats("U")))
		b.Close()
		attentiontest.Check(t, l.Cache.Thaw())
	}
}

// A cluster of one key is scored by that key: then the chance of a first draw is
// the attention weight.
func TestSingleKeys(t *testing.T) {
	f := golden.Open(t, testdata+"unbiased.safetensors")
	q, keys := f.Floats("q"), f.Rows("K")
	own := make([]int32, len(keys))
	for i := range own {
		own[i] = int32(i)
	}
	phi := Scores(q, keys, own, len(keys), 0.25)
	for i, k := range keys {
		if want := 0.25 * sampled.Dot(q, k); math.Abs(phi[i]-want) > 1e-12 {
			t.Errorf("key %d scores %v, want %v", i, phi[i], want)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		Config
		want string
	}{
		{Config{Block: 0, Budget: 4}, "--block 0: must be at least 1"},
		{Config{Block: 16, Budget: 15}, "--budget 15 must be at least --block 16"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.Config, err, c.want)
		}
	}
}
