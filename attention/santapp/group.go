package santapp

import (
	"context"
	"fmt"

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

// largest is the most teams that a key head of any layer has.
func (t Teams) largest() int {
	most := 0
	for _, parts := range t.parts {
		for _, p := range parts {
			most = max(most, len(p.Reps))
		}
	}
	return most
}

// Group makes the teams that parents, P and R of cfg ask for. The cache stays
// as it is.
func Group(ctx context.Context, dev device.Device, cache *kvcache.Cache, cfg Config, progress func(layer, of int)) (Teams, error) {
	t := Teams{rows: cache.Frozen()}
	if err := cfg.Validate(); err != nil {
		return t, err
	}
	if t.rows == 0 {
		return t, fmt.Errorf("santapp: the cache has no frozen prompt to sample")
	}
	for i, l := range cache.Layers {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		parts, err := partition(ctx, dev, l, t.rows, cfg)
		if err != nil {
			return t, fmt.Errorf("santapp: layer %d: %w", i, err)
		}
		t.parts = append(t.parts, parts)
		if progress != nil {
			progress(i+1, len(cache.Layers))
		}
	}
	return t, nil
}

// partition groups the rows of each key head of one layer.
func partition(ctx context.Context, dev device.Device, l *kvcache.Layer, rows int, cfg Config) ([]teams.Partition, error) {
	width := l.ClusterDim
	if width == 0 || cfg.WholeRow {
		width = l.KeyDim
	}
	x, err := dev.New("cluster", device.F32, rows, width)
	if err != nil {
		return nil, err
	}
	defer dev.Free(x)
	var parts []teams.Partition
	for h := range l.KVHeads {
		err := dev.Run(func(ops *device.Ops) {
			ops.Copy(x, l.K.Index(0, h).Slice(0, 0, rows).Slice(1, 0, width))
		})
		if err != nil {
			return nil, err
		}
		p, err := divide(ctx, dev, x, cfg)
		if err != nil {
			return nil, fmt.Errorf("key head %d: %w", h, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// divide makes parents and teams of the keys x, F32 [rows, width].
func divide(ctx context.Context, dev device.Device, x *device.Tensor, cfg Config) (teams.Partition, error) {
	parent, err := cfg.Parents.Of(ctx, dev, x, cfg.ParentSize)
	if err != nil {
		return teams.Partition{}, err
	}
	keys, err := device.Read[float32](dev, x)
	if err != nil {
		return teams.Partition{}, err
	}
	return teams.Divide(keys, x.Shape[1], parent, cfg.Representatives)
}
