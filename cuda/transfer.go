package cuda

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"unsafe"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// uploader copies host memory through page-locked segments: while one is on its
// way to the GPU the next is filled. Small copies share a segment, so that they
// wait for nothing.
type uploader struct {
	stream   driver.Stream
	segments []segment
	current  int
}

type segment struct {
	memory []byte
	used   int
	sent   driver.Event // passed when the GPU has read the segment
	busy   bool         // sent was recorded since the segment was last waited for
}

const (
	segmentSize = 4 << 20
	segmentsNum = 8
)

func newUploader(s driver.Stream) (*uploader, error) {
	u := &uploader{stream: s}
	for range segmentsNum {
		memory, err := driver.AllocHost(segmentSize)
		if err != nil {
			return u, err
		}
		event, err := driver.NewEvent(false)
		u.segments = append(u.segments, segment{memory: memory, sent: event})
		if err != nil {
			return u, err
		}
	}
	return u, nil
}

// send queues a copy of at most segmentSize bytes; src is free afterwards.
func (u *uploader) send(dst driver.Address, src []byte) error {
	s := &u.segments[u.current]
	if s.used+len(src) > segmentSize {
		if err := s.sent.Record(u.stream); err != nil {
			return err
		}
		s.busy = true
		u.current = (u.current + 1) % len(u.segments)
		s = &u.segments[u.current]
		if s.busy {
			if err := s.sent.Wait(); err != nil {
				return err
			}
		}
		s.used, s.busy = 0, false
	}
	stage := s.memory[s.used : s.used+len(src)]
	s.used += (len(src) + align - 1) / align * align
	copyParallel(stage, src)
	return u.stream.Upload(dst, stage)
}

// copyParallel is copy by several threads: one cannot fill a PCIe link, and
// where src is a mapped file they read ahead of each other.
func copyParallel(dst, src []byte) {
	const piece = 1 << 20
	var wg sync.WaitGroup
	for at := piece; at < len(src); at += piece {
		end := min(at+piece, len(src))
		wg.Go(func() { copy(dst[at:end], src[at:end]) })
	}
	copy(dst[:min(piece, len(src))], src)
	wg.Wait()
}

func (u *uploader) close() (err error) {
	for _, s := range u.segments {
		err = errors.Join(err, s.sent.Destroy(), driver.FreeHost(s.memory))
	}
	return err
}

// Upload implements device.Device.
func (d *gpu) Upload(t *device.Tensor, src []byte) error {
	leave, err := d.enter()
	if err != nil {
		return err
	}
	defer leave()
	at, b, err := d.span(t)
	switch {
	case err != nil:
		return fmt.Errorf("upload: %w", err)
	case b.readOnly:
		return fmt.Errorf("upload: %v is part of a checkpoint and cannot be written", t)
	case len(src) != t.Bytes():
		return fmt.Errorf("upload: %v has %d bytes, got %d", t, t.Bytes(), len(src))
	case d.recording != nil:
		return fmt.Errorf("upload: %v inside Record", t)
	}
	return d.keep(d.sendAll(at, src))
}

func (d *gpu) sendAll(at driver.Address, src []byte) error {
	for len(src) > 0 {
		n := min(len(src), segmentSize)
		if err := d.upload.send(at, src[:n]); err != nil {
			return err
		}
		at, src = at+driver.Address(n), src[n:]
	}
	return nil
}

// Import implements device.Device. Floats get the device's DType.
func (d *gpu) Import(name string, t device.DType, shape []int, mapped []byte) (*device.Tensor, error) {
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	size, err := device.SizeOf(name, t, shape)
	switch {
	case err != nil:
		return nil, err
	case size != len(mapped):
		return nil, fmt.Errorf("%s: %v%v needs %d bytes, the checkpoint has %d", name, t, shape, size, len(mapped))
	case d.recording != nil:
		return nil, fmt.Errorf("cuda: import %s inside Record", name)
	}
	as := t
	if t.Float() {
		as = d.opts.DType
	}
	b, err := d.cut(name, as, shape, size/t.Size()*as.Size())
	if err != nil {
		return nil, err
	}
	b.readOnly = true
	if as == t {
		err = d.sendAll(b.at, mapped)
	} else {
		err = d.sendConverted(b, as, t, mapped)
	}
	if err != nil {
		d.release(b)
		return nil, d.keep(fmt.Errorf("import %s: %w", name, err))
	}
	return device.NewTensor(name, as, b, shape...), nil
}

// sendConverted uploads in pieces, which the GPU converts.
func (d *gpu) sendConverted(b *buffer, as, t device.DType, src []byte) error {
	raw, err := d.scratch.take(segmentSize, false)
	if err != nil {
		return d.explain(err, segmentSize)
	}
	for done := 0; len(src) > 0; {
		n := min(len(src), segmentSize)
		if err := d.upload.send(raw.at, src[:n]); err != nil {
			return err
		}
		count := n / t.Size()
		from := device.NewTensor("piece", t, raw, count)
		into := device.NewTensor("piece", as, b, done+count).Slice(0, done, done+count)
		if err := d.kernels.Copy(into, from); err != nil {
			return err
		}
		done, src = done+count, src[n:]
	}
	return nil
}

