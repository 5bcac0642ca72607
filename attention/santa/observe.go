package santa

import (
	"slices"

	"blitzen/attention"
	"blitzen/device"
	"blitzen/kvcache"
)

// Observe implements attention.Selecting: each layer keeps its own draws.
func (b *Backend) Observe(cache *kvcache.Cache, heads int) error {
	for len(b.rows) < len(cache.Layers) {
		b.rows = append(b.rows, b.owned.New("santa.rows", device.I32, 1, heads, b.cfg.Budget))
	}
	return b.owned.Err()
}

// RowsRead implements attention.Selecting. Where rows are drawn, their values are
// meant; every key is read. Rows after the prompt are left out.
func (b *Backend) RowsRead(layer int) ([][]int32, error) {
	if b.exact || b.cfg.DenseLayers.Has(layer) {
		return attention.AllRows(b.spec.KVHeads, b.prompt), nil
	}
	drawn, err := device.Read[int32](b.dev, b.rows[min(layer, len(b.rows)-1)])
	if err != nil {
		return nil, err
	}
	rows := make([][]int32, b.spec.KVHeads)
	for h, each := 0, len(drawn)/b.spec.KVHeads; h < len(rows); h++ {
		own := slices.Sorted(slices.Values(drawn[h*each : (h+1)*each]))
		rows[h] = slices.DeleteFunc(slices.Compact(own), func(row int32) bool { return row < 0 || int(row) >= b.prompt })
	}
	return rows, nil
}
