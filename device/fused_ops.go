package device

// Operations that do what several do one after another, intermediate results
// included, so that a device may do them at once. What a device does not fuse
// it issues by the functions …BySteps.

// Norm is an RMS norm: x / √(mean(x²) + Eps) · Gamma.
type Norm struct {
	Gamma *Tensor // [n]
	Eps   float32
}

// NormLinear is RMSNorm, then Linear: h = norm(x), dst = h·wᵀ + bias. x, h
// [tokens, in]; dst [tokens, out]. h may be x.
func (o *Ops) NormLinear(dst, h, x *Tensor, n Norm, w Weight) {
	c := o.begin("NormLinear", n.Eps)
	out := c.dims("dst", dst, real, 2)[1]
	c.normed(dst, h, x, n, w, out)
	c.run(func(k Kernels) error { return k.NormLinear(dst, h, x, n, w) })
}

// NormSwiGLU is RMSNorm, Linear and SwiGLU, the first half of an MLP: h =
// norm(x), gateUp = h·wᵀ + bias = g‖u, dst = silu(g)·u. x, h [tokens, in]; dst
// [tokens, n]; gateUp [tokens, 2n].
func (o *Ops) NormSwiGLU(dst, gateUp, h, x *Tensor, n Norm, w Weight) {
	c := o.begin("NormSwiGLU", n.Eps)
	d := c.dims("dst", dst, real, 2)
	c.arg("gateUp", gateUp, real, d[0], 2*d[1])
	c.normed(dst, h, x, n, w, 2*d[1])
	c.run(func(k Kernels) error { return k.NormSwiGLU(dst, gateUp, h, x, n, w) })
}

// normed checks what a product with normalised rows takes.
func (c *call) normed(dst, h, x *Tensor, n Norm, w Weight, out int) {
	d := c.dims("x", x, real, 2)
	c.arg("h", h, real, d[0], d[1])
	c.arg("gamma", n.Gamma, real, d[1])
	c.arg("dst", dst, real, d[0], -1)
	c.weight(w, out, d[1])
}

// RotateAppend is what becomes of new queries, keys and values before
// attention: a norm of the keys' first columns, Rotate of the queries and of
// the keys' last columns, in place, and Append to the cache. Turned gets the
// queries too. A HeadLinear may be done besides.
func (o *Ops) RotateAppend(a RotateAppendArgs) {
	c := o.begin("RotateAppend", a.RoPE.Scale, a.RoPE.Pairing, a.Norm.Eps)
	q := c.dims("q", a.Q, real, 3)
	k := c.dims("k", a.K, real, 3)
	c.arg("k", a.K, real, q[0], -1, -1)
	c.require(q[2]%2 == 0 && q[2] <= k[2], "queries are rotated over %d numbers, keys have %d", q[2], k[2])
	c.optional("turned", a.Turned, real, q...)
	c.arg("pos", a.Pos, i32, q[0])
	c.arg("invFreq", a.RoPE.InvFreq, f32, q[2]/2)
	c.optional("gamma", a.Norm.Gamma, real, k[2]-q[2])
	c.arg("keys", a.Keys, real, k[1], -1, k[2])
	c.optional("v", a.V, real, q[0], k[1], -1)
	if a.V != nil && c.err == nil {
		c.arg("values", a.Values, real, k[1], a.Keys.Shape[1], a.V.Shape[2])
	}
	c.optional("slots", a.Slots, i32, k[1], -1)
	if b := a.Beside; b != nil {
		c.scalars = append(c.scalars, b.Transpose)
		c.headLinear(b.Dst, b.X, b.W, b.Transpose)
	}
	c.run(func(k Kernels) error { return k.RotateAppend(a) })
}

