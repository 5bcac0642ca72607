package device

import (
	"errors"
	"fmt"
)

// Meter is a Device without memory. It counts the bytes that a real one would
// hold and checks operations without executing them, so that a model or a
// session can be made on it to learn what it needs. Fetched tensors are zero.
type Meter struct {
	dtype    DType
	imported int64
	made     int64
	sizes    map[*metered]int64
}

// metered is the buffer of a tensor that has no memory.
type metered struct{ imported bool }

// NewMeter makes a device that computes with dtype, F32 or BF16.
func NewMeter(dtype DType) *Meter { return &Meter{dtype: dtype, sizes: map[*metered]int64{}} }

// Imported is the bytes of live tensors made by Import: weights.
func (m *Meter) Imported() int64 { return m.imported }

// Made is the bytes of live tensors made by New.
func (m *Meter) Made() int64 { return m.made }

// Name implements Device.
func (m *Meter) Name() string { return "meter" }

// DType implements Device.
func (m *Meter) DType() DType { return m.dtype }

// Queued implements Device.
func (m *Meter) Queued() bool { return false }

// New implements Device.
func (m *Meter) New(name string, t DType, shape ...int) (*Tensor, error) {
	return m.hold(name, t, shape, &metered{})
}

// Import implements Device. Floats count in the device's type.
func (m *Meter) Import(name string, t DType, shape []int, _ []byte) (*Tensor, error) {
	if t.Float() {
		t = m.dtype
	}
	return m.hold(name, t, shape, &metered{imported: true})
}

// ImportInt8 implements Device.
func (m *Meter) ImportInt8(name string, _ DType, shape []int, _ []byte) (*Tensor, error) {
	if err := CheckInt8(name, F32, shape); err != nil {
		return nil, err
	}
	b := &metered{imported: true}
	t, size := NewInt8Tensor(name, b, shape[0], shape[1])
	m.sizes[b] = int64(size)
	m.count(b, int64(size))
	return t, nil
}

func (m *Meter) hold(name string, t DType, shape []int, b *metered) (*Tensor, error) {
	n, err := SizeOf(name, t, shape)
	if err != nil {
		return nil, err
	}
	m.sizes[b] = int64(n)
	m.count(b, int64(n))
	return NewTensor(name, t, b, shape...), nil
}

func (m *Meter) count(b *metered, n int64) {
	if b.imported {
		m.imported += n
	} else {
		m.made += n
	}
}

// Free implements Device.
func (m *Meter) Free(t *Tensor) {
	if t == nil {
		return
	}
	if b, ok := t.Buffer.(*metered); ok {
		m.count(b, -m.sizes[b])
		delete(m.sizes, b)
	}
}

// Upload implements Device.
func (m *Meter) Upload(t *Tensor, src []byte) error {
	if len(src) != t.Bytes() {
		return fmt.Errorf("upload: %v has %d bytes, got %d", t, t.Bytes(), len(src))
	}
	return t.Err()
}

// Fetch implements Device.
func (m *Meter) Fetch(*Tensor) Pending { return zeros{} }

type zeros struct{}

func (zeros) Wait(dst []byte) error {
	clear(dst)
	return nil
}

// Prepare implements Device.
func (m *Meter) Prepare(fn func(*Ops)) error { return Check(fn) }

// Run implements Device.
func (m *Meter) Run(fn func(*Ops)) error { return Check(fn) }

// Record implements Device: there is nothing to replay.
func (m *Meter) Record(func(*Ops)) (Step, error) {
	return nil, errors.New("a meter records no steps")
}

// Memory implements Device.
func (m *Meter) Memory() MemoryStats {
	used := m.imported + m.made
	return MemoryStats{Used: used, Peak: used}
}

// Space implements Device: there is no limit.
func (m *Meter) Space() (free, total int64) { return 0, 0 }

// Close implements Device.
func (m *Meter) Close() error { return nil }
