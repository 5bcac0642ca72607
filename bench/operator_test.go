package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"blitzen/attention/santapp"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/internal/modeltest/checkpoint"
	"blitzen/kvcache"
	"blitzen/teams"
)

const models = "../testdata/models/"

// captured is a source over a tiny checkpoint: 3 layers, 14 query heads on 2 of
// width 8, or a latent of 32 + 16 for 4 heads.
func captured(t *testing.T, latent bool, rows int) (*Source, *decode.Session) {
	t.Helper()
	dev := modeltest.Host(t)
	dir := models + "qwen2_tied_gqa"
	if latent {
		dir = models + "dsv2_lite"
	}
	m := checkpoint.Open(t, dev, dir, 64)
	s := modeltest.Session(t, dev, m, rows+1)
	ids := make([]int32, rows)
	for i := range ids {
		ids[i] = int32(i * i % 300)
	}
	modeltest.Check(t, s.Prefill(t.Context(), ids, nil))
	c, err := Capture(dev, s, m.Config().Heads)
	modeltest.Check(t, err)
	t.Cleanup(c.Close)
	return c, s
}

func read(t *testing.T, dev device.Device, x *device.Tensor) []float32 {
	t.Helper()
	v, err := device.ReadFloats(dev, x)
	modeltest.Check(t, err)
	return v
}

// Rows of two heads side by side, repeated: every number where it belongs.
func TestFill(t *testing.T) {
	const n, rows = 20, 50
	c, _ := captured(t, false, n)
	dev, d := c.dev, c.spec.KeyDim
	keys, values, err := c.pieces(Shape{Heads: 21, KeyHeads: 3, KeyDim: 2 * d, ValueDim: 2 * d})
	modeltest.Check(t, err)
	cache, err := kvcache.New(dev, []kvcache.Spec{{KVHeads: 3, KeyDim: 2 * d, ValueDim: 2 * d}}, rows)
	modeltest.Check(t, err)
	defer cache.Close()
	q, err := dev.New("q", device.F32, 1, 21, 2*d)
	modeltest.Check(t, err)
	modeltest.Check(t, dev.Run(func(ops *device.Ops) {
		c.fill(ops, cache.Layers[0], keys, values, 1)
		c.query(ops, q, 3, keys, 1)
	}))
	k, v, queries := read(t, dev, cache.Layers[0].K), read(t, dev, cache.Layers[0].V), read(t, dev, q)
	for h := range 3 {
		for part := range 2 {
			from := 2 + 2*h + part // heads of all layers, from layer 1 on
			layer, head := from/2%3, from%2
			wantK, wantV := read(t, dev, c.layers[layer].K.Index(0, head)), read(t, dev, c.layers[layer].V.Index(0, head))
			for row := range rows {
				at, source := (h*rows+row)*2*d+part*d, row%n*d
				if !slices.Equal(k[at:at+d], wantK[source:source+d]) || !slices.Equal(v[at:at+d], wantV[source:source+d]) {
					t.Fatalf("head %d, part %d, row %d is not row %d of layer %d, head %d", h, part, row, row%n, layer, head)
				}
			}
			wantQ := read(t, dev, c.last.Queries.Index(0, layer))
			for j := range 7 {
				digit := []int{j % 7, j / 7}[part]
				at, source := (h*7+j)*2*d+part*d, (head*7+digit)*d
				if !slices.Equal(queries[at:at+d], wantQ[source:source+d]) {
					t.Errorf("query %d of head %d, part %d", j, h, part)
				}
			}
		}
	}
}

