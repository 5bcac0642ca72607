package bench

import (
	"fmt"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/kvcache"
)

// Shape is decode attention of one layer.
type Shape struct {
	Heads, KeyHeads  int // query heads and key heads
	KeyDim, ValueDim int
	Latent           bool // values are the first ValueDim numbers of keys
}

// Spec is the cache rows of the shape.
func (s Shape) Spec() kvcache.Spec {
	spec := kvcache.Spec{KVHeads: s.KeyHeads, KeyDim: s.KeyDim, ValueDim: s.ValueDim, ValueIsKeyPrefix: s.Latent}
	if s.Latent {
		spec.ClusterDim = s.ValueDim
	}
	return spec
}

// Source is what a trained model has after a prompt: its cache rows and the
// queries of the last token. Rows of other shapes are made of it by laying heads
// side by side.
type Source struct {
	dev    device.Device
	spec   kvcache.Spec
	rows   int
	layers []*kvcache.Layer
	last   *record.LastQueries
}

// Capture takes the prompt of a session whose model has so many query heads. The
// rows stay the session's, which must stay open and build nothing; Close frees
// the queries.
func Capture(dev device.Device, s *decode.Session, heads int) (*Source, error) {
	c := &Source{dev: dev}
	err := s.Probe(func(cache *kvcache.Cache) (attention.Backend, error) {
		c.spec, c.rows, c.layers = cache.Layers[0].Spec, cache.Frozen(), cache.Layers
		var err error
		c.last, err = record.NewLastQueries(dev, cache.Specs(), heads, dev.DType())
		return c.last, err
	})
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("taking the rows of a model: %w", err)
	}
	return c, nil
}

// Close frees the queries.
func (c *Source) Close() {
	if c.last != nil {
		c.last.Close()
	}
}

// piece is columns of a row and where they come from.
type piece struct {
	to, from, width int
	part            int // of the heads that are laid side by side
}

// Check refuses a shape whose rows cannot be made of a model's.
func Check(model kvcache.Spec, s Shape) error {
	_, _, err := (&Source{spec: model}).pieces(s)
	return err
}

// pieces lays the model's heads side by side to rows of a shape: a latent beside
// latents, its rotary part beside rotary parts.
func (c *Source) pieces(s Shape) (keys, values []piece, err error) {
	if s.Latent != c.spec.ValueIsKeyPrefix {
		return nil, nil, fmt.Errorf("the model's cache rows are of another kind: latent %v, wanted %v", c.spec.ValueIsKeyPrefix, s.Latent)
	}
	wide, narrow := []int{s.KeyDim}, []int{c.spec.KeyDim}
	if s.Latent {
		wide, narrow = []int{s.ValueDim, s.KeyDim - s.ValueDim}, []int{c.spec.ValueDim, c.spec.KeyDim - c.spec.ValueDim}
	}
	to, from := 0, 0
	for i, n := range narrow {
		if n < 1 || wide[i] < n || wide[i]%n != 0 {
			return nil, nil, fmt.Errorf("rows of %d/%d numbers cannot be made of the model's %d/%d side by side: want multiples", s.KeyDim, s.ValueDim, c.spec.KeyDim, c.spec.ValueDim)
		}
		for part := range wide[i] / n {
			keys = append(keys, piece{to + part*n, from, n, part})
		}
		to, from = to+wide[i], from+n
	}
	if s.Latent {
		return keys, nil, nil
	}
	if s.ValueDim != s.KeyDim || c.spec.ValueDim != c.spec.KeyDim {
		return nil, nil, fmt.Errorf("keys of %d and values of %d numbers: want the same width", s.KeyDim, s.ValueDim)
	}
	return keys, keys, nil
}

// parts is how many heads lie side by side in a row.
func parts(keys []piece) int {
	n := 0
	for _, p := range keys {
		n = max(n, p.part+1)
	}
	return n
}

// head is the layer and key head of the model that part of key head h is taken
// from, heads counted through all layers from layer first on.
func (c *Source) head(h, part, of, first int) (layer, head int) {
	n := first*c.spec.KVHeads + h*of + part
	return n / c.spec.KVHeads % len(c.layers), n % c.spec.KVHeads
}

// fill issues the copies that make cache rows of a shape, repeating the prompt
// as often as it takes.
func (c *Source) fill(ops *device.Ops, to *kvcache.Layer, keys, values []piece, first int) {
	capacity := to.K.Shape[1]
	for h := range to.KVHeads {
		for at := 0; at < capacity; at += c.rows {
			n := min(c.rows, capacity-at)
			place := func(dst *device.Tensor, source func(*kvcache.Layer) *device.Tensor, list []piece) {
				for _, p := range list {
					layer, head := c.head(h, p.part, parts(keys), first)
					rows := source(c.layers[layer]).Index(0, head).Slice(0, 0, n)
					ops.Copy(dst.Index(0, h).Slice(0, at, at+n).Slice(1, p.to, p.to+p.width), rows.Slice(1, p.from, p.from+p.width))
				}
			}
			place(to.K, func(l *kvcache.Layer) *device.Tensor { return l.K }, keys)
			place(to.V, func(l *kvcache.Layer) *device.Tensor { return l.V }, values)
		}
	}
}

// query issues the copies that make the queries of a shape, [1, heads, KeyDim].
// The query heads of a key head differ in the heads that they are made of.
func (c *Source) query(ops *device.Ops, to *device.Tensor, keyHeads int, keys []piece, first int) {
	group, choice := to.Shape[1]/keyHeads, c.last.Queries.Shape[1]/c.spec.KVHeads
	for h := range keyHeads {
		for j := range group {
			for _, p := range keys {
				layer, head := c.head(h, p.part, parts(keys), first)
				digit := j
				for range p.part {
					digit /= choice
				}
				q := c.last.Queries.Slice(0, layer, layer+1).Slice(1, head*choice+digit%choice, head*choice+digit%choice+1)
				ops.Copy(to.Slice(1, h*group+j, h*group+j+1).Slice(2, p.to, p.to+p.width), q.Slice(2, p.from, p.from+p.width))
			}
		}
	}
}
