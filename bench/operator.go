package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"blitzen/attention"
	"blitzen/attention/santapp"
	"blitzen/device"
	"blitzen/kvcache"
)

// OperatorConfig is the work of one decode step in one layer.
type OperatorConfig struct {
	Shape
	Rows   int // of the prompt, which are sampled
	Suffix int // rows after it, which are attended exactly
	First  int // layer of the model that the first key head is taken from
	Teams  santapp.Config
	DType  device.DType // of rows and queries; Invalid for the device's own
}

// Operator is decode attention over rows of its own, without a model around it.
type Operator struct {
	OperatorConfig
	Groups    int           // teams, over all key heads
	Fewest    int           // teams of the key head that has the fewest: all that every query head can draw
	BuildTime time.Duration // of the teams
	Beyond    int64         // bytes that sampling keeps beside the cache rows

	dev    device.Device
	sets   []device.TeamsArgs // layers with data of their own, alike
	counts *device.Tensor     // I64 [3]: routed, rows, suffix
	owned  device.Owner
}

// Operator makes cache rows and queries of the model's, teams, and copies of
// them all for so many layers.
func (c *Source) Operator(ctx context.Context, cfg OperatorConfig, layers int) (*Operator, error) {
	dev := c.dev
	if cfg.DType == device.Invalid {
		cfg.DType = dev.DType()
	}
	o := &Operator{OperatorConfig: cfg, dev: dev, owned: device.Owner{Dev: dev}}
	keys, values, err := c.pieces(cfg.Shape)
	if err != nil {
		return nil, err
	}
	cache, err := kvcache.New(dev, []kvcache.Spec{cfg.Spec()}, cfg.Rows+cfg.Suffix)
	if err != nil {
		return nil, err
	}
	defer cache.Close()
	q, pos := o.owned.New("bench.q", dev.DType(), 1, cfg.Heads, cfg.KeyDim), o.owned.New("bench.pos", device.I32, 1)
	o.counts = o.owned.New("bench.counts", device.I64, 3)
	if err = o.owned.Err(); err == nil {
		err = dev.Run(func(ops *device.Ops) {
			c.fill(ops, cache.Layers[0], keys, values, cfg.First)
			c.query(ops, q, cfg.KeyHeads, keys, cfg.First)
		})
	}
	if err == nil {
		err = o.build(ctx, cache, attention.Input{Q: q, Pos: pos, Scale: c.last.Scale / float32(math.Sqrt(float64(parts(keys))))}, layers)
	}
	if err != nil {
		o.Close()
		return nil, fmt.Errorf("an operator of %d rows: %w", cfg.Rows, err)
	}
	return o, nil
}

// build groups the rows of cache and copies them with their teams.
func (o *Operator) build(ctx context.Context, cache *kvcache.Cache, in attention.Input, layers int) error {
	if err := cache.Freeze(o.Rows); err != nil {
		return err
	}
	if err := device.Write(o.dev, in.Pos, []int32{int32(max(o.Rows+o.Suffix, 1) - 1)}); err != nil {
		return err
	}
	start := time.Now()
	cfg := o.Teams
	cfg.SampleAlways = true
	teams, err := santapp.Group(ctx, o.dev, cache, cfg, nil)
	if err != nil {
		return err
	}
	defer teams.Close()
	o.BuildTime = time.Since(start)
	before := o.dev.Memory().Used
	backend, err := santapp.New(o.dev, cache, teams, cfg)
	if err != nil {
		return err
	}
	defer backend.Close()
	l := cache.Layers[0]
	o.Beyond = o.dev.Memory().Used - before + int64(l.Slots.Bytes()+l.K.Bytes()/cache.Capacity+l.V.Bytes()/cache.Capacity)
	for _, n := range teams.Count {
		o.Groups += n
	}
	o.Fewest = slices.Min(teams.Count)
	in.K, in.V = l.K, l.V
	if reps := backend.Args(in).Reps; reps.DType == o.dev.DType() {
		o.Beyond += int64(reps.Len() * (o.DType.Size() - reps.DType.Size()))
	}
	in.Out = o.owned.New("bench.out", o.DType, 1, o.Heads, o.ValueDim)
	if o.DType != o.dev.DType() {
		q := in.Q
		in.Q = o.owned.New("bench.q", o.DType, q.Shape...)
		if err := o.dev.Run(func(ops *device.Ops) { ops.Copy(in.Q, q) }); err != nil {
			return err
		}
	}
	for i := range layers {
		if err := o.addSet(backend.Args(in), i); err != nil {
			return err
		}
	}
	return nil
}