// Latents lie beside latents, rotary parts beside rotary parts.
func TestPieces(t *testing.T) {
	c := &Source{spec: kvcache.Spec{KVHeads: 1, KeyDim: 160, ValueDim: 128, ValueIsKeyPrefix: true}}
	keys, values, err := c.pieces(Shape{Heads: 16, KeyHeads: 1, KeyDim: 576, ValueDim: 512, Latent: true})
	const want = "[{0 0 128 0} {128 0 128 1} {256 0 128 2} {384 0 128 3} {512 128 32 0} {544 128 32 1}]"
	if got := fmt.Sprint(keys); got != want || values != nil || err != nil || parts(keys) != 4 {
		t.Errorf("pieces %s, %v, %v; want %s", got, values, err, want)
	}
	for _, s := range []Shape{
		{KeyDim: 576, ValueDim: 500, Latent: true}, {KeyDim: 520, ValueDim: 512, Latent: true}, {KeyDim: 64, ValueDim: 32, Latent: true}, {KeyDim: 128, ValueDim: 128},
	} {
		if _, _, err := c.pieces(s); err == nil {
			t.Errorf("accepted %+v", s)
		}
	}
	if _, _, err := (&Source{spec: kvcache.Spec{KeyDim: 64, ValueDim: 64}}).pieces(Shape{KeyDim: 96, ValueDim: 96}); err == nil {
		t.Error("accepted 96 of 64")
	}
}

// wider asks for an operator over 70 rows, twice as wide as those captured.
func wider(c *Source, latent bool) OperatorConfig {
	s := Shape{Heads: 4, KeyHeads: 2, KeyDim: 2 * c.spec.KeyDim, ValueDim: 2 * c.spec.ValueDim}
	if latent {
		s.Heads, s.KeyHeads, s.Latent = 6, 1, true
	}
	return OperatorConfig{
		Shape: s, Rows: 70, Suffix: 5,
		Teams: santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 4}, Budget: 8, Parents: teams.Contiguous},
	}
}

// The operator computes attention: with every team drawn the sampled one is the
// dense one, and it reads every row once.
func TestOperator(t *testing.T) {
	for _, latent := range []bool{false, true} {
		c, _ := captured(t, latent, 40)
		dev := c.dev
		cfg := wider(c, latent)
		o, err := c.Operator(context.Background(), cfg, 3)
		modeltest.Check(t, err)
		defer o.Close()
		if o.Layers() != 3 || o.Groups < 9*o.KeyHeads || o.Beyond <= 0 {
			t.Errorf("%d layers, %d teams, %d bytes", o.Layers(), o.Groups, o.Beyond)
		}
		var outs [2][]float32
		for i, issue := range []func(*device.Ops){func(ops *device.Ops) { o.Dense(ops, 1) }, func(ops *device.Ops) { o.Sampled(ops, 1, 70) }} {
			modeltest.Check(t, dev.Run(issue))
			outs[i] = read(t, dev, o.sets[1].Out)
		}
		// float32 sums of 75 terms in another order
		golden.Near(t, "output", golden.Float64s(outs[1]), golden.Float64s(outs[0]), 75*math.Exp2(-23)*modeltest.Largest(golden.Float64s(outs[0])))
		all, err := o.Reads(70)
		modeltest.Check(t, err)
		row := float64(o.Spec().RowWidth()) * 4 / float64(o.KeyHeads)
		if all.Union != 70 || all.Dense != 75*row*float64(o.KeyHeads) || all.Bytes != all.Dense+float64(o.Groups*o.KeyDim*4) {
			t.Errorf("latent %v: reads %+v with every team drawn", latent, all)
		}
		few, err := o.Reads(2)
		modeltest.Check(t, err)
		if few.Union >= 70 || few.Union < 2 || few.Bytes >= all.Bytes || few.Routed != all.Routed {
			t.Errorf("latent %v: reads %+v with two teams drawn, all %+v", latent, few, all)
		}
		if sets := o.sets; sets[0].K.Buffer == sets[1].K.Buffer || sets[0].Reps.Buffer == sets[2].Reps.Buffer || sets[0].Draw.Layer == sets[1].Draw.Layer {
			t.Error("layers share data")
		}
	}
}

