package santapp

import (
	"context"
	"fmt"

	"blitzen/attention/sampled"
	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/teams"
)

// Teams are the teams of every layer and key head of a frozen prompt. They
// depend on keys, parents, P and R alone: several backends, with other budgets
// or seeds, can be made from the same.
type Teams struct {
	rows  int
	parts [][]teams.Partition // [layers][kv heads]
}

// Partition is how the rows of one layer and key head are divided.
func (t Teams) Partition(layer, head int) teams.Partition { return t.parts[layer][head] }

// Groups are the rows of each team.
func (t Teams) Groups() sampled.Groups {
	g := make(sampled.Groups, len(t.parts))
	for i, parts := range t.parts {
		for _, p := range parts {
			g[i] = append(g[i], p.Layout())
		}
	}
	return g
}

// Group makes the teams that parents, P and R of cfg ask for. The cache stays
// as it is.
func Group(ctx context.Context, dev device.Device, cache *kvcache.Cache, cfg Config, progress func(layer, of int)) (Teams, error) {
	t := Teams{rows: cache.Frozen(), parts: make([][]teams.Partition, len(cache.Layers))}
	if err := cfg.Validate(); err != nil {
		return t, err
	}
	err := sampled.EachHead(ctx, dev, cache, cfg.WholeRow, progress, func(layer, head int, x *device.Tensor) error {
		described := x
		if cfg.Parents == teams.Probe {
			var err error
			if described, err = fingerprints(dev, cache.Layers[layer], head, t.rows); err != nil {
				return err
			}
			defer dev.Free(described)
		}
		p, err := divide(ctx, dev, described, x, cfg)
		t.parts[layer] = append(t.parts[layer], p)
		return err
	})
	if err != nil {
		return t, fmt.Errorf("santapp: %w", err)
	}
	return t, nil
}

// divide makes parents of what describes the rows, and teams of the keys x, F32
// [rows, width].
func divide(ctx context.Context, dev device.Device, described, x *device.Tensor, cfg Config) (teams.Partition, error) {
	parent, err := cfg.Parents.Of(ctx, dev, described, cfg.ParentSize)
	if err != nil {
		return teams.Partition{}, err
	}
	keys, err := device.Read[float32](dev, x)
	if err != nil {
		return teams.Partition{}, err
	}
	return teams.Divide(keys, x.Shape[1], parent, cfg.Representatives)
}
