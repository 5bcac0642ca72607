package devicetest

import (
	"slices"

	"blitzen/device"
)

// fusedMathMutants make one mistake in what an operation fuses, or leave one
// of its results out.
func fusedMathMutants() []mutant {
	var k kernels
	place := func(edit func(a *device.RotateAppendArgs)) func(c *changed) {
		return func(c *changed) {
			c.rotateAppend = func(a device.RotateAppendArgs) error {
				edit(&a)
				return k.RotateAppend(a)
			}
		}
	}
	layer := func(edit func(a *device.MoEArgs)) func(c *changed) {
		return func(c *changed) {
			c.moe = func(a device.MoEArgs) error {
				edit(&a)
				return k.MoE(a)
			}
		}
	}
	copyOf := func(t *tensor) *tensor { return edited(t, plus(0)) }
	return []mutant{
		{"NormLinear: no eps", func(c *changed) {
			c.normLinear = func(dst, h, x *tensor, n device.Norm, w device.Weight) error {
				return k.NormLinear(dst, h, x, device.Norm{Gamma: n.Gamma}, w)
			}
		}},
		{"NormLinear: h not stored", func(c *changed) {
			c.normLinear = func(dst, h, x *tensor, n device.Norm, w device.Weight) error {
				return k.NormLinear(dst, copyOf(h), x, n, w)
			}
		}},
		{"NormLinear: no norm", func(c *changed) {
			c.normLinear = func(dst, h, x *tensor, n device.Norm, w device.Weight) error {
				if err := k.NormLinear(dst, h, x, n, w); err != nil {
					return err
				}
				return k.Linear(dst, x, w, false)
			}
		}},
		{"NormSwiGLU: gate and up exchanged", func(c *changed) {
			c.normSwiGLU = func(dst, gateUp, h, x *tensor, n device.Norm, w device.Weight) error {
				if err := k.NormSwiGLU(dst, gateUp, h, x, n, w); err != nil {
					return err
				}
				width := dst.Shape[1]
				return k.SwiGLU(dst, edited(gateUp, func(i int, _ float64) float64 { return row(gateUp, i/(2*width))[(i+width)%(2*width)] }))
			}
		}},
		{"NormSwiGLU: gateUp not stored", func(c *changed) {
			c.normSwiGLU = func(dst, gateUp, h, x *tensor, n device.Norm, w device.Weight) error {
				return k.NormSwiGLU(dst, copyOf(gateUp), h, x, n, w)
			}
		}},
		{"RotateAppend: keys stored before they are rotated", func(c *changed) {
			c.rotateAppend = func(a device.RotateAppendArgs) error {
				before := copyOf(a.K)
				if err := k.RotateAppend(a); err != nil {
					return err
				}
				return k.Append(a.Keys, before, a.Pos, a.Slots)
			}
		}},
		{"RotateAppend: keys not rotated in place", place(func(a *device.RotateAppendArgs) { a.K = copyOf(a.K) })},
		{"RotateAppend: queries not rotated in place", place(func(a *device.RotateAppendArgs) { a.Q = copyOf(a.Q) })},
		{"RotateAppend: no norm", place(func(a *device.RotateAppendArgs) { a.Norm = device.Norm{} })},
		{"RotateAppend: no eps", place(func(a *device.RotateAppendArgs) { a.Norm.Eps = 0 })},
		{"RotateAppend: one pairing", place(func(a *device.RotateAppendArgs) { a.RoPE.Pairing = device.HalfSplit })},
		{"RotateAppend: slots ignored", place(func(a *device.RotateAppendArgs) { a.Slots = nil })},
		{"RotateAppend: turned left out", place(func(a *device.RotateAppendArgs) { a.Turned = nil })},
		{"RotateAppend: values left out", place(func(a *device.RotateAppendArgs) { a.V = nil })},
		{"RotateAppend: product left out", place(func(a *device.RotateAppendArgs) { a.Beside = nil })},
		{"Attend: product left out", func(c *changed) {
			c.attend = func(a device.AttendArgs) error {
				a.Then = nil
				return k.Attend(a)
			}
		}},
		{"Attend: product by one matrix for all heads", func(c *changed) {
			c.attend = func(a device.AttendArgs) error {
				if p := a.Then; p != nil {
					a.Then = &device.HeadProduct{Dst: p.Dst, X: p.X, W: p.W.Index(0, 0).Repeat(0, p.W.Shape[0])}
				}
				return k.Attend(a)
			}
		}},
		{"MoE: shared expert left out", layer(func(a *device.MoEArgs) { a.Shared = device.Expert{} })},
		{"MoE: no eps", layer(func(a *device.MoEArgs) { a.Norm.Eps = 0 })},
		{"MoE: no scale", layer(func(a *device.MoEArgs) { a.Router.Scale = 1 })},
		{"MoE: never normalized", layer(func(a *device.MoEArgs) { a.Router.Normalize = false })},
		{"MoE: always normalized", layer(func(a *device.MoEArgs) { a.Router.Normalize = true })},
		{"MoE: weights not stored", layer(func(a *device.MoEArgs) { a.Router.Weights = copyOf(a.Router.Weights) })},
		{"MoE: one expert less", layer(func(a *device.MoEArgs) {
			a.Experts = append(slices.Clone(a.Experts[:1]), a.Experts[:len(a.Experts)-1]...)
		})},
		{"MoE: x replaced", func(c *changed) {
			c.moe = func(a device.MoEArgs) error {
				before := copyOf(a.X)
				if err := k.MoE(a); err != nil {
					return err
				}
				return k.Copy(a.X, edited(a.X, func(i int, v float64) float64 { return v - row(before, 0)[i] }))
			}
		}},
	}
}