// In F16 too the operator computes attention over the rows that it draws, within
// what the paper reports for its kernels, and reads half of float32's bytes.
func TestOperatorHalf(t *testing.T) {
	for _, latent := range []bool{false, true} {
		c, _ := captured(t, latent, 40)
		cfg := wider(c, latent)
		wide, err := c.Operator(t.Context(), cfg, 1)
		modeltest.Check(t, err)
		defer wide.Close()
		cfg.DType = device.F16
		half, err := c.Operator(t.Context(), cfg, 1)
		modeltest.Check(t, err)
		defer half.Close()
		worst, err := half.Check(3, 3)
		modeltest.Check(t, err)
		if !(worst <= 4.3e-6) {
			t.Errorf("latent %v: an output is off by %v", latent, worst)
		}
		reads, err := half.Reads(70)
		modeltest.Check(t, err)
		whole, err := wide.Reads(70)
		modeltest.Check(t, err)
		if 2*reads.Bytes != whole.Bytes || half.Beyond >= wide.Beyond {
			t.Errorf("latent %v: %v bytes read, %v kept in F16; in F32 %v, %v", latent, reads.Bytes, half.Beyond, whole.Bytes, wide.Beyond)
		}
	}
}

// Times on a CPU are the host's, and every part has one.
func TestLayersAndStages(t *testing.T) {
	c, _ := captured(t, false, 40)
	cfg := OperatorConfig{Shape: Shape{Heads: 4, KeyHeads: 2, KeyDim: c.spec.KeyDim, ValueDim: c.spec.ValueDim}, Rows: 40, Suffix: 3}
	cfg.Teams = santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 4}, Budget: 8, Parents: teams.Contiguous}
	o, err := c.Operator(context.Background(), cfg, 2)
	modeltest.Check(t, err)
	defer o.Close()
	watch, own, err := Watch(o.dev)
	modeltest.Check(t, err)
	defer watch.Close()
	row, err := o.TimeLayers(watch, 4, func(ops *device.Ops, layer int) { o.Sampled(ops, layer, 3) })
	if err != nil || row.Median <= 0 || row.Spread < 0 || own {
		t.Errorf("row %+v, own clock %v, %v", row, own, err)
	}
	evictions := 0
	stages, err := o.Stages(watch, StageConfig{Drawn: 3, Rounds: 2, Observations: 6, Evict: func() error { evictions++; return nil }})
	modeltest.Check(t, err)
	var names []string
	for _, s := range stages {
		names = append(names, s.Name)
		if s.Time() <= 0 || len(s.Rounds) != 2 || s.Bytes <= 0 {
			t.Errorf("stage %+v", s)
		}
	}
	if fmt.Sprint(names) != "[route draw read attend merge whole]" || evictions != 2*6*6 {
		t.Errorf("stages %v, %d evictions", names, evictions)
	}
}

func TestLayersPast(t *testing.T) {
	for bytes, want := range map[float64]int{1: 64, 8e6: 32, 100e6: 3, 1e9: 2} {
		if got := LayersPast(bytes); got != want {
			t.Errorf("%v bytes: %d layers, want %d", bytes, got, want)
		}
	}
}

// With clusters heads have teams in different numbers: Fewest is the least of those
// that the model's own heads have.
func TestOperatorFewest(t *testing.T) {
	c, s := captured(t, false, 64)
	cfg := OperatorConfig{Shape: Shape{Heads: 6, KeyHeads: 6, KeyDim: c.spec.KeyDim, ValueDim: c.spec.ValueDim}, Rows: 64}
	cfg.Teams = santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 4}, Budget: 8, Parents: teams.KMeans, SampleAlways: true}
	o, err := c.Operator(t.Context(), cfg, 1)
	modeltest.Check(t, err)
	defer o.Close()
	modeltest.Check(t, s.Cache().Freeze(64))
	heads, err := santapp.Group(t.Context(), c.dev, s.Cache(), cfg.Teams, nil)
	modeltest.Check(t, err)
	defer heads.Close()
	least, most := slices.Min(heads.Count), slices.Max(heads.Count)
	if o.Fewest != least || least == most {
		t.Errorf("%d teams at least, of heads with %v", o.Fewest, heads.Count)
	}
}
