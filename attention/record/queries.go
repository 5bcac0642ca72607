package record

import (
	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/device"
	"blitzen/kvcache"
)

// Queries is exact attention that keeps the queries of its tokens in
// Layer.Queries of the cache.
type Queries struct {
	*dense.Backend
	cache *kvcache.Cache
	at    int // place of the first among those kept
}

// NewQueries keeps the queries of a chunk from place at on. inner stays the
// caller's.
func NewQueries(inner *dense.Backend, cache *kvcache.Cache, at int) *Queries {
	return &Queries{inner, cache, at}
}

// Exact is false: queries of the model's own cache rows are wanted.
func (q *Queries) Exact() bool { return false }

// Attend copies queries, then attends.
func (q *Queries) Attend(ops *device.Ops, in attention.Input) {
	ops.Copy(q.cache.Layers[in.Layer].Queries.Slice(0, q.at, q.at+in.Q.Shape[0]), in.Q)
	q.Backend.Attend(ops, in)
}
