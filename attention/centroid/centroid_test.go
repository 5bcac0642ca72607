package centroid

import (
	"context"
	"fmt"
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
	const heads, kvHeads, n, block = 14, 2, 57, 4
	f := golden.Open(t, testdata+"gqa7.safetensors")
	q, scale := f.Rows("Q"), 1/math.Sqrt(float64(len(f.Rows("Q")[0])))
	keys := [][][]float64{f.Rows("K", 0), f.Rows("K", 1)}
	dev := modeltest.Host(t)
	l := attentiontest.Fill(t, dev, q, keys, [][][]float64{f.Rows("V", 0), f.Rows("V", 1)}, n, scale)
	cfg := Config{Block: block, Budget: 5 * block}
	c, err := Group(context.Background(), dev, l.Cache, cfg, nil)
	attentiontest.Check(t, err)
	b, err := New(dev, l.Cache, c, cfg)
	attentiontest.Check(t, err)
	defer b.Close()
	chain := attentiontest.NewChain(t, l, b)
	attentiontest.Check(t, dev.Run(chain.Route))
	got, most := attentiontest.Floats(t, dev, chain.Phi), chain.Phi.Shape[2]
	for h := range heads {
		kv := h / (heads / kvHeads)
		p, err := c.Partition(kv)
		attentiontest.Check(t, err)
		want := Scores(q[h], keys[kv][:n], p.Team, len(p.N), scale)
		// A mean of float32 keys is rounded once: 2⁻²⁴ of its size, d terms.
		golden.Near(t, fmt.Sprintf("phi of head %d", h), got[h*most:h*most+len(want)], want, 2e-5*(1+maxAbs(want)))
	}
	chain.CheckFused(t)
}

func maxAbs(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

func TestUnbiased(t *testing.T) {
	f := golden.Open(t, testdata+"unbiased.safetensors")
	dev := modeltest.Host(t)
	l := attentiontest.Fill(t, dev, [][]float64{f.Floats("q")}, [][][]float64{f.Rows("K")}, [][][]float64{f.Rows("V")}, 96, 0.25)
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
