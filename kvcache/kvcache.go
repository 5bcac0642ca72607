// Package kvcache keeps the rows that attention reads, one per token, layer
// and key head, in tensors of fixed capacity laid out [kv heads, capacity, d].
//
// After prefill the prompt's rows are frozen. A sampled method may then reorder
// them within a layer and key head, so that the rows of a team lie together;
// Slots keeps where each position went. Thaw puts everything back as prefill
// left it.
package kvcache

import (
	"fmt"

	"blitzen/device"
)

// Spec describes the rows of one layer.
type Spec struct {
	KVHeads  int
	KeyDim   int
	ValueDim int
	// ValueIsKeyPrefix: the value of a row is the first ValueDim numbers of its
	// key (the latent of multi-head latent attention), stored once.
	ValueIsKeyPrefix bool
	// ClusterDim is how many leading numbers of a key make its team; 0 for all.
	ClusterDim int
}

// RowWidth is the numbers that one token stores in this layer, keys and
// values, over all key heads.
func (s Spec) RowWidth() int {
	if s.ValueIsKeyPrefix {
		return s.KVHeads * s.KeyDim
	}
	return s.KVHeads * (s.KeyDim + s.ValueDim)
}

// RowWidth is the numbers that one token stores in all layers.
func RowWidth(specs []Spec) int {
	n := 0
	for _, s := range specs {
		n += s.RowWidth()
	}
	return n
}

// Layer holds the rows of one layer. The cache owns the tensors.
type Layer struct {
	Spec
	K     *device.Tensor // [kv heads, capacity, KeyDim]
	V     *device.Tensor // [kv heads, capacity, ValueDim]; a view of K if ValueIsKeyPrefix
	Slots *device.Tensor // I32 [kv heads, capacity]: row in which a position lies
	// Queries are those of the last prompt tokens read, [tokens, query heads,
	// KeyDim], for methods that describe keys by them; nil where none are kept.
	Queries *device.Tensor

	queries      *device.Tensor   // as many as there is room for
	lastK, lastV *device.Tensor   // [kv heads, 1, d]: the last prompt row as prefilled
	moved        []*device.Tensor // K and V, as far as their rows lie by Slots
	within       int              // blocks of so many rows that Move kept rows in; 0: none
	// places are Slots of the frozen rows while these may lie other than in token order,
	// else nil: a row that follows them needs no look. Steps that were recorded before
	// Move are not for after it.
	places *device.Tensor
}

// Append stores rows of new tokens at their positions. k, v [tokens, kv heads,
// d]; v is nil if ValueIsKeyPrefix; pos I32 [tokens].
func (l *Layer) Append(ops *device.Ops, k, v, pos *device.Tensor) {
	ops.Append(l.K, k, pos, l.places)
	if !l.ValueIsKeyPrefix {
		ops.Append(l.V, v, pos, l.places)
	}
}

// RotateAppend is device.Ops.RotateAppend to this layer; V is nil if
// ValueIsKeyPrefix.
func (l *Layer) RotateAppend(ops *device.Ops, a device.RotateAppendArgs) {
	a.Keys, a.Slots = l.K, l.places
	if !l.ValueIsKeyPrefix {
		a.Values = l.V
	}
	ops.RotateAppend(a)
}

// Cache is the layers of one sequence.
type Cache struct {
	Layers   []*Layer
	Capacity int // rows

	dev    device.Device
	frozen int // prompt rows since Freeze; 0 before
	owned  device.Owner
}

// New makes an empty cache for capacity tokens. Close frees it.
func New(dev device.Device, specs []Spec, capacity int) (*Cache, error) {
	c := &Cache{Capacity: capacity, dev: dev, owned: device.Owner{Dev: dev}}
	if err := c.open(specs); err != nil {
		c.Close()
		return nil, fmt.Errorf("cache of %d tokens: %w", capacity, err)
	}
	return c, nil
}

