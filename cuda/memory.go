package cuda

import (
	"errors"
	"fmt"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// buffer is the memory of one tensor and all its views.
type buffer struct {
	at       driver.Address
	size     int
	readOnly bool
	freed    bool
	steps    int    // live recorded steps that use it
	block    *block // what the memory was cut from, nil where it is a piece of its own
}

// block is memory that several tensors of a checkpoint are cut from: the driver
// gives memory in pieces of 2 MiB, and a model of experts has thousands of
// tensors of 5.5. It is freed with the last of them.
type block struct {
	at         driver.Address
	size, used int
	live       int // tensors
}

// blockSize is the least size of a block, in bytes. Tensors of more than half of
// it have memory of their own.
const blockSize = 64 << 20

// align is what kernels may assume of a tensor's first element.
const align = 256

// New implements device.Device.
func (d *gpu) New(name string, t device.DType, shape ...int) (*device.Tensor, error) {
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	size, err := device.SizeOf(name, t, shape)
	if err != nil {
		return nil, err
	}
	b, err := d.allocate(name, t, shape, size)
	if err != nil {
		return nil, err
	}
	if d.recording != nil { // the fill would become part of the step
		d.release(b)
		return nil, fmt.Errorf("cuda: new %s inside Record; make tensors before", name)
	}
	if err := d.stream.Fill(b.at, 0, size); err != nil {
		d.release(b)
		return nil, d.keep(err)
	}
	return device.NewTensor(name, t, b, shape...), nil
}

func (d *gpu) allocate(name string, t device.DType, shape []int, size int) (*buffer, error) {
	at, err := driver.Alloc(max(size, 1))
	if err != nil {
		return nil, d.keep(fmt.Errorf("%s %v%v: %w", name, t, shape, d.explain(err, size)))
	}
	return d.hold(&buffer{at: at, size: size}), nil
}

// cut allocates from a block. With Sync every tensor is a piece of its own, so
// that compute-sanitizer sees where it ends.
func (d *gpu) cut(name string, t device.DType, shape []int, size int) (*buffer, error) {
	padded := (max(size, 1) + align - 1) / align * align
	if padded > blockSize/2 || d.opts.Sync {
		return d.allocate(name, t, shape, size)
	}
	if b := d.block; b == nil || b.used+padded > b.size {
		n := ceil(blockSize, padded) * padded // tensors of one size, such as experts', leave no gap
		at, err := driver.Alloc(n)
		if err != nil { // a smaller piece may still be there
			return d.allocate(name, t, shape, size)
		}
		d.block = &block{at: at, size: n}
	}
	b := &buffer{at: d.block.at + driver.Address(d.block.used), size: size, block: d.block}
	d.block.used += padded
	d.block.live++
	return d.hold(b), nil
}

func (d *gpu) hold(b *buffer) *buffer {
	d.live[b] = true
	d.stats.Used += int64(b.size)
	d.stats.Peak = max(d.stats.Peak, d.stats.Used)
	return b
}

// explain adds the numbers to an out-of-memory error.
func (d *gpu) explain(err error, size int) error {
	var failed *driver.Error
	if !errors.As(err, &failed) || !failed.OutOfMemory() {
		return err
	}
	free, total, infoErr := driver.MemoryInfo()
	if infoErr != nil {
		return err
	}
	const mib = 1 << 20
	return fmt.Errorf("out of GPU memory: %d MiB wanted, %d of %d MiB free; tensors hold %d MiB, scratch %d MiB: use a shorter context or a smaller type (%w)",
		(size+mib-1)/mib, free/mib, total/mib, d.stats.Used/mib, (d.scratch.held+d.steps.held)/mib, err)
}

// Free implements device.Device. A tensor that a live step uses is kept, and
// the mistake becomes the device's error.
func (d *gpu) Free(t *device.Tensor) {
	if t == nil || d.closed {
		return
	}
	b, ok := t.Buffer.(*buffer)
	switch {
	case !ok || !d.live[b]:
		d.fail(fmt.Errorf("cuda: free of %v, which this device does not hold", t))
	case b.steps > 0:
		d.fail(fmt.Errorf("cuda: free of %v, which a recorded step uses; close the step first", t))
	default:
		leave, err := d.enter()
		if err != nil {
			return // the device is lost; Close cleans up
		}
		defer leave()
		d.release(b)
	}
}

func (d *gpu) release(b *buffer) {
	if err := d.giveBack(b); err != nil {
		d.fail(d.keep(err))
	}
	d.stats.Used -= int64(b.size)
	delete(d.live, b)
	*b = buffer{freed: true}
}

// giveBack frees a buffer's memory, or its block when it is the last one there.
func (d *gpu) giveBack(b *buffer) error {
	if b.block == nil {
		return driver.Free(b.at)
	}
	if b.block.live--; b.block.live > 0 {
		return nil
	}
	if d.block == b.block {
		d.block = nil
	}
	return driver.Free(b.block.at)
}

// Memory implements device.Device.
func (d *gpu) Memory() device.MemoryStats { return d.stats }

// Space implements device.Device.
func (d *gpu) Space() (free, total int64) {
	leave, err := d.enter()
	if err != nil {
		return 0, 0
	}
	defer leave()
	free, total, err = driver.MemoryInfo()
	if err != nil {
		return 0, 0
	}
	return free, total
}

// bufferOf is the live memory of a tensor of any GPU.
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

// span is the memory of a contiguous tensor.
func (d *gpu) span(t *device.Tensor) (driver.Address, *buffer, error) {
	if t == nil {
		return 0, nil, errors.New("nil tensor")
	}
	if err := t.Err(); err != nil {
		return 0, nil, err
	}
	b, err := bufferOf(t)
	if err != nil {
		return 0, nil, err
	}
	if !t.Contiguous() {
		return 0, nil, fmt.Errorf("%v is not contiguous (strides %v)", t, t.Stride)
	}
	return address(b, t), b, nil
}

func address(b *buffer, t *device.Tensor) driver.Address {
	return b.at + driver.Address(t.Offset*t.DType.Size())
}
