package device

import (
	"fmt"
	"unsafe"
)

// Element is a Go type whose slices have a tensor's layout in memory, on the
// little-endian machines this runs on.
type Element interface {
	float32 | int32 | uint32 | int64
}

// Write copies values into the contiguous tensor t.
func Write[T Element](d Device, t *Tensor, values []T) error {
	if err := sameType[T](t); err != nil {
		return err
	}
	return d.Upload(t, bytesOf(values))
}

// WriteSeed stores seed in the U32 tensor t [2] as the key of Philox, the low
// word first. Errors are those of Write.
func WriteSeed(d Device, t *Tensor, seed uint64) error {
	return Write(d, t, []uint32{uint32(seed), uint32(seed >> 32)})
}

// Read waits for all work queued so far and returns the elements of the
// contiguous tensor t.
func Read[T Element](d Device, t *Tensor) ([]T, error) {
	if err := sameType[T](t); err != nil {
		return nil, err
	}
	values := make([]T, t.Len())
	return values, d.Fetch(t).Wait(bytesOf(values))
}

// ReadFloats is Read of a tensor of any float type, contiguous or not, as
// float32. It takes a copy on the device.
func ReadFloats(d Device, t *Tensor) ([]float32, error) {
	copied, err := d.New(t.Name+" in float32", F32, t.Shape...)
	if err != nil {
		return nil, err
	}
	defer d.Free(copied)
	if err := d.Run(func(ops *Ops) { ops.Copy(copied, t) }); err != nil {
		return nil, err
	}
	return Read[float32](d, copied)
}

// WriteFloats is Write to a tensor of any float type, contiguous or not, which
// rounds to nearest. It takes a copy on the device.
func WriteFloats(d Device, t *Tensor, values []float32) error {
	wide, err := d.New(t.Name+" in float32", F32, t.Shape...)
	if err != nil {
		return err
	}
	defer d.Free(wide)
	if err := Write(d, wide, values); err != nil {
		return err
	}
	return d.Run(func(ops *Ops) { ops.Copy(t, wide) })
}

// Collect waits for p, a copy of len(values) elements, and stores it in values.
func Collect[T Element](p Pending, values []T) error { return p.Wait(bytesOf(values)) }

func sameType[T Element](t *Tensor) error {
	var zero T
	want := map[any]DType{float32(0): F32, int32(0): I32, uint32(0): U32, int64(0): I64}[zero]
	if t.DType != want {
		return fmt.Errorf("%v does not hold %T", t, zero)
	}
	return nil
}

func bytesOf[T Element](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}
