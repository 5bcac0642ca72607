package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// bounds judges every access of kernels to global memory against the tensors
// and the scratch memory of the operation under way. Kernels are compiled with
// checks (instrument.go), which say what lay outside (kernels/bounds.cuh).
type bounds struct {
	gpu    *gpu
	memory driver.Address // struct Bounds
	found  []byte         // page-locked: its head

	sent []byte // regions as they are on the GPU; nil where it holds something else

	trace     *device.Trace // of the pass under way
	operation int           // its number there
	known     []known
	shorten   string // tests: a tensor that seems to end one element early
}

// known is memory that the operation under way may touch.
type known struct {
	region
	runs    []region // the parts of it without gaps
	scratch bool
}

// region is memory with the name of what lies there.
type region struct {
	from, to uint64
	name     string
}

// As kernels/bounds.cuh has them, in bytes.
const (
	boundsKept    = 4                             // violations that are described
	violationSize = 8 * 4                         // of struct Violation
	boundsHead    = 16 + boundsKept*violationSize // up to sink
	boundsSink    = 256 << 10
)

const (
	mostRegions = 1 << 16
	mostRuns    = 1 << 10 // of a tensor; one with more is judged as a whole
)

func newBounds(d *gpu) (*bounds, error) {
	b := &bounds{gpu: d, trace: &device.Trace{}, operation: -1}
	var err error
	if b.found, err = driver.AllocHost(boundsHead); err != nil {
		return nil, err
	}
	b.memory, err = driver.Alloc(boundsHead + boundsSink + 16*mostRegions)
	return b, err
}

func (b *bounds) close() error {
	err := driver.FreeHost(b.found)
	if b.memory != 0 {
		if e := driver.Free(b.memory); err == nil {
			err = e
		}
	}
	return err
}

// begin starts a pass, whose operations trace counts.
func (b *bounds) begin(trace *device.Trace) *device.Trace {
	if trace == nil {
		trace = &device.Trace{}
	}
	b.trace, b.operation, b.known = trace, -1, nil
	return trace
}

// add has the operation under way know a piece of memory. The first one of an
// operation forgets those of the operation before.
func (b *bounds) add(k known) {
	if _, now := b.trace.Last(); now != b.operation {
		b.operation, b.known = now, nil
	}
	if k.to > k.from {
		b.known = append(b.known, k)
	}
}

// tensor adds a view.
func (b *bounds) tensor(t *device.Tensor, at uint64) {
	runs := runsOf(t, at)
	if len(runs) == 0 {
		return
	}
	if last := &runs[len(runs)-1]; b.shorten != "" && t.Name == b.shorten {
		last.to -= uint64(t.DType.Size())
	}
	b.add(known{region: region{at, runs[len(runs)-1].to, t.String()}, runs: runs})
}

// runsOf are the pieces of memory that a view's elements fill, rising.
func runsOf(t *device.Tensor, at uint64) []region {
	size, run, dims := uint64(t.DType.Size()), 1, t.Rank()
	for dims > 0 && (t.Shape[dims-1] == 1 || t.Stride[dims-1] == run) {
		dims--
		run *= t.Shape[dims]
	}
	if t.Len() == 0 {
		return nil
	}
	reach, count := run, 1
	for i := range dims {
		reach += (t.Shape[i] - 1) * t.Stride[i]
		count *= t.Shape[i]
	}
	name := t.String()
	if count > mostRuns {
		return []region{{at, at + uint64(reach)*size, name}}
	}
	runs := make([]region, 0, count)
	index := make([]int, dims)
	for range count {
		start := at
		for i := range index {
			start += uint64(index[i]*t.Stride[i]) * size
		}
		runs = append(runs, region{start, start + uint64(run)*size, name})
		for i := dims - 1; i >= 0; i-- {
			if index[i]++; index[i] < t.Shape[i] {
				break
			}
			index[i] = 0
		}
	}
	slices.SortFunc(runs, byStart)
	return runs
}

func byStart(a, b region) int {
	switch {
	case a.from < b.from:
		return -1
	case a.from > b.from:
		return 1
	}
	return 0
}

// scratch adds the parts of scratch memory, which end those taken before.
func (b *bounds) scratch(at []vec, sizes []int) {
	b.known = slices.DeleteFunc(b.known, func(k known) bool { return k.scratch })
	for i, n := range sizes {
		r := region{at[i], at[i] + uint64(n), fmt.Sprintf("scratch memory %d", i)}
		b.add(known{r, []region{r}, true})
	}
}

