package sampled

import (
	"fmt"
	"math"
	"slices"

	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/teams"
)

// Config says what a method makes of its groups.
type Config struct {
	Name  string // of the method
	Drawn int    // K: groups drawn by a query head
	Score Score
	// Keys, with ByKey, writes the keys that score the groups of a key head into
	// dst [groups, dk], while the cache is in token order.
	Keys  func(dst *device.Tensor, layer, head int) error
	Heads int // query heads, with ByMass
	Seed  uint64
	// SampleAlways samples even where the budget covers every group, where exact
	// attention would do: for tests of the sampled path.
	SampleAlways bool
}

// Score is how a query scores a group of n rows.
type Score uint8

const (
	ByKey  Score = iota // φ = ln n + a·q·ℓ, ℓ a key made for the group: one key read
	BySize              // φ = ln n: no read
	ByMass              // φ = ln Σ exp(a·q·k) over the group: all keys are read, N' a step
)

// Groups are the groups of a frozen prompt: for every layer and key head, the
// rows of each.
type Groups [][]teams.Layout

// most is the largest number of groups that a key head of any layer has.
func (g Groups) most() int {
	n := 0
	for _, heads := range g {
		for _, l := range heads {
			n = max(n, len(l.LogN))
		}
	}
	return n
}

// New moves the rows of a group together and returns the backend that samples
// the groups. After an error Thaw restores the cache.
func New(dev device.Device, cache *kvcache.Cache, groups Groups, cfg Config) (*Backend, error) {
	b := &Backend{dev: dev, cfg: cfg, prompt: cache.Frozen(), owned: device.Owner{Dev: dev}}
	if err := b.open(cache, groups); err != nil {
		b.Close()
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	return b, nil
}

func (b *Backend) open(cache *kvcache.Cache, groups Groups) error {
	switch {
	case b.prompt == 0:
		return fmt.Errorf("the cache has no frozen prompt to sample")
	case len(groups) != len(cache.Layers):
		return fmt.Errorf("groups of %d layers, the cache has %d", len(groups), len(cache.Layers))
	case b.cfg.Drawn < 1:
		return fmt.Errorf("%d groups are to be drawn: want at least 1", b.cfg.Drawn)
	}
	b.spec = cache.Layers[0].Spec
	most := groups.most()
	b.drawn = min(b.cfg.Drawn, most)
	b.covered = !b.cfg.SampleAlways && most <= b.drawn
	if !b.covered {
		for i := range cache.Layers {
			l, err := b.addLayer(cache, i, groups[i])
			if err != nil {
				return fmt.Errorf("layer %d: %w", i, err)
			}
			b.layers = append(b.layers, l)
		}
	}
	if b.cfg.Score == ByMass && !b.covered {
		if err := b.newMassSteps(); err != nil {
			return err
		}
	}
	return b.newState(len(cache.Layers))
}

// addLayer uploads the groups, makes their keys and moves the rows.
func (b *Backend) addLayer(cache *kvcache.Cache, i int, heads []teams.Layout) (layer, error) {
	kv := cache.Layers[i]
	most, total := 0, 0
	for _, l := range heads {
		if len(l.Order) != b.prompt {
			return layer{}, fmt.Errorf("groups of %d rows, the prompt has %d", len(l.Order), b.prompt)
		}
		most = max(most, len(l.LogN))
		total += len(l.LogN)
	}
	var offsets []int32
	var logN []float32
	order := make([][]int32, len(heads))
	for h, l := range heads {
		order[h] = l.Order
		logN = append(logN, padded(l.LogN, most, float32(math.Inf(-1)))...)
		offsets = append(offsets, padded(l.Offsets, most+1, int32(b.prompt))...)
	}
	l := layer{
		logN:    b.owned.New(b.cfg.Name+".log_n", device.F32, kv.KVHeads, most),
		offsets: b.owned.New(b.cfg.Name+".offsets", device.I32, kv.KVHeads, most+1),
		scored:  int64(total),
	}
	if b.cfg.Score == ByMass {
		l.scored = int64(kv.KVHeads * b.prompt)
	}
	if err := b.owned.Err(); err != nil {
		return l, err
	}
	if err := device.Write(b.dev, l.logN, logN); err != nil {
		return l, err
	}
	if err := device.Write(b.dev, l.offsets, offsets); err != nil {
		return l, err
	}
	var err error
	if l.keys, err = b.keys(kv, i, heads, most); err != nil {
		return l, err
	}
	return l, cache.Permute(i, order)
}

// keys makes the keys that groups are scored by, [kv heads, most, dk]: with
// BySize zeros that share one row.
func (b *Backend) keys(kv *kvcache.Layer, layer int, heads []teams.Layout, most int) (*device.Tensor, error) {
	switch b.cfg.Score {
	case ByMass:
		return nil, nil
	case BySize:
		zero := b.owned.New(b.cfg.Name+".keys", b.dev.DType(), kv.KeyDim)
		if err := b.owned.Err(); err != nil {
			return nil, err
		}
		return zero.Repeat(0, most).Repeat(0, kv.KVHeads), nil
	}
	keys := b.owned.New(b.cfg.Name+".keys", b.dev.DType(), kv.KVHeads, most, kv.KeyDim)
	if err := b.owned.Err(); err != nil {
		return nil, err
	}
	for h, l := range heads {
		if err := b.cfg.Keys(keys.Index(0, h).Slice(0, 0, len(l.LogN)), layer, h); err != nil {
			return nil, fmt.Errorf("key head %d: %w", h, err)
		}
	}
	return keys, nil
}

// newState makes what all layers share.
func (b *Backend) newState(layers int) error {
	b.seed = b.owned.New(b.cfg.Name+".seed", device.U32, 2)
	b.from = b.owned.New(b.cfg.Name+".from", device.I32, 1)
	b.counts = b.owned.New(b.cfg.Name+".counts", device.I64, layers, numCounts)
	if err := b.owned.Err(); err != nil {
		return err
	}
	if err := b.Reseed(b.cfg.Seed); err != nil {
		return err
	}
	return device.Write(b.dev, b.from, []int32{int32(b.prompt)})
}

// padded is s extended to n entries with fill.
func padded[T any](s []T, n int, fill T) []T {
	return append(slices.Clip(s), slices.Repeat([]T{fill}, n-len(s))...)
}
