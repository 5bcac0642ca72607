package sampled

import (
	"fmt"
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
	// Keys, with ByKey, writes the keys that score the groups of a layer's heads into
	// dst [heads, groups, dk], while their rows [heads, …, dk] are in token order. The
	// first head is counted over the layers that are sampled; what a head has beyond
	// its last group is any number.
	Keys   func(dst, rows *device.Tensor, first int) error
	KeysF8 bool // keep the keys that score the groups as F8 with a factor a head
	Heads  int  // query heads, with ByMass
	Seed   uint64
	BeyondPaper
	Exact bool // attend exactly in every layer: no groups are needed
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

// BeyondPaper are settings that the paper does not have, off by default.
type BeyondPaper struct {
	MinContext  int      // a prompt of fewer tokens is attended exactly
	DenseLayers LayerSet // these layers are attended exactly
}

// Validate refuses settings that cannot be, naming the flags.
func (b BeyondPaper) Validate() error {
	if b.MinContext < 0 {
		return fmt.Errorf("--min-context %d: must not be negative", b.MinContext)
	}
	return nil
}

// New moves the rows of a group together and returns the backend that samples
// the groups t of every head of every layer that is not dense; t may be nil where
// cfg.Exact is set. After an error Thaw restores the cache.
func New(dev device.Device, cache *kvcache.Cache, t *teams.Teams, cfg Config) (*Backend, error) {
	b := &Backend{dev: dev, cfg: cfg, prompt: cache.Frozen(), owned: device.Owner{Dev: dev}}
	if err := b.open(cache, t); err != nil {
		b.Close()
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	return b, nil
}

func (b *Backend) open(cache *kvcache.Cache, t *teams.Teams) error {
	switch {
	case b.prompt == 0:
		return fmt.Errorf("the cache has no frozen prompt to sample")
	case !b.cfg.DenseLayers.Within(len(cache.Layers)):
		return fmt.Errorf("--dense-layers %v: the model has layers 0 to %d", b.cfg.DenseLayers, len(cache.Layers)-1)
	case b.cfg.Drawn < 1:
		return fmt.Errorf("%d groups are to be drawn: want at least 1", b.cfg.Drawn)
	}
	b.spec, b.layers = cache.Layers[0].Spec, make([]layer, len(cache.Layers))
	b.covered = b.cfg.Exact
	if !b.covered {
		if err := b.checkGroups(cache, t); err != nil {
			return err
		}
		most := slices.Max(t.Count)
		b.drawn = min(b.cfg.Drawn, most)
		if b.covered = !b.cfg.SampleAlways && most <= b.drawn; !b.covered {
			if err := b.addGroups(cache, t, most); err != nil {
				return err
			}
		}
	}
	if b.cfg.Score == ByMass && !b.covered {
		if err := b.newMassSteps(); err != nil {
			return err
		}
	}
	return b.newState(len(cache.Layers))
}

// checkGroups asks for groups of all heads that are sampled.
func (b *Backend) checkGroups(cache *kvcache.Cache, t *teams.Teams) error {
	heads := 0
	for i, l := range cache.Layers {
		if !b.cfg.DenseLayers.Has(i) {
			heads += l.KVHeads
		}
	}
	switch {
	case t == nil:
		return fmt.Errorf("there are no groups")
	case len(t.Count) != heads:
		return fmt.Errorf("groups of %d key heads, the cache has %d to sample", len(t.Count), heads)
	case t.Slots.Shape[1] != b.prompt:
		return fmt.Errorf("groups of %d rows, the prompt has %d", t.Slots.Shape[1], b.prompt)
	}
	return nil
}

// addGroups keeps sizes and places of the groups, makes their keys and moves the
// rows.
func (b *Backend) addGroups(cache *kvcache.Cache, t *teams.Teams, most int) error {
	logN := b.owned.New(b.cfg.Name+".log_n", device.F32, len(t.Count), most)
	offsets := b.owned.New(b.cfg.Name+".offsets", device.I32, len(t.Count), most+1)
	keys, err := b.newKeys(len(t.Count), most)
	if err != nil {
		return err
	}
	var wide device.Owner // of a layer's keys before they become F8
	wide.Dev = b.dev
	defer wide.Free()
	var whole *device.Tensor
	if b.cfg.KeysF8 {
		if whole = wide.New(b.cfg.Name+".wide_keys", b.dev.DType(), b.spec.KVHeads, most, b.spec.KeyDim); wide.Err() != nil {
			return wide.Err()
		}
	}
	err = b.dev.Run(func(ops *device.Ops) {
		ops.Copy(logN, t.LogN.Slice(1, 0, most))
		ops.Copy(offsets, t.Offsets.Slice(1, 0, most+1))
	})
	if err != nil {
		return err
	}
	from := 0
	for i, kv := range cache.Layers {
		if b.cfg.DenseLayers.Has(i) {
			continue
		}
		to := from + kv.KVHeads
		l := layer{logN: logN.Slice(0, from, to), offsets: offsets.Slice(0, from, to)}
		if keys != nil {
			l.keys = keys.Slice(0, from, to)
		}
		for _, n := range t.Count[from:to] {
			l.scored += int64(n)
		}
		if b.cfg.Score == ByMass {
			l.scored = int64(kv.KVHeads * b.prompt)
		}
		b.layers[i] = l
		if b.cfg.Score == ByKey {
			if err := b.keep(l.keys, whole, kv.K, t.Count[from:to], from); err != nil {
				return fmt.Errorf("layer %d: %w", i, err)
			}
		}
		if err := cache.Move(i, t.Slots.Slice(0, from, to), t.Within); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// keep writes the keys of a layer's heads, which have so many groups each, into dst
// [heads, groups, dk], by way of whole where dst is F8.
func (b *Backend) keep(dst, whole, rows *device.Tensor, groups []int, first int) error {
	if whole == nil {
		return b.cfg.Keys(dst, rows, first)
	}
	if err := b.cfg.Keys(whole, rows, first); err != nil {
		return err
	}
	return b.dev.Run(func(ops *device.Ops) {
		for h, n := range groups {
			own := func(t *device.Tensor) *device.Tensor { return t.Slice(0, h, h+1).Slice(1, 0, n) }
			ops.Quantize(own(dst), own(whole))
		}
	})
}

// newKeys makes room for the keys that groups are scored by, [heads, most, dk]:
// with BySize zeros that share one row.
func (b *Backend) newKeys(heads, most int) (keys *device.Tensor, err error) {
	switch {
	case b.cfg.Score == ByKey && b.cfg.KeysF8:
		keys = b.owned.New(b.cfg.Name+".keys", device.F8, heads, most, b.spec.KeyDim)
		factors := b.owned.New(b.cfg.Name+".factors", device.F32, heads)
		if b.owned.Err() == nil {
			keys.Scale = factors.Repeat(1, most)
		}
	case b.cfg.Score == ByKey:
		keys = b.owned.New(b.cfg.Name+".keys", b.dev.DType(), heads, most, b.spec.KeyDim)
	case b.cfg.Score == BySize:
		keys = b.owned.New(b.cfg.Name+".keys", b.dev.DType(), b.spec.KeyDim)
	}
	if err := b.owned.Err(); err != nil {
		return nil, err
	}
	if b.cfg.Score == BySize {
		keys = keys.Repeat(0, most).Repeat(0, heads)
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
