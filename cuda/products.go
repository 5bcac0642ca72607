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

// product describes the types, alignment and workspace of dst = x·wᵀ; the
// caller adds sizes and strides. ok is false when cuBLASLt has no such types.
func (c *call) product(dst, x, w, bias *device.Tensor) (p driver.Product, ok bool) {
	p = driver.Product{
		TypeAB: blasTypes[w.DType], TypeD: blasTypes[dst.DType], Bias: bias != nil, Batch: 1,
		AlignA: pointerAlign(c.vec(w)), AlignB: pointerAlign(c.vec(x)), AlignD: pointerAlign(c.vec(dst)),
		Workspace: workspaceSize,
	}
	return p, x.DType == w.DType && w.DType.Float() && (bias == nil || bias.DType == dst.DType)
}

// multiply computes a product; done is false when cuBLASLt cannot.
func (c *call) multiply(p driver.Product, dst, x, w, bias *device.Tensor) (done bool, err error) {
	k := c.k
	if c.err != nil || k.products == nil { // tests without a GPU
		return false, c.err
	}
	plan, err := k.products.plan(p)
	if err != nil || plan == nil {
		return false, err
	}
	if c.idle() {
		return true, nil
	}
	err = k.profile.time(device.Launch{Kernel: "cuBLASLt"}, func() error {
		return k.gpu.stream.Multiply(k.products.handle, plan, driver.Address(c.vec(dst)), driver.Address(c.vec(x)), driver.Address(c.vec(w)),
			driver.Address(c.vec(bias)), driver.Address(k.products.workspace))
	})
	if err == nil && k.gpu.opts.Sync {
		err = k.gpu.stream.Wait()
	}
	return true, err
}
