package santapp

import (
	"context"
	"fmt"
	"math"

	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/teams"
)

// Config are the method's settings.
type Config struct {
	teams.Config               // parent size P and representatives R
	Budget       int           // S: K = S/(P/R) teams are drawn a query head
	Parents      teams.Parents // how keys are first grouped
	WholeRow     bool          // latent cache: group by latent and rotary part, not by the latent alone
	Seed         uint64
	// SampleAlways samples even where the budget covers every team, where exact
	// attention would do: for tests of the sampled path.
	SampleAlways bool
}

// Validate refuses settings that do not fit together, naming the flags.
func (c Config) Validate() error { return c.Config.Validate(c.Budget) }

// Build groups the frozen rows of cache into teams and returns the backend that
// samples them. progress, if not nil, is called after each layer.
func Build(ctx context.Context, dev device.Device, cache *kvcache.Cache, cfg Config, progress func(layer, of int)) (*Backend, error) {
	t, err := Group(ctx, dev, cache, cfg, progress)
	if err != nil {
		return nil, err
	}
	return New(dev, cache, t, cfg)
}

// New moves the rows of a team together and returns the backend that samples
// the teams. After an error Thaw restores the cache.
func New(dev device.Device, cache *kvcache.Cache, t Teams, cfg Config) (*Backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(t.parts) != len(cache.Layers) || t.rows != cache.Frozen() {
		return nil, fmt.Errorf("santapp: teams of %d rows in %d layers, the prompt has %d in %d", t.rows, len(t.parts), cache.Frozen(), len(cache.Layers))
	}
	b := &Backend{dev: dev, cfg: cfg, spec: cache.Layers[0].Spec, prompt: t.rows}
	if err := b.open(cache, t); err != nil {
		b.Close()
		return nil, fmt.Errorf("santapp: %w", err)
	}
	return b, nil
}

func (b *Backend) open(cache *kvcache.Cache, t Teams) error {
	most := t.largest()
	b.drawn = min(b.cfg.Selected(b.cfg.Budget, b.prompt), most)
	b.covered = !b.cfg.SampleAlways && most <= b.drawn
	if !b.covered {
		for i := range cache.Layers {
			l, err := b.addLayer(cache, i, t.parts[i])
			if err != nil {
				return fmt.Errorf("layer %d: %w", i, err)
			}
			b.layers = append(b.layers, l)
		}
	}
	return b.newState(len(cache.Layers))
}

// addLayer copies the representatives, uploads the teams and moves the rows.
func (b *Backend) addLayer(cache *kvcache.Cache, i int, parts []teams.Partition) (layer, error) {
	kv := cache.Layers[i]
	most, total := 0, 0
	for _, p := range parts {
		most = max(most, len(p.Reps))
		total += len(p.Reps)
	}
	var reps, offsets []int32
	var logN []float32
	order := make([][]int32, len(parts))
	for h, p := range parts {
		layout := p.Layout()
		order[h] = layout.Order
		reps = append(reps, padded(p.Reps, most, 0)...)
		logN = append(logN, padded(layout.LogN, most, float32(math.Inf(-1)))...)
		offsets = append(offsets, padded(layout.Offsets, most+1, int32(b.prompt))...)
	}
	l := layer{teams: int64(total)}
	var rows *device.Tensor
	err := b.alloc([]allocation{
		{&l.reps, "santapp.representatives", b.dev.DType(), []int{kv.KVHeads, most, kv.KeyDim}},
		{&l.logN, "santapp.log_n", device.F32, []int{kv.KVHeads, most}},
		{&l.offsets, "santapp.offsets", device.I32, []int{kv.KVHeads, most + 1}},
	})
	if err != nil {
		return l, err
	}
	if rows, err = b.dev.New("santapp.rows", device.I32, kv.KVHeads, most); err != nil {
		return l, err
	}
	defer b.dev.Free(rows)
	for _, err := range []error{
		device.Write(b.dev, rows, reps),
		device.Write(b.dev, l.logN, logN),
		device.Write(b.dev, l.offsets, offsets),
		b.dev.Run(func(ops *device.Ops) {
			for h := range parts {
				ops.GatherRows(l.reps.Index(0, h), kv.K.Index(0, h), rows.Index(0, h))
			}
		}),
	} {
		if err != nil {
			return l, err
		}
	}
	return l, cache.Permute(i, order)
}

// newState makes what all layers share.
func (b *Backend) newState(layers int) error {
	err := b.alloc([]allocation{
		{&b.seed, "santapp.seed", device.U32, []int{2}},
		{&b.from, "santapp.from", device.I32, []int{1}},
		{&b.counts, "santapp.counts", device.I64, []int{layers, numCounts}},
	})
	if err != nil {
		return err
	}
	if err := b.Reseed(b.cfg.Seed); err != nil {
		return err
	}
	return device.Write(b.dev, b.from, []int32{int32(b.prompt)})
}

type allocation struct {
	dst   **device.Tensor
	name  string
	dtype device.DType
	shape []int
}

func (b *Backend) alloc(list []allocation) error {
	for _, a := range list {
		t, err := b.dev.New(a.name, a.dtype, a.shape...)
		if err != nil {
			return err
		}
		*a.dst = t
		b.owned = append(b.owned, t)
	}
	return nil
}

// padded is s extended to n entries with fill.
func padded[T any](s []T, n int, fill T) []T {
	out := make([]T, n)
	copy(out, s)
	for i := len(s); i < n; i++ {
		out[i] = fill
	}
	return out
}