// table adds memory of the device's own.
func (b *bounds) table(at vec, size int) {
	r := region{at, at + uint64(size), "a table"}
	b.add(known{r, []region{r}, false})
}

// box judges what a tensor map lets the copy engine read or write: all of a
// tensor of BF16 of that shape.
func (b *bounds) box(at vec, shape, strides []int) error {
	reach := 1
	for i, n := range shape {
		reach += (n - 1) * strides[i]
	}
	to := at + 2*uint64(reach)
	for _, k := range b.known {
		if k.from <= at && to <= k.to {
			return nil
		}
	}
	return fmt.Errorf("out of bounds: a tensor map of %v elements, strides %v, %s", shape, strides, b.where(at, to-at))
}

// regions are what a kernel may touch, rising and apart from each other; own is
// memory of its program.
func (b *bounds) regions(own []region) []region {
	var all []region
	for _, k := range b.known {
		all = append(all, k.runs...)
	}
	all = append(all, own...)
	slices.SortFunc(all, byStart)
	apart := all[:0]
	for _, r := range all {
		if n := len(apart); n > 0 && r.from < apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, r.to)
			continue
		}
		apart = append(apart, r)
	}
	return apart
}

// watch launches a kernel and waits for what its checks found.
func (b *bounds) watch(m *module, launch func() error) error {
	allowed := b.regions(m.own)
	if len(allowed) > mostRegions {
		return fmt.Errorf("%d pieces of memory are more than the checks of addresses have room for", len(allowed))
	}
	if err := b.send(allowed); err != nil {
		return err
	}
	if err := launch(); err != nil {
		return err
	}
	if err := b.gpu.stream.Download(b.found, b.memory); err != nil {
		return err
	}
	if err := b.gpu.stream.Wait(); err != nil {
		return err
	}
	return b.verdict(m.sites)
}

// send has the GPU know the regions, and nothing found.
func (b *bounds) send(allowed []region) error {
	table := make([]byte, 0, 16*len(allowed))
	for _, r := range allowed {
		table = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(table, r.from), r.to)
	}
	if b.sent != nil && bytes.Equal(table, b.sent) {
		return nil
	}
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(allowed)))
	b.sent = table
	return errors.Join(b.gpu.sendAll(b.memory, head), b.gpu.sendAll(b.memory+boundsHead+boundsSink, table))
}

// verdict is what a kernel touched that it may not, or nil.
func (b *bounds) verdict(sites []string) error {
	n := binary.LittleEndian.Uint32(b.found[4:])
	if n == 0 {
		return nil
	}
	b.sent = nil // the next launch counts anew
	var s strings.Builder
	s.WriteString("out of bounds:")
	for i := range min(n, boundsKept) {
		v := b.found[16+violationSize*i:]
		word := func(i int) uint32 { return binary.LittleEndian.Uint32(v[4*i:]) }
		at, bytes, site := binary.LittleEndian.Uint64(v), word(2), "an unknown line"
		if k := int(word(3)); k < len(sites) {
			site = sites[k]
		}
		fmt.Fprintf(&s, "\n\t%s %s, block (%d, %d, %d), thread %d", site, b.where(at, uint64(bytes)), word(4), word(5), word(6), word(7))
	}
	if n > boundsKept {
		fmt.Fprintf(&s, "\n\tand %d more", n-boundsKept)
	}
	return errors.New(s.String())
}

// where says how an address lies to the nearest memory below it, or else above
// it.
func (b *bounds) where(at, bytes uint64) string {
	var before, behind region
	for _, k := range b.known {
		for _, r := range k.runs {
			switch {
			case r.from <= at && r.from >= before.from:
				before = r
			case r.from > at && (behind.to == 0 || r.from < behind.from):
				behind = r
			}
		}
	}
	place := fmt.Sprintf("at %#x", at)
	switch {
	case before.to > at:
		return fmt.Sprintf("%s, the last %d past the end of %s", place, at+bytes-before.to, before.name)
	case before.to > 0:
		return fmt.Sprintf("%s, %d past the end of %s", place, at-before.to, before.name)
	case behind.to > 0:
		return fmt.Sprintf("%s, %d before the start of %s", place, behind.from-at, behind.name)
	}
	return place + ", where the operation has no memory at all"
}
