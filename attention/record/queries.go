package record

import (
	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/device"
	"blitzen/kvcache"
)

// Queries is exact attention that keeps the queries of its last tokens in
// Layer.Queries of the cache.
type Queries struct {
	*dense.Backend
	cache *kvcache.Cache
	from  int // of this chunk's queries, the first one to keep
	at    int // its place among those kept
}

// NewQueries keeps the queries of a chunk from its row from on; they become the
// kept ones from at on. inner stays the caller's.
func NewQueries(inner *dense.Backend, cache *kvcache.Cache, from, at int) *Queries {
	return &Queries{inner, cache, from, at}
}

// Exact is false: queries of the model's own cache rows are wanted.
func (q *Queries) Exact() bool { return false }

// Attend copies queries, then attends.
func (q *Queries) Attend(ops *device.Ops, in attention.Input) {
	n := in.Q.Shape[0]
	ops.Copy(q.cache.Layers[in.Layer].Queries.Slice(0, q.at, q.at+n-q.from), in.Q.Slice(0, q.from, n))
	q.Backend.Attend(ops, in)
}
