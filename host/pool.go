package host

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"blitzen/host/kernels"
)

// pool runs independent pieces of work on a number of threads and lends each a
// scratch memory that is kept between operations, so that a step that has run
// once needs no new memory. Which thread does which piece never changes a
// result.
type pool struct {
	threads int
	scratch []scratch // one a thread
	shared  scratch   // of the operation as a whole
}

type scratch struct {
	mem, base unsafe.Pointer
	size      int
}

func newPool(threads int) *pool { return &pool{threads: threads, scratch: make([]scratch, threads)} }

// run calls fn(thread, i) for every i below n and returns when all are done.
func (p *pool) run(n int, fn func(thread, i int)) {
	threads := min(p.threads, n)
	if threads <= 1 {
		for i := range n {
			fn(0, i)
		}
		return
	}
	var next atomic.Int64
	work := func(thread int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			fn(thread, i)
		}
	}
	var others sync.WaitGroup
	for thread := 1; thread < threads; thread++ {
		others.Go(func() { work(thread) })
	}
	work(0)
	others.Wait()
}

// bytes returns at least n bytes of uninitialised memory, the same as last time
// where that suffices; nil when there is none.
func (s *scratch) bytes(n int) unsafe.Pointer {
	if n > s.size {
		s.free()
		if s.mem, s.base = kernels.Alloc(n); s.mem != nil {
			s.size = n
		}
	}
	return s.mem
}

func (s *scratch) free() {
	kernels.Release(s.base)
	*s = scratch{}
}

func (p *pool) close() {
	for i := range p.scratch {
		p.scratch[i].free()
	}
	p.shared.free()
}

// floats returns at least n floats of uninitialised memory.
func (s *scratch) floats(n int) (*float32, error) {
	p := s.bytes(4 * max(n, 1))
	if p == nil {
		return nil, fmt.Errorf("no memory for %d bytes of scratch", 4*n)
	}
	return (*float32)(p), nil
}

// floats is the scratch of a thread, as large as it was last lent.
func (p *pool) floats(thread int) *float32 { return (*float32)(p.scratch[thread].mem) }

// doubles is the same memory.
func (p *pool) doubles(thread int) *float64 { return (*float64)(p.scratch[thread].mem) }

// lend makes every thread's scratch at least n floats.
func (p *pool) lend(n int) error {
	for i := range p.scratch {
		if _, err := p.scratch[i].floats(n); err != nil {
			return err
		}
	}
	return nil
}

// firstError keeps the first error that concurrent work reports.
type firstError struct {
	once sync.Once
	err  error
}

func (e *firstError) set(err error) {
	if err != nil {
		e.once.Do(func() { e.err = err })
	}
}
