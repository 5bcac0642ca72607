// Package record has backends around a backend, which keep what its decode
// steps computed:
//
//	Outputs      the attention outputs, unchanged
//	Replay       the outputs on the trajectory of another backend, whose outputs go on
//	Queries      the queries of a prompt's last tokens, in the cache
//	LastQueries  the queries of the last step
//	Mass         where exact attention puts its weight
//	Spread       how far its scores by the parts of a latent cache's keys lie apart
//
// They issue operations on tensors made before the first step, so that their
// steps can be recorded and replayed like any other.
package record

import (
	"blitzen/attention"
	"blitzen/device"
)

// Shape is a model's attention outputs of one token.
type Shape struct{ Layers, Heads, Dim int }

// Outputs is a backend whose outputs of the last step can be had.
type Outputs struct {
	attention.Backend
	dev device.Device
	out *device.Tensor // F32 [layers, heads, dim]
}

// NewOutputs wraps inner, which it closes.
func NewOutputs(dev device.Device, inner attention.Backend, s Shape) (*Outputs, error) {
	out, err := dev.New("record.out", device.F32, s.Layers, s.Heads, s.Dim)
	if err != nil {
		return nil, err
	}
	return &Outputs{Backend: inner, dev: dev, out: out}, nil
}

// Exact is false: a model's own cache rows are to be attended.
func (o *Outputs) Exact() bool { return false }

// Attend is inner's, for a single token, and a copy.
func (o *Outputs) Attend(ops *device.Ops, in attention.Input) {
	o.Backend.Attend(ops, in)
	ops.Copy(o.out.Index(0, in.Layer), in.Out.Index(0, 0))
}

// Last are the outputs of the last step, [layers, heads, dim].
func (o *Outputs) Last() ([]float32, error) { return device.Read[float32](o.dev, o.out) }

// Close frees the copy and closes inner.
func (o *Outputs) Close() {
	o.Backend.Close()
	o.dev.Free(o.out)
}
