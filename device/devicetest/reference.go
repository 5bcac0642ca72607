// Package devicetest judges devices: Reference computes every operation in
// plain float64 Go, written to be read, and Suite compares a device with it.
package devicetest

import (
	"bytes"
	"fmt"
	"math"

	"blitzen/device"
)

// reference is the device that the others are compared with. Tensors lie in
// Go byte slices in their own type; every sum is in float64.
type reference struct {
	kernels device.Kernels
	dtype   device.DType // of activations: what a model asks New for
	stats   device.MemoryStats
}

// memory is a reference tensor's Buffer.
type memory struct{ bytes []byte }

// NewReference makes the judge. It is slow, and exact but for the rounding of
// what it stores. Activations are F32; Import keeps the checkpoint's type, but
// F16 becomes F32. Steps refuse a replay that issues other operations.
func NewReference() device.Device { return newReference(kernels{}, device.F32) }

func newReference(k device.Kernels, activations device.DType) *reference {
	return &reference{kernels: k, dtype: activations}
}

func (r *reference) Name() string { return "reference" }

func (r *reference) DType() device.DType { return r.dtype }

func (r *reference) Queued() bool { return false }

func (r *reference) New(name string, t device.DType, shape ...int) (*device.Tensor, error) {
	if t.Size() == 0 {
		return nil, fmt.Errorf("new %s: %v is no element type", name, t)
	}
	for _, n := range shape {
		if n < 0 {
			return nil, fmt.Errorf("new %s: shape %v has a negative length", name, shape)
		}
	}
	m := &memory{}
	v := device.NewTensor(name, t, m, shape...)
	m.bytes = make([]byte, v.Bytes())
	r.stats.Used += int64(v.Bytes())
	r.stats.Peak = max(r.stats.Peak, r.stats.Used)
	return v, nil
}

func (r *reference) Import(name string, t device.DType, shape []int, mapped []byte) (*device.Tensor, error) {
	if t == device.F16 {
		t, mapped = device.F32, Encode(device.F32, Decode(device.F16, mapped))
	}
	v, err := r.New(name, t, shape...)
	if err != nil {
		return nil, err
	}
	if err := r.Upload(v, mapped); err != nil {
		r.Free(v)
		return nil, err
	}
	return v, nil
}

func (r *reference) ImportInt8(name string, t device.DType, shape []int, mapped []byte) (*device.Tensor, error) {
	if err := device.CheckInt8(name, t, shape); err != nil {
		return nil, err
	}
	rows, n := shape[0], shape[1]
	if len(mapped) != rows*n*t.Size() {
		return nil, fmt.Errorf("import %s: %d bytes for %v%v", name, len(mapped), t, shape)
	}
	m := &memory{}
	v, size := device.NewInt8Tensor(name, m, rows, n)
	m.bytes = make([]byte, size)
	values := Decode(t, mapped)
	for i := range rows {
		q, scale := int8Row(values[i*n:][:n])
		copy(rowBytes(v, i), Encode(device.I8, q))
		setNumber(v.Scale, scale, i)
	}
	r.stats.Used += int64(size)
	r.stats.Peak = max(r.stats.Peak, r.stats.Used)
	return v, nil
}

// int8Row is the factor of a row and its elements as multiples of it.
func int8Row(row []float64) (q []float64, scale float64) {
	top := 0.0
	for _, v := range row {
		if special(v) {
			return make([]float64, len(row)), math.NaN()
		}
		top = max(top, math.Abs(v))
	}
	scale = float64(float32(top / 127))
	q = make([]float64, len(row))
	for i, v := range row {
		if scale > 0 {
			q[i] = min(127, max(-127, math.RoundToEven(float64(float32(v/scale)))))
		}
	}
	return q, scale
}

func (r *reference) Free(t *device.Tensor) {
	m := t.Buffer.(*memory)
	r.stats.Used -= int64(len(m.bytes))
	m.bytes = nil
}

func (r *reference) Upload(t *device.Tensor, src []byte) error {
	dst, err := content(t)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if len(src) != len(dst) {
		return fmt.Errorf("upload: %v holds %d bytes, not %d", t, len(dst), len(src))
	}
	copy(dst, src)
	return nil
}

func (r *reference) Fetch(t *device.Tensor) device.Pending {
	src, err := content(t)
	return &fetched{t, bytes.Clone(src), err}
}

// fetched is a copy made at once.
type fetched struct {
	tensor *device.Tensor
	bytes  []byte
	err    error
}

func (f *fetched) Wait(dst []byte) error {
	switch {
	case f.err != nil:
		return fmt.Errorf("fetch: %w", f.err)
	case len(dst) != len(f.bytes):
		return fmt.Errorf("fetch: %v holds %d bytes, not %d", f.tensor, len(f.bytes), len(dst))
	}
	copy(dst, f.bytes)
	return nil
}

func (r *reference) Prepare(fn func(*device.Ops)) error { return device.Check(fn) }

func (r *reference) Run(fn func(*device.Ops)) error {
	ops := device.NewOps(r.kernels, nil)
	fn(ops)
	return ops.Err()
}

func (r *reference) Record(fn func(*device.Ops)) (device.Step, error) {
	s := &step{fn: fn}
	if err := s.pass(nil); err != nil {
		return nil, err
	}
	s.kernels = r.kernels
	return s, nil
}

// step runs its function again at every replay and compares what it issues
// with what it issued at first.
type step struct {
	kernels device.Kernels
	fn      func(*device.Ops)
	trace   device.Trace
}

func (s *step) Run() error {
	if s.fn == nil {
		return fmt.Errorf("replay: the step is closed")
	}
	return s.pass(s.kernels)
}

func (s *step) pass(k device.Kernels) error {
	s.trace.Begin()
	ops := device.NewOps(k, &s.trace)
	s.fn(ops)
	if err := ops.Err(); err != nil {
		return err
	}
	return s.trace.End()
}

func (s *step) Close() error {
	s.fn = nil
	return nil
}

func (r *reference) Memory() device.MemoryStats { return r.stats }
func (r *reference) Space() (free, total int64) { return 0, 0 }

func (r *reference) Close() error { return nil }
