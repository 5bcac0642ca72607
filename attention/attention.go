// Package attention is the interface between a model's forward pass and the
// way its cache is read. Prefill passes the exact backend to Forward, decode
// passes another; nothing is switched inside a model.
package attention

import (
	"blitzen/device"
	"blitzen/kvcache"
)

// Input is one layer's attention call. The rows of the new tokens are already
// in K and V.
type Input struct {
	Layer int
	Q     *device.Tensor // [tokens, heads, dk]
	K     *device.Tensor // [kv heads, capacity, dk]
	V     *device.Tensor // [kv heads, capacity, dv]
	Pos   *device.Tensor // I32 [tokens]
	Out   *device.Tensor // [tokens, heads, dv]
	Scale float32        // softmax scale of the checkpoint
	Most  int            // every Pos is below it, see device.AttendArgs; 0 for no promise
	// Then is a product of Out, nil for none, that Attend does as well.
	Then *device.HeadProduct
}

// Exactly is what device.Ops.Attend does for the layer: all rows up to each query's own
// are attended, and counted in read.
func (in Input) Exactly(read *device.Tensor) device.AttendArgs {
	return device.AttendArgs{
		Out: device.Partial{Out: in.Out}, Q: in.Q, K: in.K, V: in.V, Pos: in.Pos, Scale: in.Scale,
		Read: read, Then: in.Then, Most: in.Most,
	}
}

// Multiply does the product after attention, for a backend whose operations do not.
func (in Input) Multiply(ops *device.Ops) {
	if p := in.Then; p != nil {
		ops.HeadLinear(p.Dst, p.X, p.W, p.Transpose)
	}
}

// Backend computes attention for every layer of a model. It owns the tensors
// it made until Close.
type Backend interface {
	// Name is printed with every result.
	Name() string
	// Exact reports whether every row up to the query is attended: a model may
	// then hand over expanded keys and values instead of its cache.
	Exact() bool
	// Attend issues the operations of one call: a layer's, or some of its query
	// heads where a model expands keys and values for an exact backend. An
	// observer that must see the cache rows says Exact() == false.
	Attend(ops *device.Ops, in Input)
	// Counters is what Attend counts on the device, I64, added to with every
	// step. Access explains a copy of it.
	Counters() *device.Tensor
	Access(counters []int64) Access
	Close()
}

// Selecting is a backend that reads some of the prompt's rows and can say which.
// It keeps what its steps draw only once it is told to, since that takes memory.
type Selecting interface {
	Backend
	// Observe has the steps recorded from now on keep what so many query heads
	// draw. The cache is the one that the backend was made for.
	Observe(cache *kvcache.Cache, heads int) error
	// RowsRead are the positions of the distinct prompt rows that the last step
	// read in a layer, a list for each key head, in any order.
	RowsRead(layer int) ([][]int32, error)
}

// AllRows are the positions 0 to rows-1 for each of kvHeads key heads: what
// Selecting.RowsRead answers where a layer is attended exactly.
func AllRows(kvHeads, rows int) [][]int32 {
	all := make([][]int32, kvHeads)
	for h := range all {
		all[h] = make([]int32, rows)
		for row := range all[h] {
			all[h][row] = int32(row)
		}
	}
	return all
}

// Access counts what decode steps read, in rows summed over layers and key
// heads, beside what dense attention would have read on the same trajectory.
// Prefill and the building of teams are not counted.
type Access struct {
	Routed int64 `json:"routed"` // representatives scored
	Rows   int64 `json:"rows"`   // distinct prompt rows read by the union of the query heads
	Suffix int64 `json:"suffix"` // rows of generated tokens
	Values int64 `json:"values"` // distinct values read without their keys, which count as routed
	Dense  int64 `json:"dense"`  // rows that exact attention would read

	RoutedBytes int64 `json:"routed_bytes"` // of one routed row, as stored
	RowBytes    int64 `json:"row_bytes"`    // of one row, key and value, as stored
	ValueBytes  int64 `json:"value_bytes"`  // of one value, as stored
	// Vectors is how many vectors a row counts for: 2, a key and a value
	// (Eq. 13), or 1 where a latent is both (Eq. 14). A routed row counts 1.
	Vectors int64 `json:"vectors"`
}

// Percent is KV access in the paper's units: Eq. 13, 100·(m + 2(u + e)) / 2N',
// or Eq. 14, 100·(r + |I|) / d, of counts summed over steps, layers and heads. A
// value by itself is one vector. 0 before the first step.
func (a Access) Percent() float64 {
	return percent(a.Routed+a.Vectors*(a.Rows+a.Suffix)+a.Values, a.Vectors*a.Dense)
}

// SelectedPercent leaves the routed representatives out.
func (a Access) SelectedPercent() float64 {
	return percent(a.Vectors*(a.Rows+a.Suffix)+a.Values, a.Vectors*a.Dense)
}

// BytesPercent weighs every row with its stored width.
func (a Access) BytesPercent() float64 { return percent(a.Bytes(), a.RowBytes*a.Dense) }

// Bytes is everything read.
func (a Access) Bytes() int64 {
	return a.Routed*a.RoutedBytes + (a.Rows+a.Suffix)*a.RowBytes + a.Values*a.ValueBytes
}

// Add sums counts of runs of the same model and method, so that ratios are of
// summed counts.
func (a Access) Add(b Access) Access {
	if a.Vectors == 0 {
		return b
	}
	a.Routed += b.Routed
	a.Rows += b.Rows
	a.Suffix += b.Suffix
	a.Values += b.Values
	a.Dense += b.Dense
	return a
}

// Sub is what was counted after b, an earlier count of the same backend.
func (a Access) Sub(b Access) Access {
	a.Routed -= b.Routed
	a.Rows -= b.Rows
	a.Suffix -= b.Suffix
	a.Values -= b.Values
	a.Dense -= b.Dense
	return a
}

func percent(n, d int64) float64 {
	if d == 0 {
		return 0
	}
	return 100 * float64(n) / float64(d)
}

// NewAccess is an empty count for rows of this kind stored as t.
func NewAccess(s kvcache.Spec, t device.DType) Access {
	a := Access{
		RoutedBytes: int64(s.KeyDim * t.Size()), RowBytes: int64((s.KeyDim + s.ValueDim) * t.Size()),
		ValueBytes: int64(s.ValueDim * t.Size()), Vectors: 2,
	}
	if s.ValueIsKeyPrefix {
		a.RowBytes, a.Vectors = a.RoutedBytes, 1
	}
	return a
}
