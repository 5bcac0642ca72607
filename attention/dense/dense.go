// Package dense is exact attention: every query reads every row up to its own.
package dense

import (
	"blitzen/attention"
	"blitzen/device"
	"blitzen/kvcache"
)

// Backend reads rows 0 … pos of the cache in token order.
type Backend struct {
	dev    device.Device
	spec   kvcache.Spec
	dtype  device.DType
	counts *device.Tensor // I64 [layers]: rows read
}

// New makes the backend for a model's layers, all of one kind.
func New(dev device.Device, specs []kvcache.Spec) (*Backend, error) {
	counts, err := dev.New("dense.rows", device.I64, len(specs))
	if err != nil {
		return nil, err
	}
	return &Backend{dev: dev, spec: specs[0], dtype: dev.DType(), counts: counts}, nil
}

// Name is "dense".
func (b *Backend) Name() string { return "dense" }

// Exact is true: any keys and values will do.
func (b *Backend) Exact() bool { return true }

// Attend reads every row up to each query's own, of any number of tokens.
func (b *Backend) Attend(ops *device.Ops, in attention.Input) {
	ops.Attend(in.Exactly(b.counts.Slice(0, in.Layer, in.Layer+1)))
}

// Counters are the rows read, I64 [layers].
func (b *Backend) Counters() *device.Tensor { return b.counts }

// Access takes the counters: exact attention reads what it would read.
func (b *Backend) Access(counters []int64) attention.Access {
	a := attention.NewAccess(b.spec, b.dtype)
	for _, rows := range counters {
		a.Rows += rows
	}
	a.Dense = a.Rows
	return a
}

// Close frees the counters.
func (b *Backend) Close() { b.dev.Free(b.counts) }
