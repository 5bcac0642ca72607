package record

import (
	"blitzen/attention"
	"blitzen/device"
)

// Replay is a backend whose outputs are kept and not used: given outputs go on
// in their place. With those that another backend had, the model is exactly on
// the other's trajectory: every query and cache row is the same for both, and
// their outputs differ by the method alone.
type Replay struct {
	attention.Backend
	dev   device.Device
	given *device.Tensor // F32 [layers, heads, dim]
	own   *device.Tensor // [layers, heads, dim] in the device's type
	copy  *device.Tensor // F32 [layers, heads, dim]
	owned device.Owner
}

// NewReplay wraps inner, which it closes.
func NewReplay(dev device.Device, inner attention.Backend, s Shape) (*Replay, error) {
	r := &Replay{Backend: inner, dev: dev, owned: device.Owner{Dev: dev}}
	room := func(name string, t device.DType) *device.Tensor {
		return r.owned.New(name, t, s.Layers, s.Heads, s.Dim)
	}
	r.given, r.own, r.copy = room("replay.given", device.F32), room("replay.own", dev.DType()), room("replay.out", device.F32)
	if err := r.owned.Err(); err != nil {
		r.owned.Free()
		return nil, err
	}
	return r, nil
}

// Exact is false: a model's own cache rows are to be attended.
func (r *Replay) Exact() bool { return false }

// Attend is inner's, for a single token, and what goes on in place of it: a product
// is of that.
func (r *Replay) Attend(ops *device.Ops, in attention.Input) {
	own, i := in, in.Layer
	own.Out, own.Then = r.own.Slice(0, i, i+1), nil
	r.Backend.Attend(ops, own)
	ops.Copy(r.copy.Index(0, i), r.own.Index(0, i))
	ops.Copy(in.Out.Index(0, 0), r.given.Index(0, i))
	in.Multiply(ops)
}

// Give sets the outputs of the next step, [layers, heads, dim].
func (r *Replay) Give(outputs []float32) error { return device.Write(r.dev, r.given, outputs) }

// Last are inner's outputs of the last step, [layers, heads, dim].
func (r *Replay) Last() ([]float32, error) { return device.Read[float32](r.dev, r.copy) }

// Close frees the copies and closes inner.
func (r *Replay) Close() {
	r.Backend.Close()
	r.owned.Free()
}
