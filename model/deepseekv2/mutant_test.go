package deepseekv2_test

import (
	"cmp"
	"math"
	"slices"

	"blitzen/device"
)

// mutant is a device whose operations go through change on their way to
// another device.
type mutant struct {
	device.Device
	change func(faithful) device.Kernels // nil for none
}

func (d mutant) Run(fn func(*device.Ops)) error {
	return d.Device.Run(func(inner *device.Ops) {
		pass := faithful{dev: d.Device, ops: inner}
		outer := device.NewOps(steps{pass}, nil)
		if d.change != nil {
			outer = device.NewOps(steps{d.change(pass)}, nil)
		}
		fn(outer)
		inner.Fail(outer.Err())
	})
}

// steps issues the half of a layer that has experts by the operations in it.
type steps struct{ device.Kernels }

func (k steps) MoE(a device.MoEArgs) error { return device.MoEBySteps(k.Kernels, a) }

// faithful passes on the operations that the model uses.
type faithful struct {
	device.Kernels // nil: the others are not called
	dev            device.Device
	ops            *device.Ops
}

func (k faithful) Embed(dst, table, ids *device.Tensor) error {
	k.ops.Embed(dst, table, ids)
	return k.ops.Err()
}

func (k faithful) RMSNorm(dst, x, gamma *device.Tensor, eps float32) error {
	k.ops.RMSNorm(dst, x, gamma, eps)
	return k.ops.Err()
}

func (k faithful) Linear(dst, x *device.Tensor, w device.Weight, add bool) error {
	if add {
		k.ops.LinearAdd(dst, x, w)
	} else {
		k.ops.Linear(dst, x, w)
	}
	return k.ops.Err()
}

func (k faithful) NormLinear(dst, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	k.ops.NormLinear(dst, h, x, n, w)
	return k.ops.Err()
}

func (k faithful) NormSwiGLU(dst, gateUp, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	k.ops.NormSwiGLU(dst, gateUp, h, x, n, w)
	return k.ops.Err()
}

func (k faithful) RotateAppend(a device.RotateAppendArgs) error {
	k.ops.RotateAppend(a)
	return k.ops.Err()
}

func (k faithful) HeadLinear(dst, x, w *device.Tensor, transpose bool) error {
	k.ops.HeadLinear(dst, x, w, transpose)
	return k.ops.Err()
}

func (k faithful) Router(a device.RouterArgs) error {
	k.ops.Router(a)
	return k.ops.Err()
}

func (k faithful) Experts(a device.ExpertsArgs) error {
	k.ops.Experts(a)
	return k.ops.Err()
}

func (k faithful) Copy(dst, src *device.Tensor) error {
	k.ops.Copy(dst, src)
	return k.ops.Err()
}

func (k faithful) Attend(a device.AttendArgs) error {
	k.ops.Attend(a)
	return k.ops.Err()
}

// halves rotates the pairs (i, i + d/2).
type halves struct{ faithful }

func onHalves(k faithful) device.Kernels { return halves{k} }

func (k halves) RotateAppend(a device.RotateAppendArgs) error {
	a.RoPE.Pairing = device.HalfSplit
	return k.faithful.RotateAppend(a)
}

// rawLatent leaves the latent as kv_a_proj gives it.
type rawLatent struct{ faithful }

func withRawLatent(k faithful) device.Kernels { return rawLatent{k} }

func (k rawLatent) RotateAppend(a device.RotateAppendArgs) error {
	a.Norm = device.Norm{}
	return k.faithful.RotateAppend(a)
}

// oneEps uses dsv2_group's rms_norm_eps for the norms of query and latent too.
type oneEps struct{ faithful }

func withOneEps(k faithful) device.Kernels { return oneEps{k} }

func (k oneEps) NormLinear(dst, h, x *device.Tensor, n device.Norm, w device.Weight) error {
	n.Eps = 1e-3
	return k.faithful.NormLinear(dst, h, x, n, w)
}

func (k oneEps) RotateAppend(a device.RotateAppendArgs) error {
	a.Norm.Eps = 1e-3
	return k.faithful.RotateAppend(a)
}

// scaledAfter applies routed_scaling_factor to normalised weights as well.
type scaledAfter struct{ faithful }

func withScaleAfter(k faithful) device.Kernels { return scaledAfter{k} }

func (k scaledAfter) Router(a device.RouterArgs) error {
	if err := k.faithful.Router(a); err != nil {
		return err
	}
	w, err := device.Read[float32](k.dev, a.Weights)
	if err != nil {
		return err
	}
	for i := range w {
		w[i] *= a.Scale
	}
	return device.Write(k.dev, a.Weights, w)
}

// sigmoid scores experts as DeepSeek-V3 does.
type sigmoid struct{ faithful }

func withSigmoid(k faithful) device.Kernels { return sigmoid{k} }

func (k sigmoid) Router(a device.RouterArgs) error {
	x, err := device.Read[float32](k.dev, a.X)
	if err != nil {
		return err
	}
	gate, err := device.Read[float32](k.dev, a.Gate)
	if err != nil {
		return err
	}
	var ids []int32
	var weights []float32
	hidden, experts, top := a.X.Shape[1], a.Gate.Shape[0], a.IDs.Shape[1]
	for t := range a.X.Shape[0] {
		scores, order := make([]float64, experts), make([]int32, experts)
		for e := range scores {
			z := 0.0
			for i := range hidden {
				z += float64(x[t*hidden+i]) * float64(gate[e*hidden+i])
			}
			scores[e], order[e] = 1/(1+math.Exp(-z)), int32(e)
		}
		slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
		sum := 0.0
		for _, e := range order[:top] {
			sum += scores[e]
		}
		for _, e := range order[:top] {
			ids = append(ids, e)
			weights = append(weights, float32(scores[e]/sum*float64(a.Scale)))
		}
	}
	if err := device.Write(k.dev, a.IDs, ids); err != nil {
		return err
	}
	return device.Write(k.dev, a.Weights, weights)
}