// addSet copies all that a layer reads, rows and representatives as DType.
func (o *Operator) addSet(a device.TeamsArgs, layer int) error {
	clone := func(t *device.Tensor) *device.Tensor {
		as := t.DType
		if as == o.dev.DType() && (t == a.K || t == a.V || t == a.Reps) {
			as = o.DType
		}
		return o.owned.New(t.Name, as, t.Shape...)
	}
	from := []**device.Tensor{&a.K, &a.Reps, &a.Bias, &a.Offsets, &a.From, &a.Draw.Seed}
	if !o.Latent {
		from = append(from, &a.V)
	}
	var old, made []*device.Tensor
	for _, t := range from {
		old, made = append(old, *t), append(made, clone(*t))
		*t = made[len(made)-1]
	}
	if scale := old[1].Scale; scale != nil && o.owned.Err() == nil { // of representatives as F8
		old = append(old, scale.Index(1, 0))
		made = append(made, clone(old[len(old)-1]))
		a.Reps.Scale = made[len(made)-1].Repeat(1, a.Reps.Shape[1])
	}
	if err := o.owned.Err(); err != nil {
		return err
	}
	if o.Latent {
		a.V = a.K.Slice(2, 0, o.ValueDim)
	}
	a.Draw.Layer = layer
	a.Routed, a.Rows, a.Suffix = o.counts.Slice(0, 0, 1), o.counts.Slice(0, 1, 2), o.counts.Slice(0, 2, 3)
	a.Teams, a.LogC, a.Phi = nil, nil, nil
	o.sets = append(o.sets, a)
	return o.dev.Run(func(ops *device.Ops) {
		for i := range old {
			ops.Copy(made[i], old[i])
		}
	})
}

// Close frees everything.
func (o *Operator) Close() { o.owned.Free() }

// Layers is how many there are with data of their own.
func (o *Operator) Layers() int { return len(o.sets) }

// args are those of a layer with so many teams drawn.
func (o *Operator) args(layer, drawn int) device.TeamsArgs {
	a := o.sets[layer%len(o.sets)]
	a.Drawn = drawn
	return a
}

// Sampled issues a layer's SANTA++ attention with drawn teams a query head.
func (o *Operator) Sampled(ops *device.Ops, layer, drawn int) { ops.AttendTeams(o.args(layer, drawn)) }

// Dense issues a layer's exact attention over the same rows.
func (o *Operator) Dense(ops *device.Ops, layer int) {
	a := o.sets[layer%len(o.sets)]
	ops.Attend(device.AttendArgs{Out: device.Partial{Out: a.Out}, Q: a.Q, K: a.K, V: a.V, Pos: a.Draw.Pos, Scale: a.Scale})
}

// Reads is what the sampled attention of a layer reads, on average over all.
type Reads struct {
	Union        float64 // distinct rows of the prompt, of a key head
	Routed       float64 // representatives, of all key heads
	Bytes, Dense float64 // read; read by exact attention
}

// Reads counts one pass through all layers.
func (o *Operator) Reads(drawn int) (Reads, error) {
	if err := device.Write(o.dev, o.counts, make([]int64, 3)); err != nil {
		return Reads{}, err
	}
	err := o.dev.Run(func(ops *device.Ops) {
		for layer := range o.sets {
			o.Sampled(ops, layer, drawn)
		}
	})
	if err != nil {
		return Reads{}, err
	}
	n, err := device.Read[int64](o.dev, o.counts)
	if err != nil {
		return Reads{}, err
	}
	access := attention.NewAccess(o.Spec(), o.DType)
	access.RoutedBytes = int64(o.KeyDim * o.sets[0].Reps.DType.Size())
	layers := float64(len(o.sets))
	all := float64(o.KeyHeads) * float64(o.Rows+o.Suffix)
	access.Routed, access.Rows, access.Suffix = n[0], n[1], n[2]
	return Reads{
		Union: float64(n[1]) / layers / float64(o.KeyHeads), Routed: float64(n[0]) / layers,
		Bytes: float64(access.Bytes()) / layers, Dense: all * float64(access.RowBytes),
	}, nil
}

// LayersPast is how many layers read more than any cache holds together.
func LayersPast(bytes float64) int {
	const past, least, most = 256e6, 2, 64
	return int(min(max(math.Ceil(past/bytes), least), most))
}
