package devicetest

import "blitzen/device"

// Fused operations are the chains of those that they fuse; what passes between
// them is rounded to F32.

func (k kernels) NormLinear(dst, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	return device.NormLinearBySteps(k, dst, h, x, n, w)
}

func (k kernels) NormSwiGLU(dst, gateUp, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	return device.NormSwiGLUBySteps(k, dst, gateUp, h, x, n, w)
}

func (k kernels) RotateAppend(a device.RotateAppendArgs) error {
	return device.RotateAppendBySteps(k, a)
}

func (k kernels) MoE(a device.MoEArgs) error { return device.MoEBySteps(k, a) }
