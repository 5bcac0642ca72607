package santapp

import (
	"context"
	"fmt"

	"blitzen/attention/sampled"
	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/teams"
)

// Teams are the teams of every key head of the sampled layers of a frozen
// prompt; nil where exact attention needs none. They depend on keys, parents, P
// and R alone: several backends, with other budgets or seeds, can be made from
// the same, as long as some Config does not cover the prompt. Close frees them;
// backends made from them do not need them any more.
type Teams struct {
	*teams.Teams
	rows int
}

// Group makes the teams that parents, P and R of cfg ask for, none where
// cfg.Covers the prompt. The cache stays as it is. progress, if not nil, is told
// how much is done.
func Group(ctx context.Context, dev device.Device, cache *kvcache.Cache, cfg Config, progress func(done, of int)) (Teams, error) {
	t := Teams{rows: cache.Frozen()}
	if err := cfg.Validate(); err != nil {
		return t, err
	}
	keys, err := sampled.Keys(cache, cfg.WholeRow, cfg.DenseLayers)
	if err == nil && !cfg.Covers(t.rows) {
		var describe teams.Describe
		if cfg.Parents == teams.Probe {
			describe = describeByProbes(dev, cache, cfg.DenseLayers, mostFingerprints)
		}
		t.Teams, err = teams.Group(ctx, dev, keys, describe, cfg.Parents, cfg.Config, progress)
	}
	if err != nil {
		return t, fmt.Errorf("santapp: %w", err)
	}
	return t, nil
}