// MoE is the second half of a decoder layer with experts: h = norm(X), Router
// chooses by h, X += shared(h) + Σⱼ weights[t, j]·expert(ids[t, j])(h). h may be
// rounded or not.
func (o *Ops) MoE(a MoEArgs) {
	r := a.Router
	c := o.begin("MoE", a.Norm.Eps, r.Groups, r.TopGroups, r.Normalize, r.Scale)
	d := c.dims("x", a.X, real, 2)
	c.arg("h", r.X, real, d[0], d[1])
	c.arg("gamma", a.Norm.Gamma, real, d[1])
	k := c.router(r, d)
	c.experts(a.Experts, d, k)
	c.require(c.err != nil || r.Gate.Shape[0] == len(a.Experts), "the gate is %v for %d experts", r.Gate, len(a.Experts))
	if len(a.Shared.GateUp.Parts) > 0 {
		width := a.Shared.GateUp.Out() / 2
		c.arg("gateUp", a.GateUp, real, d[0], 2*width)
		c.arg("inner", a.Inner, real, d[0], width)
		c.weight(a.Shared.GateUp, 2*width, d[1])
		c.weight(a.Shared.Down, d[1], width)
	}
	c.run(func(k Kernels) error { return k.MoE(a) })
}

// NormLinearBySteps is NormLinear by the operations that it fuses.
func NormLinearBySteps(k Kernels, dst, h, x *Tensor, n Norm, w Weight) error {
	if err := k.RMSNorm(h, x, n.Gamma, n.Eps); err != nil {
		return err
	}
	return k.Linear(dst, h, w, false)
}

// NormSwiGLUBySteps is NormSwiGLU by the operations that it fuses.
func NormSwiGLUBySteps(k Kernels, dst, gateUp, h, x *Tensor, n Norm, w Weight) error {
	if err := NormLinearBySteps(k, gateUp, h, x, n, w); err != nil {
		return err
	}
	return k.SwiGLU(dst, gateUp)
}

// RotateAppendBySteps is RotateAppend by the operations that it fuses.
func RotateAppendBySteps(k Kernels, a RotateAppendArgs) error {
	d := a.K.Shape[2]
	first := d - a.Q.Shape[2]
	for h := range a.K.Shape[1] {
		if a.Norm.Gamma == nil {
			break
		}
		part := a.K.Index(1, h).Slice(1, 0, first)
		if err := k.RMSNorm(part, part, a.Norm.Gamma, a.Norm.Eps); err != nil {
			return err
		}
	}
	for _, x := range []*Tensor{a.Q, a.K.Slice(2, first, d)} {
		if err := k.Rotate(x, a.Pos, a.RoPE); err != nil {
			return err
		}
	}
	if a.Turned != nil {
		if err := k.Copy(a.Turned, a.Q); err != nil {
			return err
		}
	}
	if err := k.Append(a.Keys, a.K, a.Pos, a.Slots); err != nil {
		return err
	}
	if a.V != nil {
		if err := k.Append(a.Values, a.V, a.Pos, a.Slots); err != nil {
			return err
		}
	}
	if b := a.Beside; b != nil {
		return k.HeadLinear(b.Dst, b.X, b.W, b.Transpose)
	}
	return nil
}

// AttendBySteps is Attend, whose product follows, by the operations that it fuses.
func AttendBySteps(k Kernels, a AttendArgs) error {
	p := a.Then
	a.Then = nil
	if err := k.Attend(a); err != nil {
		return err
	}
	return k.HeadLinear(p.Dst, p.X, p.W, p.Transpose)
}

// MoEBySteps is MoE by the operations that it fuses.
func MoEBySteps(k Kernels, a MoEArgs) error {
	r := a.Router
	shared := len(a.Shared.GateUp.Parts) > 0
	if shared {
		if err := k.NormSwiGLU(a.Inner, a.GateUp, r.X, a.X, a.Norm, a.Shared.GateUp); err != nil {
			return err
		}
	} else if err := k.RMSNorm(r.X, a.X, a.Norm.Gamma, a.Norm.Eps); err != nil {
		return err
	}
	if err := k.Router(r); err != nil {
		return err
	}
	if shared {
		if err := k.Linear(a.X, a.Inner, a.Shared.Down, true); err != nil {
			return err
		}
	}
	return k.Experts(ExpertsArgs{Dst: a.X, X: r.X, IDs: r.IDs, Weights: r.Weights, Experts: a.Experts})
}
