package host

import "blitzen/device"

// Fused operations are issued one by one: on the host a memory pass between them
// costs little.

// NormLinear implements device.Kernels.
func (k *hostKernels) NormLinear(dst, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	return device.NormLinearBySteps(k, dst, h, x, n, w)
}

// NormSwiGLU implements device.Kernels.
func (k *hostKernels) NormSwiGLU(dst, gateUp, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	return device.NormSwiGLUBySteps(k, dst, gateUp, h, x, n, w)
}

// RotateAppend implements device.Kernels.
func (k *hostKernels) RotateAppend(a device.RotateAppendArgs) error {
	return device.RotateAppendBySteps(k, a)
}

// MoE implements device.Kernels.
func (k *hostKernels) MoE(a device.MoEArgs) error { return device.MoEBySteps(k, a) }
