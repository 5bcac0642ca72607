package host

import (
	"errors"
	"fmt"
	"unsafe"

	"blitzen/device"
	"blitzen/host/kernels"
)

// buffer is the memory of one tensor and all its views.
type buffer struct {
	mem      unsafe.Pointer // first element
	base     unsafe.Pointer // what to free; nil for a checkpoint's own bytes
	mapped   []byte         // keeps those bytes reachable
	size     int64
	readOnly bool
	freed    bool
	steps    int // live recorded steps that use it
}

// New implements device.Device.
func (d *cpu) New(name string, t device.DType, shape ...int) (*device.Tensor, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	size, err := device.SizeOf(name, t, shape)
	if err != nil {
		return nil, err
	}
	b, err := d.allocate(name, size)
	if err != nil {
		return nil, err
	}
	return device.NewTensor(name, t, b, shape...), nil
}

func (d *cpu) allocate(name string, size int) (*buffer, error) {
	mem, base := kernels.Alloc(size)
	if mem == nil {
		return nil, fmt.Errorf("%s: no memory for %d bytes (%d in use)", name, size, d.stats.Used)
	}
	b := &buffer{mem: mem, base: base, size: int64(size)}
	d.hold(b)
	return b, nil
}

func (d *cpu) hold(b *buffer) {
	d.live[b] = true
	d.stats.Used += b.size
	d.stats.Peak = max(d.stats.Peak, d.stats.Used)
}

// Import implements device.Device. BF16 and F16 become F32; every other type
// keeps mapped itself when its address is aligned.
func (d *cpu) Import(name string, t device.DType, shape []int, mapped []byte) (*device.Tensor, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	size, err := device.SizeOf(name, t, shape)
	if err != nil {
		return nil, err
	}
	if size != len(mapped) {
		return nil, fmt.Errorf("%s: %v%v needs %d bytes, the checkpoint has %d", name, t, shape, size, len(mapped))
	}
	as := t
	if t == device.BF16 || t == device.F16 {
		as = device.F32
	}
	src := unsafe.Pointer(unsafe.SliceData(mapped))
	if as == t && size > 0 && uintptr(src)%uintptr(t.Size()) == 0 {
		b := &buffer{mem: src, mapped: mapped, size: int64(size), readOnly: true}
		d.hold(b)
		return device.NewTensor(name, t, b, shape...), nil
	}
	b, err := d.allocate(name, size/t.Size()*as.Size())
	if err != nil {
		return nil, err
	}
	b.readOnly = true
	d.convert(b.mem, t, mapped)
	return device.NewTensor(name, as, b, shape...), nil
}

// convert fills dst from a checkpoint's bytes.
func (d *cpu) convert(dst unsafe.Pointer, t device.DType, src []byte) {
	const piece = 1 << 16 // elements
	n := len(src) / t.Size()
	d.kernels.pool.run((n+piece-1)/piece, func(_, i int) {
		from := i * piece
		count := min(piece, n-from)
		convertPiece(unsafe.Add(dst, from*max(t.Size(), 4)), t, src[from*t.Size():(from+count)*t.Size()])
	})
}

// convertPiece widens BF16 and F16 and copies all else, of 4 bytes or more.
func convertPiece(dst unsafe.Pointer, t device.DType, bytes []byte) {
	count := len(bytes) / t.Size()
	switch t {
	case device.BF16:
		kernels.WidenBF16((*float32)(dst), unsafe.Pointer(unsafe.SliceData(bytes)), count)
	case device.F16:
		kernels.WidenF16((*float32)(dst), unsafe.Pointer(unsafe.SliceData(bytes)), count)
	default:
		copy(unsafe.Slice((*byte)(dst), len(bytes)), bytes)
	}
}

// Free implements device.Device. A tensor that a live step uses is kept, and
// the mistake becomes the device's error.
func (d *cpu) Free(t *device.Tensor) {
	if t == nil || d.closed {
		return
	}
	b, ok := t.Buffer.(*buffer)
	switch {
	case !ok || !d.live[b]:
		d.fail(fmt.Errorf("cpu: free of %v, which this device does not hold", t))
	case b.steps > 0:
		d.fail(fmt.Errorf("cpu: free of %v, which a recorded step uses; close the step first", t))
	default:
		d.release(b)
	}
}

func (d *cpu) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *cpu) release(b *buffer) {
	if b.base != nil {
		kernels.Release(b.base)
	}
	d.stats.Used -= b.size
	delete(d.live, b)
	*b = buffer{freed: true}
}

// Memory implements device.Device.
func (d *cpu) Memory() device.MemoryStats { return d.stats }

// Upload implements device.Device.
func (d *cpu) Upload(t *device.Tensor, src []byte) error {
	if err := d.usable(); err != nil {
		return err
	}
	data, err := flat(t)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if t.Buffer.(*buffer).readOnly {
		return fmt.Errorf("upload: %v is part of a checkpoint and cannot be written", t)
	}
	if len(src) != len(data) {
		return fmt.Errorf("upload: %v has %d bytes, got %d", t, len(data), len(src))
	}
	copy(data, src)
	return nil
}

// Fetch implements device.Device.
func (d *cpu) Fetch(t *device.Tensor) device.Pending {
	p := &pending{err: d.usable()}
	if p.err == nil {
		data, err := flat(t)
		if err != nil {
			p.err = fmt.Errorf("fetch: %w", err)
		}
		p.data = append(p.data, data...)
	}
	return p
}

// pending is a copy that was made when it was asked for.
type pending struct {
	data []byte
	err  error
}

// Wait implements device.Pending.
func (p *pending) Wait(dst []byte) error {
	if p.err != nil {
		return p.err
	}
	if len(dst) != len(p.data) {
		return fmt.Errorf("fetch: the tensor has %d bytes, the destination %d", len(p.data), len(dst))
	}
	copy(dst, p.data)
	return nil
}

// flat is the memory of a contiguous tensor.
func flat(t *device.Tensor) ([]byte, error) {
	if t == nil {
		return nil, errors.New("nil tensor")
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	b, err := bufferOf(t)
	if err != nil {
		return nil, err
	}
	if !t.Contiguous() {
		return nil, fmt.Errorf("%v is not contiguous (strides %v)", t, t.Stride)
	}
	return unsafe.Slice((*byte)(unsafe.Add(b.mem, t.Offset*t.DType.Size())), t.Bytes()), nil
}

func bufferOf(t *device.Tensor) (*buffer, error) {
	b, ok := t.Buffer.(*buffer)
	if !ok {
		return nil, fmt.Errorf("%v belongs to another device", t)
	}
	if b.freed {
		return nil, fmt.Errorf("%v was freed", t)
	}
	return b, nil
}
