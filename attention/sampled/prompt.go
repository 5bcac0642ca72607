package sampled

import (
	"errors"

	"blitzen/device"
	"blitzen/kvcache"
)

// Keys are what the frozen rows of every key head are grouped by, but for layers
// that are attended exactly: the whole keys, or of a latent cache the latent
// alone unless wholeRow. The cache must be in token order.
func Keys(cache *kvcache.Cache, wholeRow bool, dense LayerSet) (device.RowSets, error) {
	if cache.Frozen() == 0 {
		return nil, errors.New("the cache has no frozen prompt to sample")
	}
	var keys device.RowSets
	for i, l := range cache.Layers {
		if dense.Has(i) {
			continue
		}
		width := l.ClusterDim
		if width == 0 || wholeRow {
			width = l.KeyDim
		}
		keys = append(keys, l.K.Slice(1, 0, cache.Frozen()).Slice(2, 0, width))
	}
	if keys == nil {
		return nil, errors.New("--dense-layers leaves no layer to sample: use --attention dense")
	}
	return keys, nil
}
