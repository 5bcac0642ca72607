package cuda

import "blitzen/device"

// NormLinear implements device.Kernels.
func (k *kernels) NormLinear(dst, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	if done, err := k.normInt8(oneRow{dst: dst, x: x, w: w, norm: n, h: h}); done || err != nil {
		return err
	}
	return device.NormLinearBySteps(k, dst, h, x, n, w)
}

// NormSwiGLU implements device.Kernels.
func (k *kernels) NormSwiGLU(dst, gateUp, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	if done, err := k.normInt8(oneRow{dst: dst, x: x, w: w, norm: n, h: h, gateUp: gateUp}); done || err != nil {
		return err
	}
	return device.NormSwiGLUBySteps(k, dst, gateUp, h, x, n, w)
}

// RotateAppend implements device.Kernels.
func (k *kernels) RotateAppend(a device.RotateAppendArgs) error {
	return device.RotateAppendBySteps(k, a)
}
