package cuda

import (
	"slices"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// boxes describes a BF16 or F16 tensor to the copy engine, which brings a box of it
// at a time. Its rows begin at multiples of 8 elements; the box is 64 wide. Of an F8
// tensor two elements go for one.
func (c *call) boxes(t *device.Tensor, box ...int) driver.TensorMap {
	strides, shape, pair := make([]int, len(box)), slices.Clone(t.Shape), 2/t.DType.Size()
	for i := range box {
		strides[i] = t.Stride[i] / pair
		if t.Shape[i] == 1 { // has a stride that nobody uses and that may be odd
			strides[i] = 8
		}
	}
	shape[len(shape)-1] /= pair
	return c.boxesAt(c.vec(t), shape, strides, box)
}

// boxesAt is boxes for memory that is no tensor.
func (c *call) boxesAt(at vec, shape, strides, box []int) (m driver.TensorMap) {
	for _, n := range shape {
		if n == 0 { // nothing to bring
			return m
		}
	}
	if c.err == nil && c.watched() {
		c.err = c.k.bounds.box(at, shape, strides)
	}
	if c.err == nil && c.k.plan == nil {
		m, c.err = driver.MapBF16(driver.Address(at), shape, strides, box)
	}
	return m
}
