package sampled

import (
	"fmt"

	"blitzen/attention"
	"blitzen/device"
	"blitzen/kvcache"
)

// Observe implements attention.Selecting: it makes room for the draws and reads
// where the rows lie.
func (b *Backend) Observe(cache *kvcache.Cache, heads int) error {
	for i := range b.layers {
		if b.exact(i) {
			continue
		}
		l := &b.layers[i]
		l.drawn = b.owned.New(b.cfg.Name+".drawn", device.I32, 1, heads, b.drawn)
		l.logC = b.owned.New(b.cfg.Name+".log_c", device.F32, 1, heads, b.drawn)
		if err := b.owned.Err(); err != nil {
			return err
		}
		slots, err := device.Read[int32](b.dev, cache.Layers[i].Slots)
		if err != nil {
			return err
		}
		l.order = make([][]int32, b.spec.KVHeads)
		for h := range l.order {
			l.order[h] = make([]int32, b.prompt)
			for pos, slot := range slots[h*cache.Capacity:][:b.prompt] {
				l.order[h][slot] = int32(pos)
			}
		}
	}
	return nil
}

// RowsRead implements attention.Selecting. Exact attention reads all.
func (b *Backend) RowsRead(layer int) ([][]int32, error) {
	if b.exact(layer) {
		return attention.AllRows(b.spec.KVHeads, b.prompt), nil
	}
	l := b.layers[layer]
	if l.drawn == nil {
		return nil, fmt.Errorf("%s: what is drawn is not observed", b.cfg.Name)
	}
	drawn, err := device.Read[int32](b.dev, l.drawn)
	if err != nil {
		return nil, err
	}
	offsets, err := device.Read[int32](b.dev, l.offsets)
	if err != nil {
		return nil, err
	}
	rows := make([][]int32, b.spec.KVHeads)
	each, width := len(drawn)/b.spec.KVHeads, l.offsets.Shape[1]
	for h := range rows {
		rows[h] = union(drawn[h*each:][:each], offsets[h*width:][:width], l.order[h])
	}
	return rows, nil
}

// union is the positions of the rows of the drawn groups, each once; −1 stands
// for no group.
func union(drawn, offsets, order []int32) []int32 {
	var rows []int32
	seen := map[int32]bool{-1: true}
	for _, g := range drawn {
		if !seen[g] {
			seen[g] = true
			rows = append(rows, order[offsets[g]:offsets[g+1]]...)
		}
	}
	return rows
}
