package record_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/attention/record"
	"blitzen/attention/santapp"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/internal/modeltest/checkpoint"
	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/teams"
)

const (
	models = "../../testdata/models/"
	length = 60 // of the prompt
	steps  = 8
)

type build = func(*kvcache.Cache) (attention.Backend, error)

// prompted is a tiny model of either kind, with a prompt read.
func prompted(t *testing.T, dev device.Device, name string) (model.Model, record.Shape, *decode.Session) {
	t.Helper()
	dir := models + name
	m := checkpoint.Open(t, dev, dir, 64)
	s := modeltest.Session(t, dev, m, length+steps)
	ids := golden.Open(t, dir+"/golden.safetensors").Int32s("p2.input_ids")
	modeltest.Check(t, s.Prefill(context.Background(), ids[:length], nil))
	return m, record.Shape{Layers: m.Config().Layers, Heads: m.Config().Heads, Dim: m.CacheSpec()[0].ValueDim}, s
}

func sampled(dev device.Device) build { return budget(dev, 8, 0) }

// budget samples about so many rows, observed where heads are given.
func budget(dev device.Device, rows, heads int) build {
	return func(c *kvcache.Cache) (attention.Backend, error) {
		b, err := santapp.Build(context.Background(), dev, c, santapp.Config{
			Config: teams.Config{ParentSize: 8, Representatives: 4}, Budget: rows, Seed: 7,
		}, nil)
		if err == nil && heads > 0 {
			err = b.Observe(c, heads)
		}
		return b, err
	}
}

// trajectory is logits and attention outputs of some steps.
type trajectory struct{ logits, outputs [][]float32 }

func (c *trajectory) add(t *testing.T, logits []float32, last func() ([]float32, error)) {
	out, err := last()
	modeltest.Check(t, err)
	c.logits, c.outputs = append(c.logits, slices.Clone(logits)), append(c.outputs, out)
}

func same(a, b [][]float32) bool {
	return slices.EqualFunc(a, b, func(x, y []float32) bool {
		return slices.EqualFunc(x, y, func(u, v float32) bool { return math.Float32bits(u) == math.Float32bits(v) })
	})
}

// tokens decodes greedily and gives the logits too.
func tokens(t *testing.T, s *decode.Session, b build) (ids []int32, logits [][]float32) {
	t.Helper()
	modeltest.Check(t, s.Build(b))
	for range steps {
		token, err := s.Next(context.Background())
		modeltest.Check(t, err)
		l, err := s.Logits()
		modeltest.Check(t, err)
		ids, logits = append(ids, token.ID), append(logits, l)
	}
	return ids, logits
}

// outputs follows ids with a recorder around b.
func outputs(t *testing.T, s *decode.Session, dev device.Device, shape record.Shape, b build, ids []int32) (c trajectory) {
	t.Helper()
	var r *record.Outputs
	modeltest.Check(t, s.Build(func(k *kvcache.Cache) (attention.Backend, error) {
		inner, err := b(k)
		modeltest.Check(t, err)
		r, err = record.NewOutputs(dev, inner, shape)
		return r, err
	}))
	modeltest.Check(t, s.Follow(context.Background(), ids, func(_ int, l []float32) error {
		c.add(t, l, r.Last)
		return nil
	}))
	return c
}

// A recorder changes nothing. On another's trajectory a backend sees what the other
// saw: the logits are the other's bit for bit, whatever the backend computes,
// and exact attention's own outputs are those it was given.
func TestReplay(t *testing.T) {
	for _, name := range []string{"qwen2_tied_gqa", "dsv2_lite"} {
		dev := modeltest.Host(t)
		m, shape, s := prompted(t, dev, name)
		ids, logits := tokens(t, s, modeltest.Dense(dev, m))
		exact := outputs(t, s, dev, shape, modeltest.Dense(dev, m), ids)
		if !same(exact.logits, logits) {
			t.Errorf("%s: the recorder changes the logits", name)
		}
		for _, c := range []struct {
			name  string
			build build
			equal bool
		}{{"dense", modeltest.Dense(dev, m), true}, {"sampled", sampled(dev), false}} {
			got := replay(t, s, dev, shape, c.build, ids, exact.outputs)
			if !same(got.logits, logits) {
				t.Errorf("%s, %s: the trajectory is not the one given", name, c.name)
			}
			if same(got.outputs, exact.outputs) != c.equal {
				t.Errorf("%s, %s: outputs are those of exact attention: %v", name, c.name, !c.equal)
			}
		}
	}
}

