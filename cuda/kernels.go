package cuda

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unsafe"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// kernels implements device.Kernels: each method fills the argument struct of
// its kernels and launches them.
type kernels struct {
	gpu       *gpu
	card      card
	programs  *programs
	products  *products                // cuBLASLt
	tables    map[string]*buffer       // experts' addresses on the GPU, by contents
	widenMost int                      // int8 weights widened at once; 0 for the usual
	rehearsal bool                     // compile and reserve, launch nothing
	plan      func(p program)          // told what would run; nothing is launched or reserved
	profile   *profile                 // of the Profile under way, or nil
	bounds    *bounds                  // judges addresses, or nil
	rotation  *device.RotateAppendArgs // waits for an Attend, or nil
	layer     *smallLayer              // waits to be whole, or nil
	crowded   bool                     // AttendTeams has asked for the L1 cache as shared memory, see l1Cache
}

// Views of tensors as kernels take them (kernels/common.cuh).
type (
	vec = uint64 // address
	mat struct {
		p  uint64
		ld int64
	}
	cube struct {
		p      uint64
		s0, s1 int64
	}
)

// call is an operation being prepared. The first error sticks.
type call struct {
	k        *kernels
	file     string
	defs     []byte
	carveout int // percent, see sharedMemory and l1Cache; 0: whatever was asked for, at first the driver's choice
	err      error
}

// call begins a launch of kernels of a file, after what waits.
func (k *kernels) call(file string) *call { return &call{k: k, file: file, err: k.flush()} }

var typeNames = map[device.DType]string{
	device.F32: "float", device.F16: "half", device.BF16: "bf16", device.I8: "i8", device.F8: "f8", device.I32: "int", device.U32: "u32", device.I64: "i64",
}

// as sets a macro to an element type.
func (c *call) as(macro string, t device.DType) *call {
	name, ok := typeNames[t]
	if !ok && c.err == nil {
		c.err = fmt.Errorf("the GPU device has no kernel for %v", t)
	}
	c.defs = append(append(append(append(c.defs, " -D"...), macro...), '='), name...)
	return c
}

// set sets a macro to a number.
func (c *call) set(macro string, v int) *call {
	c.defs = append(append(append(c.defs, " -D"...), macro...), '=')
	c.defs = strconv.AppendInt(c.defs, int64(v), 10)
	return c
}

// sharedMemory asks for multiprocessors whose memory is shared memory, so that blocks of other
// kernels with much of it fit beside. The kernel keeps that.
func (c *call) sharedMemory() *call {
	c.carveout = 100
	return c
}

// l1Cache asks for the L1 cache, in which loads of weights are under way, once AttendTeams has asked for it as shared
// memory: multiprocessors stay as a kernel had them until another one asks. The kernel keeps that, too. With none of the
// memory as shared memory, not a hundredth, which is rounded up, products are 1 % slower.
func (c *call) l1Cache() *call {
	if c.k.crowded {
		c.carveout = 1
	}
	return c
}

// vec is the address of a tensor's first element, 0 for nil. A step that is
// being recorded keeps its memory.
func (c *call) vec(t *device.Tensor) vec {
	if t == nil {
		return 0
	}
	b, err := bufferOf(t)
	if err != nil {
		if c.err == nil {
			c.err = err
		}
		return 0
	}
	c.k.use(b)
	if r := c.k.gpu.recording; r != nil && !onlyReads[c.file] {
		r.touched[b] = true
	}
	at := uint64(address(b, t))
	if c.watched() {
		c.k.bounds.tensor(t, at)
	}
	return at
}

// watched says that addresses are judged.
func (c *call) watched() bool { return c.k.bounds != nil && c.k.plan == nil }

// mat is a tensor of two dimensions.
func (c *call) mat(t *device.Tensor) mat {
	if t == nil {
		return mat{}
	}
	return mat{c.vec(t), int64(t.Stride[0])}
}

// cube is a tensor of three dimensions.
func (c *call) cube(t *device.Tensor) cube {
	return cube{c.vec(t), int64(t.Stride[0]), int64(t.Stride[1])}
}

// use notes that the step being recorded refers to a buffer.
func (k *kernels) use(b *buffer) {
	if k.gpu.recording != nil {
		k.gpu.recording.uses[b] = true
	}
}

