package record

import (
	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/device"
	"blitzen/kvcache"
)

// LastQueries is exact attention that keeps the queries of the last step.
type LastQueries struct {
	*dense.Backend
	Queries *device.Tensor // [layers, heads, key dim], freed by Close
	Scale   float32        // of the model's softmax; 0 before the first step
	dev     device.Device
}

// NewLastQueries keeps the queries of so many query heads, in a type of the
// caller's choice.
func NewLastQueries(dev device.Device, specs []kvcache.Spec, heads int, t device.DType) (*LastQueries, error) {
	exact, err := dense.New(dev, specs)
	if err != nil {
		return nil, err
	}
	q, err := dev.New("record.queries", t, len(specs), heads, specs[0].KeyDim)
	if err != nil {
		exact.Close()
		return nil, err
	}
	return &LastQueries{Backend: exact, Queries: q, dev: dev}, nil
}

// Exact is false: queries of the model's own cache rows are wanted.
func (l *LastQueries) Exact() bool { return false }

// Attend copies a single token's queries, then attends.
func (l *LastQueries) Attend(ops *device.Ops, in attention.Input) {
	l.Scale = in.Scale
	ops.Copy(l.Queries.Index(0, in.Layer), in.Q.Index(0, 0))
	l.Backend.Attend(ops, in)
}

// Close frees the queries.
func (l *LastQueries) Close() {
	l.Backend.Close()
	l.dev.Free(l.Queries)
}