func (c *Cache) open(specs []Spec) error {
	for i, s := range specs {
		l, err := c.newLayer(i, s)
		if err != nil {
			return err
		}
		c.Layers = append(c.Layers, l)
	}
	return c.resetSlots(c.Layers)
}

func (c *Cache) newLayer(i int, s Spec) (*Layer, error) {
	l := &Layer{Spec: s}
	rows := func(name string, n, d int) *device.Tensor {
		return c.owned.New(fmt.Sprintf("cache.%d.%s", i, name), c.dev.DType(), s.KVHeads, n, d)
	}
	l.K, l.lastK = rows("k", c.Capacity, s.KeyDim), rows("last_k", 1, s.KeyDim)
	if !s.ValueIsKeyPrefix {
		l.V, l.lastV = rows("v", c.Capacity, s.ValueDim), rows("last_v", 1, s.ValueDim)
	}
	l.Slots = c.owned.New(fmt.Sprintf("cache.%d.slots", i), device.I32, s.KVHeads, c.Capacity)
	if err := c.owned.Err(); err != nil {
		return nil, err
	}
	if s.ValueIsKeyPrefix {
		l.V = l.K.Slice(2, 0, s.ValueDim)
	}
	return l, nil
}

// KeepQueries makes room for the queries of so many tokens and query heads.
func (c *Cache) KeepQueries(tokens, heads int) error {
	for i, l := range c.Layers {
		l.queries = c.owned.New(fmt.Sprintf("cache.%d.queries", i), c.dev.DType(), tokens, heads, l.KeyDim)
	}
	return c.owned.Err()
}

// HoldQueries makes Queries those of n tokens, at most as many as KeepQueries
// made room for.
func (c *Cache) HoldQueries(n int) {
	for _, l := range c.Layers {
		l.Queries = l.queries.Slice(0, 0, n)
	}
}

// Specs describes the rows of every layer, as New took them.
func (c *Cache) Specs() []Spec {
	specs := make([]Spec, len(c.Layers))
	for i, l := range c.Layers {
		specs[i] = l.Spec
	}
	return specs
}

// Frozen is the number of prompt rows, 0 before Freeze.
func (c *Cache) Frozen() int { return c.frozen }

// Freeze declares the first n rows the prompt's and keeps a copy of row n−1,
// which the first decode step writes anew.
func (c *Cache) Freeze(n int) error {
	if n < 1 || n > c.Capacity {
		return fmt.Errorf("cache: cannot freeze %d of %d rows", n, c.Capacity)
	}
	for i, l := range c.Layers {
		if len(l.moved) > 0 {
			return fmt.Errorf("cache: layer %d is permuted: thaw it before it is frozen again", i)
		}
	}
	err := c.dev.Run(func(ops *device.Ops) {
		for _, l := range c.Layers {
			ops.Copy(l.lastK, l.K.Slice(1, n-1, n))
			if l.lastV != nil {
				ops.Copy(l.lastV, l.V.Slice(1, n-1, n))
			}
		}
	})
	if err == nil {
		c.frozen = n
	}
	return err
}

// Permute moves the frozen rows of one layer so that slot i of key head h
// holds the row of position order[h][i]; each order[h] is a permutation of the
// frozen positions. A layer is permuted once between Freeze and Thaw. After an
// error Thaw still puts back what was moved.
func (c *Cache) Permute(layer int, order [][]int32) error {
	l := c.Layers[layer]
	if len(order) != l.KVHeads {
		return fmt.Errorf("cache: layer %d: orders for %d of %d heads", layer, len(order), l.KVHeads)
	}
	slots := make([]int32, l.KVHeads*c.frozen)
	for h, o := range order {
		if err := invert(slots[h*c.frozen:][:c.frozen], o); err != nil {
			return fmt.Errorf("cache: layer %d, key head %d: %w", layer, h, err)
		}
	}
	t, err := c.dev.New("cache.new_slots", device.I32, l.KVHeads, c.frozen)
	if err != nil {
		return err
	}
	defer c.dev.Free(t)
	if err := device.Write(c.dev, t, slots); err != nil {
		return err
	}
	return c.Move(layer, t, 0)
}

