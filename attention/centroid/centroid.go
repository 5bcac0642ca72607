// Package centroid is centroid-guided sampling, which SANTA++ is compared with:
// k-means clusters of about B keys, scored by the arithmetic mean of their keys,
//
//	φ_g = ln n_g + a·q·k̄_g,   k̄_g = Σ_{i in g} k_i / n_g,
//
// and drawn, read and corrected as package sampled does. By Jensen's inequality
// n·exp(a·q·k̄) is at most the mass of the cluster: a single key that matters is
// averaged away. estimator.go holds φ in float64 for the tests.
//
// Source: SANTA++, Appendix B.2.
package centroid

import (
	"context"
	"fmt"

	"blitzen/attention/sampled"
	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/teams"
)

// Config are the method's settings.
type Config struct {
	Block    int  // B: keys on average in a cluster
	Budget   int  // S: K = S/B clusters are drawn a query head
	WholeRow bool // latent cache: cluster by latent and rotary part, not by the latent alone
	Seed     uint64
	sampled.BeyondPaper
	// SampleAlways samples even where the budget covers every cluster: for tests.
	SampleAlways bool
}

// Validate refuses settings that do not fit together, naming the flags.
func (c Config) Validate() error {
	switch {
	case c.Block < 1:
		return fmt.Errorf("--block %d: must be at least 1", c.Block)
	case c.Budget < c.Block:
		return fmt.Errorf("--budget %d must be at least --block %d, the keys of one cluster", c.Budget, c.Block)
	}
	return c.BeyondPaper.Validate()
}

// Covers reports whether a prompt of n rows is attended exactly whatever its
// clusters will be.
func (c Config) Covers(n int) bool {
	return !c.SampleAlways && (n < c.MinContext || teams.KMeans.Most(n, c.Block) <= c.Budget/c.Block)
}

// Clusters are the clusters of every key head of the sampled layers of a frozen
// prompt; nil where exact attention needs none. They depend on keys and B alone.
// Close frees them.
type Clusters struct {
	*teams.Teams             // a team a cluster; its representative is not used
	means        [][]float32 // [heads][clusters · dk]
	rows         int
}

// Means are the mean keys of one head, [clusters, dk].
func (c Clusters) Means(head int) []float32 { return c.means[head] }

// Build clusters the frozen rows of cache, where clusters are needed, and returns
// the backend that samples them. progress, if not nil, is told how much is done.
func Build(ctx context.Context, dev device.Device, cache *kvcache.Cache, cfg Config, progress func(done, of int)) (*sampled.Backend, error) {
	c, err := Group(ctx, dev, cache, cfg, progress)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return New(dev, cache, c, cfg)
}

// Group clusters the frozen rows, unless cfg.Covers the prompt. The cache stays
// as it is.
func Group(ctx context.Context, dev device.Device, cache *kvcache.Cache, cfg Config, progress func(done, of int)) (Clusters, error) {
	c := Clusters{rows: cache.Frozen()}
	if err := cfg.Validate(); err != nil {
		return c, err
	}
	keys, err := sampled.Keys(cache, cfg.WholeRow, cfg.DenseLayers)
	if err == nil && !cfg.Covers(c.rows) {
		if c.Teams, err = teams.Group(ctx, dev, keys, nil, teams.KMeans, teams.Config{ParentSize: cfg.Block, Representatives: 1}, progress); err == nil {
			err = c.average(dev, cache, cfg.DenseLayers)
		}
	}
	if err != nil {
		c.Close()
		return Clusters{}, fmt.Errorf("centroid: %w", err)
	}
	return c, nil
}

// average makes the means, of whole keys.
func (c *Clusters) average(dev device.Device, cache *kvcache.Cache, dense sampled.LayerSet) error {
	for i, l := range cache.Layers {
		for h := range l.KVHeads {
			if dense.Has(i) {
				continue
			}
			p, err := c.Partition(len(c.means))
			if err != nil {
				return err
			}
			m, err := means(dev, l.K.Index(0, h), p)
			if err != nil {
				return fmt.Errorf("layer %d, key head %d: %w", i, h, err)
			}
			c.means = append(c.means, m)
		}
	}
	return nil
}

// means averages the keys [capacity, dk] of each group, in float64.
func means(dev device.Device, keys *device.Tensor, p teams.Partition) ([]float32, error) {
	n, d := len(p.Order), keys.Shape[1]
	rows, err := device.ReadFloats(dev, keys.Slice(0, 0, n))
	if err != nil {
		return nil, err
	}
	var out []float32
	sum := make([]float64, d)
	for g := range p.N {
		clear(sum)
		members := p.Order[p.Offsets[g]:p.Offsets[g+1]]
		for _, row := range members {
			for j, x := range rows[int(row)*d : (int(row)+1)*d] {
				sum[j] += float64(x)
			}
		}
		for _, s := range sum {
			out = append(out, float32(s/float64(len(members))))
		}
	}
	return out, nil
}

// New moves the rows of a cluster together and returns the backend that samples
// the clusters. After an error Thaw restores the cache.
func New(dev device.Device, cache *kvcache.Cache, c Clusters, cfg Config) (*sampled.Backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return sampled.New(dev, cache, c.Teams, sampled.Config{
		Name: "centroid", Drawn: cfg.Budget / cfg.Block, Seed: cfg.Seed, BeyondPaper: cfg.BeyondPaper, Exact: cfg.Covers(c.rows), SampleAlways: cfg.SampleAlways,
		Keys: func(dst, _ *device.Tensor, first int) error {
			for h := range dst.Shape[0] {
				if err := device.WriteFloats(dev, dst.Index(0, h).Slice(0, 0, c.Count[first+h]), c.means[first+h]); err != nil {
					return err
				}
			}
			return nil
		},
	})
}