func replay(t *testing.T, s *decode.Session, dev device.Device, shape record.Shape, b build, ids []int32, given [][]float32) (c trajectory) {
	t.Helper()
	var r *record.Replay
	modeltest.Check(t, s.Build(func(k *kvcache.Cache) (attention.Backend, error) {
		inner, err := b(k)
		modeltest.Check(t, err)
		r, err = record.NewReplay(dev, inner, shape)
		return r, err
	}))
	modeltest.Check(t, r.Give(given[0]))
	modeltest.Check(t, s.Follow(context.Background(), ids, func(i int, l []float32) error {
		c.add(t, l, r.Last)
		return r.Give(given[min(i+1, len(given)-1)])
	}))
	return c
}

// selecting gives a session the backend that b makes.
func selecting(t *testing.T, s *decode.Session, b build) (made attention.Selecting) {
	t.Helper()
	modeltest.Check(t, s.Build(func(c *kvcache.Cache) (attention.Backend, error) {
		inner, err := b(c)
		modeltest.Check(t, err)
		made = inner.(attention.Selecting)
		return made, nil
	}))
	return made
}

// Rows read are distinct, of the prompt, and as many as are counted.
func TestRowsRead(t *testing.T) {
	for _, name := range []string{"qwen2_tied_gqa", "dsv2_lite"} {
		dev := modeltest.Host(t)
		m, shape, s := prompted(t, dev, name)
		ids, logits := tokens(t, s, sampled(dev))
		b := selecting(t, s, budget(dev, 8, shape.Heads))
		var got [][]float32
		counted := int64(0)
		modeltest.Check(t, s.Follow(context.Background(), ids, func(_ int, l []float32) error {
			got = append(got, slices.Clone(l))
			for layer := range shape.Layers {
				heads, err := b.RowsRead(layer)
				modeltest.Check(t, err)
				if len(heads) != m.CacheSpec()[0].KVHeads {
					t.Fatalf("%d key heads", len(heads))
				}
				for _, rows := range heads {
					counted += int64(len(rows))
					slices.Sort(rows)
					if len(slices.Compact(rows)) != len(rows) || rows[0] < 0 || rows[len(rows)-1] >= length {
						t.Errorf("%s: rows %v", name, rows)
					}
				}
			}
			return nil
		}))
		if a := s.Access(); a.Rows != counted || counted == 0 {
			t.Errorf("%s: %d rows, counted %+v", name, counted, a)
		}
		if !same(got, logits) {
			t.Errorf("%s: observing changes the logits", name)
		}
	}
}

// Where teams are not to be observed, and where they need not be.
func TestRowsReadOrNot(t *testing.T) {
	dev := modeltest.Host(t)
	_, shape, s := prompted(t, dev, "qwen2_tied_gqa")
	if _, err := selecting(t, s, sampled(dev)).RowsRead(0); err == nil {
		t.Error("no error without Observe")
	}
	rows, err := selecting(t, s, budget(dev, 400, shape.Heads)).RowsRead(1)
	if err != nil || len(rows[0]) != length || rows[1][length-1] != length-1 {
		t.Errorf("%v: %v", err, rows)
	}
}

// Devices have their memory back.
func TestClose(t *testing.T) {
	dev := modeltest.Host(t)
	m, shape, s := prompted(t, dev, "qwen2_tied_gqa")
	before := dev.Memory().Used
	for _, wrap := range []func() (attention.Backend, error){
		func() (attention.Backend, error) {
			d, err := dense.New(dev, m.CacheSpec())
			modeltest.Check(t, err)
			return record.NewOutputs(dev, d, shape)
		},
		func() (attention.Backend, error) {
			d, err := dense.New(dev, m.CacheSpec())
			modeltest.Check(t, err)
			return record.NewReplay(dev, d, shape)
		},
		func() (attention.Backend, error) { return record.NewMass(dev, s.Cache(), shape.Heads) },
		func() (attention.Backend, error) {
			return record.NewLastQueries(dev, m.CacheSpec(), shape.Heads, device.F32)
		},
	} {
		b, err := wrap()
		modeltest.Check(t, err)
		if b.Exact() {
			t.Error("a recorder would be handed expanded keys")
		}
		b.Close()
		if used := dev.Memory().Used; used != before {
			t.Errorf("%s: %d bytes are left", b.Name(), used-before)
		}
	}
}