// fetches lends page-locked memory to copies from the GPU.
type fetches struct {
	stream driver.Stream
	free   map[int][]*landing // by size, a power of two
	all    []*landing
}

type landing struct {
	memory []byte
	done   driver.Event
}

func newFetches(s driver.Stream) *fetches { return &fetches{stream: s, free: map[int][]*landing{}} }

func (f *fetches) take(n int) (*landing, error) {
	size := 1 << bits.Len(uint(max(n, align)-1))
	if spare := f.free[size]; len(spare) > 0 {
		f.free[size] = spare[:len(spare)-1]
		return spare[len(spare)-1], nil
	}
	memory, err := driver.AllocHost(size)
	if err != nil {
		return nil, err
	}
	l := &landing{memory: memory}
	f.all = append(f.all, l)
	l.done, err = driver.NewEvent(false)
	return l, err
}

func (f *fetches) give(l *landing) { f.free[len(l.memory)] = append(f.free[len(l.memory)], l) }

func (f *fetches) close() (err error) {
	for _, l := range f.all {
		err = errors.Join(err, l.done.Destroy(), driver.FreeHost(l.memory))
	}
	return err
}

// Fetch implements device.Device.
func (d *gpu) Fetch(t *device.Tensor) device.Pending {
	p := &pending{device: d}
	p.landing, p.err = d.fetch(t)
	if p.err == nil {
		p.size = t.Bytes()
	}
	return p
}

func (d *gpu) fetch(t *device.Tensor) (*landing, error) {
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	at, _, err := d.span(t)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	if d.recording != nil {
		return nil, fmt.Errorf("fetch: %v inside Record", t)
	}
	l, err := d.fetches.take(t.Bytes())
	switch n := t.Bytes(); {
	case err != nil:
	case d.kernels.fetches(at, n):
		err = d.kernels.fetch(l, at, n)
	default:
		err = d.stream.Download(l.memory[:n], at)
	}
	if err == nil {
		err = l.done.Record(d.stream)
	}
	if err != nil {
		return nil, d.keep(fmt.Errorf("fetch: %v: %w", t, err))
	}
	return l, nil
}

// fewBytes is how many a kernel writes to page-locked memory before the copy engine would.
const fewBytes = 4096

type fetchArgs struct {
	dst, src vec
	n, _     int32
}

// fetches reports whether fetch is for these bytes: few, whole words. It is not where
// addresses are checked, since one of its own is the host's, nor in a profile, where it
// would count as a kernel of the operation before.
func (k *kernels) fetches(at driver.Address, n int) bool {
	return n <= fewBytes && n%4 == 0 && at%4 == 0 && k.bounds == nil && k.profile == nil
}

// fetch queues the copy of bytes by a kernel.
func (k *kernels) fetch(l *landing, at driver.Address, n int) error {
	args := fetchArgs{dst: vec(uintptr(unsafe.Pointer(unsafe.SliceData(l.memory)))), src: vec(at), n: int32(n / 4)}
	return launch(k.call("fetch"), "fetch", k.early(blocks(1, threads)), 0, &args)
}

// pending is a copy on its way from the GPU.
type pending struct {
	device  *gpu
	landing *landing // nil once waited for
	size    int
	err     error
}

// Wait implements device.Pending.
func (p *pending) Wait(dst []byte) error {
	if p.err != nil {
		return p.err
	}
	if len(dst) != p.size {
		return fmt.Errorf("fetch: the tensor has %d bytes, the destination %d", p.size, len(dst))
	}
	leave, err := p.device.enter()
	if err != nil {
		return err
	}
	defer leave()
	if p.err = p.device.keep(p.landing.done.Wait()); p.err != nil {
		return p.err
	}
	copyParallel(dst, p.landing.memory[:p.size])
	p.device.fetches.give(p.landing)
	p.err = errors.New("fetch: a copy was waited for twice")
	return nil
}

// constant puts bytes into GPU memory of their own, also while a step is being
// recorded, when nothing may be queued on the device's stream.
func (d *gpu) constant(src []byte) (*buffer, error) {
	at, err := driver.Alloc(len(src))
	if err != nil {
		return nil, d.explain(err, len(src))
	}
	b := &buffer{at: at, size: len(src)}
	return b, errors.Join(d.sendAside(at, src))
}

func (d *gpu) sendAside(at driver.Address, src []byte) error {
	s, err := driver.NewStream()
	if err != nil {
		return err
	}
	stage, err := driver.AllocHost(len(src))
	if err != nil {
		return errors.Join(err, s.Destroy())
	}
	copy(stage, src)
	return errors.Join(s.Upload(at, stage), s.Wait(), driver.FreeHost(stage), s.Destroy())
}
