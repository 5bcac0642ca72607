package devicetest

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"blitzen/device"
)

// bench runs a case on one device. A case makes its tensors, runs operations
// once and says what to compare. It is called once for every device and
// layout, with the same random numbers. Every tensor lies inside a larger one
// full of NaN (integers: nonsense), and whatever the case does not compare must
// be unchanged afterwards. The first error sticks.
type bench struct {
	dev    device.Device
	types  types
	judge  bool // floats are F32 whatever the device under test stores
	layout layout
	replay bool // record, then run; else run at once
	rng    *rand.Rand

	held    []*held
	weights []*device.Tensor
	results []result
	err     error
}

// types are the float types of the device under test.
type types struct {
	act      device.DType                  // activations and cache rows
	imported map[device.DType]device.DType // what a checkpoint's type becomes
}

// held is a tensor with what surrounds it.
type held struct {
	base, view *device.Tensor
	initial    []byte // contents of base
	final      []byte // after the run
}

// result is what a case wants compared: the elements of some tensors, as they
// are or as derive puts them.
type result struct {
	name   string
	from   []*held
	derive func(elements [][]float64) []float64 // nil: of the only tensor
	tol    tolerance
	skip   []bool
	values []float64
}

func newBench(name string, d device.Device, ty types, l layout) *bench {
	h := fnv.New64a()
	h.Write([]byte(name))
	return &bench{dev: d, types: ty, layout: l, rng: rand.New(rand.NewPCG(h.Sum64(), 1))}
}

// act is the type of activations.
func (b *bench) act() device.DType { return b.types.act }

// normal draws n standard normal numbers times scale that every float type of
// the bench can hold.
func (b *bench) normal(n int, scale float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = b.rng.NormFloat64() * scale
	}
	return rounded(b.types.act, v)
}

// rounded is what a type keeps of values.
func rounded(t device.DType, values []float64) []float64 { return Decode(t, Encode(t, values)) }

// weight imports a checkpoint's tensor.
func (b *bench) weight(name string, checkpoint device.DType, values []float64, shape ...int) *device.Tensor {
	if b.judge {
		values, checkpoint = b.kept(checkpoint, values), device.F32
	}
	t, err := b.dev.Import(name, checkpoint, shape, Encode(checkpoint, values))
	if err != nil {
		b.fail(err)
		return device.NewTensor(name, device.Invalid, nil, shape...)
	}
	b.weights = append(b.weights, t)
	return t
}

// matrix imports a checkpoint's matrix as signed bytes, or as weight does.
func (b *bench) matrix(int8 bool, name string, checkpoint device.DType, values []float64, rows, n int) *device.Tensor {
	if !int8 {
		return b.weight(name, checkpoint, values, rows, n)
	}
	t, err := b.dev.ImportInt8(name, checkpoint, []int{rows, n}, Encode(checkpoint, values))
	if err != nil {
		b.fail(err)
		return device.NewTensor(name, device.Invalid, nil, rows, n)
	}
	b.weights = append(b.weights, t)
	return t
}

// kept is what the device under test keeps of a checkpoint's values.
func (b *bench) kept(checkpoint device.DType, values []float64) []float64 {
	return rounded(b.types.imported[checkpoint], rounded(checkpoint, values))
}

// tensor makes a tensor of the given contents.
func (b *bench) tensor(name string, t device.DType, values []float64, shape ...int) *device.Tensor {
	if b.judge && t.Float() {
		values, t = rounded(t, values), device.F32
	}
	return b.exactly(name, t, values, shape...)
}

// exactly is tensor in the given type on the judge, too.
func (b *bench) exactly(name string, t device.DType, values []float64, shape ...int) *device.Tensor {
	h := &held{}
	size, cut := b.layout.around(shape)
	base, err := b.dev.New(name, t, size...)
	if err != nil {
		b.fail(err)
		return device.NewTensor(name, device.Invalid, nil, shape...)
	}
	h.base, h.view = base, cut(base)
	guards := make([]float64, base.Len())
	for i := range guards {
		guards[i] = guard(t)
	}
	h.initial = Encode(t, guards)
	put(h.initial, h.view, Encode(t, values))
	b.held = append(b.held, h)
	return h.view
}