// Move is Permute by the slot of each position, I32 [kv heads, frozen], which a
// GPU does not check. Where within is not 0, rows stay in their blocks of so many.
func (c *Cache) Move(layer int, slots *device.Tensor, within int) error {
	l := c.Layers[layer]
	if len(l.moved) > 0 {
		return fmt.Errorf("cache: layer %d is already permuted", layer)
	}
	l.places, l.within = l.Slots.Slice(1, 0, c.frozen), within
	if err := c.dev.Run(func(ops *device.Ops) { ops.Copy(l.places, slots) }); err != nil {
		return fmt.Errorf("cache: layer %d: %w", layer, err)
	}
	for _, t := range l.rows() {
		if err := c.dev.Run(func(ops *device.Ops) { ops.PermuteRows(t, l.places, true, within) }); err != nil {
			return fmt.Errorf("cache: layer %d: %w", layer, err)
		}
		l.moved = append(l.moved, t)
	}
	return nil
}

// invert writes the slot of each position, given the position in each slot.
func invert(slots, order []int32) error {
	if len(order) != len(slots) {
		return fmt.Errorf("an order of %d rows for %d frozen rows", len(order), len(slots))
	}
	for i := range slots {
		slots[i] = -1
	}
	for slot, pos := range order {
		if pos < 0 || int(pos) >= len(slots) || slots[pos] >= 0 {
			return fmt.Errorf("the order is no permutation: position %d in slot %d", pos, slot)
		}
		slots[pos] = int32(slot)
	}
	return nil
}

// Thaw undoes Permute and Move and restores the last prompt row, so that a rebuild or
// another method starts from what prefill left. Rows beyond the prompt are
// forgotten.
func (c *Cache) Thaw() error {
	var mapped []*Layer
	for _, l := range c.Layers {
		for len(l.moved) > 0 {
			t := l.moved[len(l.moved)-1]
			if err := c.dev.Run(func(ops *device.Ops) { ops.PermuteRows(t, l.places, false, l.within) }); err != nil {
				return err
			}
			l.moved = l.moved[:len(l.moved)-1]
		}
		if l.places != nil {
			mapped = append(mapped, l)
		}
	}
	if err := c.resetSlots(mapped); err != nil {
		return err
	}
	n := c.frozen
	if n == 0 {
		return nil
	}
	return c.dev.Run(func(ops *device.Ops) {
		for _, l := range c.Layers {
			ops.Copy(l.K.Slice(1, n-1, n), l.lastK)
			if l.lastV != nil {
				ops.Copy(l.V.Slice(1, n-1, n), l.lastV)
			}
		}
	})
}

// rows are the tensors that hold rows of their own.
func (l *Layer) rows() []*device.Tensor {
	if l.ValueIsKeyPrefix {
		return []*device.Tensor{l.K}
	}
	return []*device.Tensor{l.K, l.V}
}

// Close frees the tensors.
func (c *Cache) Close() {
	c.owned.Free()
	c.Layers = nil
}

// resetSlots has layers' rows lie in token order.
func (c *Cache) resetSlots(layers []*Layer) error {
	if len(layers) == 0 {
		return nil
	}
	order := make([]int32, c.Capacity)
	for i := range order {
		order[i] = int32(i)
	}
	t, err := c.dev.New("cache.order", device.I32, c.Capacity)
	if err != nil {
		return err
	}
	defer c.dev.Free(t)
	if err := device.Write(c.dev, t, order); err != nil {
		return err
	}
	err = c.dev.Run(func(ops *device.Ops) {
		for _, l := range layers {
			ops.Copy(l.Slots, t.Repeat(0, l.KVHeads))
		}
	})
	if err != nil {
		return err
	}
	for _, l := range layers {
		l.places = nil
	}
	return nil
}
