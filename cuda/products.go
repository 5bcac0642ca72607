package cuda

import (
	"errors"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// products multiplies many rows by a matrix through cuBLASLt, with one plan a
// shape.
type products struct {
	handle    driver.BLASHandle
	stream    driver.Stream
	plans     map[driver.Product]*driver.Plan // nil: cuBLASLt has none
	workspace driver.Address
}

// workspaceSize is what cuBLASLt's Hopper kernels ask for.
const workspaceSize = 32 << 20

func newProducts(s driver.Stream) (*products, error) {
	h, err := driver.NewBLAS()
	if err != nil {
		return nil, err
	}
	p := &products{handle: h, stream: s, plans: map[driver.Product]*driver.Plan{}}
	if p.workspace, err = driver.Alloc(workspaceSize); err != nil {
		return nil, errors.Join(err, h.Destroy())
	}
	return p, nil
}

// plan is how to compute a product; nil when cuBLASLt cannot.
func (p *products) plan(shape driver.Product) (*driver.Plan, error) {
	plan, ok := p.plans[shape]
	if ok {
		return plan, nil
	}
	plan, err := p.handle.Plan(shape)
	if err != nil && !errors.Is(err, driver.ErrNoPlan) {
		return nil, err
	}
	p.plans[shape] = plan
	return plan, nil
}

func (p *products) close() (err error) {
	for _, plan := range p.plans {
		if plan != nil {
			plan.Destroy()
		}
	}
	return errors.Join(p.handle.Destroy(), driver.Free(p.workspace))
}

var blasTypes = map[device.DType]int{device.F32: driver.BlasF32, device.BF16: driver.BlasBF16}

// pointerAlign is the largest power of two up to align that divides at.
func pointerAlign(at vec) int {
	a := align
	for at%uint64(a) != 0 {
		a /= 2
	}
	return a
}

// multiply computes dst (+)= x·wᵀ + bias for one part of a weight; done is false
// when cuBLASLt cannot.
func (c *call) multiply(dst, x, w, bias *device.Tensor, add bool) (done bool, err error) {
	k := c.k
	if c.err != nil || k.plan != nil {
		return false, c.err
	}
	if x.DType != w.DType || bias != nil && bias.DType != dst.DType {
		return false, nil
	}
	at, from, weight := c.vec(dst), c.vec(x), c.vec(w)
	shape := driver.Product{
		Rows: x.Shape[0], Outs: w.Shape[0], Inner: w.Shape[1],
		LDA: w.Stride[0], LDB: x.Stride[0], LDD: dst.Stride[0],
		TypeAB: blasTypes[w.DType], TypeD: blasTypes[dst.DType],
		Batch: 1, Bias: bias != nil,
		AlignA: pointerAlign(weight), AlignB: pointerAlign(from), AlignD: pointerAlign(at),
		Workspace: workspaceSize,
	}
	plan, err := k.products.plan(shape)
	if err != nil || plan == nil {
		return false, err
	}
	if k.rehearsal {
		return true, nil
	}
	err = k.gpu.stream.Multiply(k.products.handle, plan, driver.Address(at), driver.Address(from), driver.Address(weight),
		driver.Address(c.vec(bias)), add, driver.Address(k.products.workspace))
	if err == nil && k.gpu.opts.Sync {
		err = k.gpu.stream.Wait()
	}
	return true, err
}