// scratch reserves memory for intermediate results, valid until the operation
// is over: an address for each size in bytes.
func (c *call) scratch(sizes ...int) []vec {
	at, total := make([]vec, len(sizes)), 0
	for i, n := range sizes {
		at[i] = uint64(total)
		total += (n + align - 1) / align * align
	}
	if c.err != nil || c.k.plan != nil {
		return at
	}
	b, err := c.k.gpu.scratch.take(total, c.k.gpu.recording != nil)
	if err != nil {
		c.err = c.k.gpu.explain(err, total)
		return at
	}
	c.k.use(b)
	for i := range at {
		at[i] += uint64(b.at)
	}
	if c.watched() {
		c.k.bounds.scratch(at, sizes)
	}
	return at
}

// scratchTensor is a contiguous tensor of scratch memory.
func (c *call) scratchTensor(t device.DType, shape ...int) (*device.Tensor, error) {
	v := device.NewTensor("scratch", t, nil, shape...)
	v.Buffer = &buffer{at: driver.Address(c.scratch(v.Bytes())[0]), size: v.Bytes()}
	return v, c.err
}

// clear queues zeroing scratch memory.
func (c *call) clear(at vec, n int) {
	if c.err == nil && !c.idle() {
		c.err = c.k.profile.time(device.Launch{Kernel: "memset"}, func() error { return c.k.gpu.stream.Fill(driver.Address(at), 0, n) })
	}
}

// idle says that nothing is to be launched.
func (c *call) idle() bool { return c.k.rehearsal || c.k.plan != nil }

// sharedWithoutAsking is the dynamic shared memory every kernel may have.
const sharedWithoutAsking = 48 << 10

// launch queues a kernel of the call's file with its Args. An empty grid is no
// work.
func launch[A any](c *call, kernel string, g driver.Grid, shared int, args *A) error {
	if c.err != nil {
		return c.err
	}
	p := program{c.file, string(c.defs), reflect.TypeFor[A]()}
	k := c.k
	if k.plan != nil {
		k.plan(p)
		return nil
	}
	m, f, err := k.programs.function(p, kernel)
	if err != nil {
		return err
	}
	if shared > sharedWithoutAsking {
		if err := f.AllowShared(shared); err != nil {
			return fmt.Errorf("kernel %s needs %d bytes of shared memory, more than this GPU has: %w", kernel, shared, err)
		}
	}
	if c.carveout > 0 {
		if err := f.Carve(c.carveout); err != nil {
			return err
		}
	}
	if k.rehearsal || g.X <= 0 || g.Y <= 0 || g.Z <= 0 {
		return nil
	}
	start := func() error {
		if k.profile == nil {
			return k.gpu.stream.Launch(f, g, shared, unsafe.Pointer(args))
		}
		return k.profile.launch(kernel, f, g, shared, unsafe.Pointer(args))
	}
	if k.bounds == nil {
		err = start()
	} else {
		err = k.bounds.watch(m, start)
	}
	if err == nil && k.gpu.opts.Sync {
		err = k.gpu.stream.Wait()
	}
	if err != nil {
		return fmt.Errorf("kernel %s: %w", kernel, err)
	}
	return nil
}

// blocks is a grid of one dimension.
func blocks(x, threads int) driver.Grid { return driver.Grid{X: x, Y: 1, Z: 1, Threads: threads} }

// early lets a kernel begin before the one ahead of it has ended, where the card
// can: it must call wait_for_previous (kernels/early.cuh).
func (k *kernels) early(g driver.Grid) driver.Grid {
	g.Early = k.overlaps()
	return g
}

// ceil is a/b rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }

// vectorOf is how many elements of tensors a kernel may load at once, at most
// most: every row must begin at a multiple of that many and have a multiple.
func vectorOf(most int, ts ...*device.Tensor) int {
	v := most
	for _, t := range ts {
		b, err := bufferOf(t)
		if err != nil {
			return 1
		}
		last := t.Rank() - 1
		fits := func(n int) bool { return n%v == 0 }
		for {
			ok := uint64(address(b, t))%uint64(v*t.DType.Size()) == 0 && fits(t.Shape[last])
			for dim := range last {
				ok = ok && (t.Shape[dim] == 1 || fits(t.Stride[dim]))
			}
			if ok {
				break
			}
			v /= 2
		}
	}
	return v
}

func (k *kernels) close() error {
	errs := []error{k.products.close(), k.programs.close()}
	if k.bounds != nil {
		errs = append(errs, k.bounds.close())
	}
	for _, b := range k.tables {
		errs = append(errs, driver.Free(b.at))
	}
	return errors.Join(errs...)
}
