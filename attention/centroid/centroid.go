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
	return nil
}

// Clusters are the clusters of every layer and key head of a frozen prompt.
// They depend on keys and B alone.
type Clusters struct {
	groups sampled.Groups
	means  [][][]float32 // [layers][kv heads][clusters · dk]
}

// Groups are the rows of each cluster.
func (c Clusters) Groups() sampled.Groups { return c.groups }

// Means are the mean keys of one layer and key head, [clusters, dk].
func (c Clusters) Means(layer, head int) []float32 { return c.means[layer][head] }

// Build clusters the frozen rows of cache and returns the backend that samples
// them. progress, if not nil, is called after each layer.
func Build(ctx context.Context, dev device.Device, cache *kvcache.Cache, cfg Config, progress func(layer, of int)) (*sampled.Backend, error) {
	c, err := Group(ctx, dev, cache, cfg, progress)
	if err != nil {
		return nil, err
	}
	return New(dev, cache, c, cfg)
}

// Group clusters the frozen rows. The cache stays as it is.
func Group(ctx context.Context, dev device.Device, cache *kvcache.Cache, cfg Config, progress func(layer, of int)) (Clusters, error) {
	c := Clusters{groups: make(sampled.Groups, len(cache.Layers)), means: make([][][]float32, len(cache.Layers))}
	if err := cfg.Validate(); err != nil {
		return c, err
	}
	err := sampled.EachHead(ctx, dev, cache, cfg.WholeRow, progress, func(layer, head int, x *device.Tensor) error {
		label, err := teams.KMeans.Of(ctx, dev, x, cfg.Block)
		if err != nil {
			return err
		}
		l := teams.LayoutOf(label)
		m, err := means(dev, cache.Layers[layer].K.Index(0, head), l)
		c.groups[layer] = append(c.groups[layer], l)
		c.means[layer] = append(c.means[layer], m)
		return err
	})
	if err != nil {
		return c, fmt.Errorf("centroid: %w", err)
	}
	return c, nil
}

// means averages the keys [capacity, dk] of each group, in float64.
func means(dev device.Device, keys *device.Tensor, l teams.Layout) ([]float32, error) {
	n, d := len(l.Order), keys.Shape[1]
	rows, err := wide(dev, keys.Slice(0, 0, n))
	if err != nil {
		return nil, err
	}
	var out []float32
	sum := make([]float64, d)
	for g := range l.LogN {
		clear(sum)
		members := l.Order[l.Offsets[g]:l.Offsets[g+1]]
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

// wide reads a tensor as float32.
func wide(dev device.Device, t *device.Tensor) ([]float32, error) {
	copied, err := dev.New("wide", device.F32, t.Shape...)
	if err != nil {
		return nil, err
	}
	defer dev.Free(copied)
	if err := dev.Run(func(ops *device.Ops) { ops.Copy(copied, t) }); err != nil {
		return nil, err
	}
	return device.Read[float32](dev, copied)
}

// New moves the rows of a cluster together and returns the backend that samples
// the clusters. After an error Thaw restores the cache.
func New(dev device.Device, cache *kvcache.Cache, c Clusters, cfg Config) (*sampled.Backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return sampled.New(dev, cache, c.groups, sampled.Config{
		Name: "centroid", Drawn: cfg.Budget / cfg.Block, Seed: cfg.Seed, SampleAlways: cfg.SampleAlways,
		Keys: func(dst *device.Tensor, layer, head int) error { return upload(dev, dst, c.means[layer][head]) },
	})
}

// upload writes values to dst in the type of dst.
func upload(dev device.Device, dst *device.Tensor, values []float32) error {
	t, err := dev.New("means", device.F32, dst.Shape...)
	if err != nil {
		return err
	}
	defer dev.Free(t)
	if err := device.Write(dev, t, values); err != nil {
		return err
	}
	return dev.Run(func(ops *device.Ops) { ops.Copy(dst, t) })
}