// ints makes an I32 tensor.
func (b *bench) ints(name string, values []int, shape ...int) *device.Tensor {
	return b.tensor(name, device.I32, floats(values), shape...)
}

func floats(values []int) []float64 {
	v := make([]float64, len(values))
	for i := range v {
		v[i] = float64(values[i])
	}
	return v
}

// blank makes a destination: its contents are nonsense before the run.
func (b *bench) blank(name string, t device.DType, shape ...int) *device.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	values := make([]float64, n)
	for i := range values {
		values[i] = guard(t)
	}
	return b.tensor(name, t, values, shape...)
}

// guard is the element that nobody may read or overwrite.
func guard(t device.DType) float64 {
	if t.Float() {
		return math.NaN()
	}
	return 0x7FBADBAD
}

// want says that a tensor is a result.
func (b *bench) want(name string, t *device.Tensor, tol tolerance) {
	b.wantBut(name, t, tol, nil)
}

// wantBut is want for the elements where skip is not set; the judge's marks
// count.
func (b *bench) wantBut(name string, t *device.Tensor, tol tolerance, skip []bool) {
	b.wantDerived(result{name: name, tol: tol, skip: skip}, t)
}

// wantDerived is for results that are compared in another form.
func (b *bench) wantDerived(r result, from ...*device.Tensor) {
	for _, t := range from {
		for _, h := range b.held {
			if h.view == t {
				r.from = append(r.from, h)
			}
		}
	}
	b.results = append(b.results, r)
}

func (b *bench) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// run executes the case's operations, checks what must not change and keeps
// the results.
func (b *bench) run(fn func(o *device.Ops)) {
	if b.err != nil {
		return
	}
	if b.replay {
		b.fail(b.runRecorded(fn))
	} else {
		b.upload()
		b.fail(b.dev.Run(fn))
		b.fetch()
	}
	for _, h := range b.held {
		if b.err == nil {
			b.fail(b.unchanged(h))
		}
	}
	if b.err == nil {
		b.collect()
	}
}

// runRecorded records while the tensors are still zero, so that a step that
// remembers contents fails, and replays twice from the same contents.
func (b *bench) runRecorded(fn func(o *device.Ops)) error {
	step, err := b.dev.Record(fn)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	var first [][]byte
	for range 2 {
		b.upload()
		if err := step.Run(); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		b.fetch()
		for i, h := range b.held {
			if len(first) == len(b.held) && !bytes.Equal(first[i], h.final) {
				return fmt.Errorf("two replays from the same contents gave different bits in %v", h.view)
			}
		}
		first = nil
		for _, h := range b.held {
			first = append(first, h.final)
		}
	}
	return step.Close()
}

func (b *bench) upload() {
	for _, h := range b.held {
		b.fail(b.dev.Upload(h.base, h.initial))
	}
}

func (b *bench) fetch() {
	for _, h := range b.held {
		h.final = make([]byte, h.base.Bytes())
		b.fail(b.dev.Fetch(h.base).Wait(h.final))
	}
}

// unchanged compares everything but results with the contents before the run.
func (b *bench) unchanged(h *held) error {
	want := bytes.Clone(h.initial)
	for _, r := range b.results {
		for _, f := range r.from {
			if f == h {
				put(want, h.view, pick(h.final, h.view))
			}
		}
	}
	size := h.base.DType.Size()
	for i := range want {
		if want[i] != h.final[i] {
			e := i / size
			return fmt.Errorf("element %d of the memory around %v was overwritten: %v, was %v", e, h.view,
				Decode(h.base.DType, h.final[e*size:][:size])[0], Decode(h.base.DType, want[e*size:][:size])[0])
		}
	}
	return nil
}

func (b *bench) collect() {
	for i := range b.results {
		r := &b.results[i]
		var elements [][]float64
		for _, h := range r.from {
			elements = append(elements, Decode(h.view.DType, pick(h.final, h.view)))
		}
		if r.derive != nil {
			r.values = r.derive(elements)
		} else {
			r.values = elements[0]
		}
	}
}

// close frees the case's tensors.
func (b *bench) close() {
	for _, h := range b.held {
		b.dev.Free(h.base)
	}
	for _, w := range b.weights {
		b.dev.Free(w)
	}
}
