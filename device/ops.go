package device

// Ops are the operations of a forward pass, the same on every device. Each
// method checks types and shapes and then runs the device's kernel. The first
// error sticks: later operations do nothing and Device.Run returns it.
//
// Float tensors are F32 or BF16 as the device stores activations and weights;
// those of Copy and of attention (Attend, Merge, Route, AttendSelected,
// AttendTeams) may be F16, whatever the device stores. The weights of products
// may be I8 with scales, and then stand for the real numbers scale·byte, which a
// device may round to the type of x. All sums are in float32 or better. Tensors
// may be strided between rows; an operation's outputs must not overlap its inputs
// unless it says so.
type Ops struct {
	kernels Kernels
	trace   *Trace
	tap     func(name string, t *Tensor)
	err     error
}

// NewOps wraps a device's kernels for one Run. trace may be nil. With nil
// kernels operations are checked and traced, not executed.
func NewOps(k Kernels, trace *Trace) *Ops { return &Ops{kernels: k, trace: trace} }

// Check calls fn with operations that are checked and not executed, and returns
// the first error.
func Check(fn func(*Ops)) error {
	ops := NewOps(nil, nil)
	fn(ops)
	return ops.Err()
}

// Err returns the first error so far.
func (o *Ops) Err() error { return o.err }

// Fail makes err the sticky error if there is none yet: for checks that models
// and attention make themselves.
func (o *Ops) Fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// OnTap has fn called with the tensors that models name through Tap. Not for
// recorded steps.
func (o *Ops) OnTap(fn func(name string, t *Tensor)) { o.tap = fn }

// Tap offers an intermediate result to whoever asked by OnTap; its contents
// are valid until the next operation.
func (o *Ops) Tap(name string, t *Tensor) {
	if o.tap != nil && o.err == nil {
		o.tap(name, t)
	}
}

// Embed writes dst[t] = table[ids[t]]. dst [tokens, hidden]; table [vocab,
// hidden]; ids I32 [tokens]. An id outside the table is an error on the host
// and row 0 on a GPU; callers check ids before they upload them.
func (o *Ops) Embed(dst, table, ids *Tensor) {
	c := o.begin("Embed")
	d := c.dims("dst", dst, real, 2)
	c.reads(d[0], c.dims("table", table, real, 2)[0])
	c.arg("table", table, real, -1, d[1])
	c.arg("ids", ids, i32, d[0])
	c.run(func(k Kernels) error { return k.Embed(dst, table, ids) })
}

// RMSNorm writes dst[t] = x[t] / √(mean(x[t]²) + eps) · gamma. dst, x [tokens,
// n]; gamma [n]. dst may be x.
func (o *Ops) RMSNorm(dst, x, gamma *Tensor, eps float32) {
	c := o.begin("RMSNorm", eps)
	d := c.dims("x", x, real, 2)
	c.arg("dst", dst, real, d[0], d[1])
	c.arg("gamma", gamma, real, d[1])
	c.run(func(k Kernels) error { return k.RMSNorm(dst, x, gamma, eps) })
}

// Linear writes dst[t, o] = Σᵢ x[t, i]·w[o, i] + bias[o]. x [tokens, in]; dst
// [tokens, out], the parts' outputs side by side.
func (o *Ops) Linear(dst, x *Tensor, w Weight) { o.linear("Linear", dst, x, w, false) }

// LinearAdd is Linear added to what dst holds: a residual stream.
func (o *Ops) LinearAdd(dst, x *Tensor, w Weight) { o.linear("LinearAdd", dst, x, w, true) }

func (o *Ops) linear(name string, dst, x *Tensor, w Weight, add bool) {
	c := o.begin(name)
	d := c.dims("x", x, real, 2)
	out := c.dims("dst", dst, real, 2)[1]
	c.arg("dst", dst, real, d[0], -1)
	c.weight(w, out, d[1])
	c.run(func(k Kernels) error { return k.Linear(dst, x, w, add) })
}

// HeadLinear multiplies every head by its own matrix: dst[t, h, o] = Σᵢ
// x[t, h, i]·w[h, o, i], with transpose w[h, i, o]. x [tokens, heads, in]; dst
// [tokens, heads, out]; w [heads, out, in] or [heads, in, out].
func (o *Ops) HeadLinear(dst, x, w *Tensor, transpose bool) {
	c := o.begin("HeadLinear", transpose)
	c.headLinear(dst, x, w, transpose)
	c.run(func(k Kernels) error { return k.HeadLinear(dst, x, w, transpose) })
}

// headLinear checks the arguments of HeadLinear.
func (c *call) headLinear(dst, x, w *Tensor, transpose bool) {
	d := c.dims("x", x, real, 3)
	out := c.dims("dst", dst, real, 3)[2]
	c.arg("dst", dst, real, d[0], d[1], -1)
	if transpose {
		c.arg("w", w, stored, d[1], d[2], out)
	} else {
		c.arg("w", w, stored, d[1], out, d[2])
	}
}

// Rotate applies a rotary position encoding in place: the pair (a, b) of
// coordinate i at position p becomes s·(a·cos − b·sin, b·cos + a·sin) at the
// angle p·invFreq[i], s = r.Scale. x [tokens, heads, d]; pos I32 [tokens]. The
// angle is a float32 product, as transformers computes it.
func (o *Ops) Rotate(x, pos *Tensor, r RoPE) {
	c := o.begin("Rotate", r.Scale, r.Pairing)
	d := c.dims("x", x, real, 3)
	c.arg("pos", pos, i32, d[0])
	c.require(d[2]%2 == 0, "x is %v: the last dimension must be even", x)
	c.arg("invFreq", r.InvFreq, f32, d[2]/2)
	c.run(func(k Kernels) error { return k.Rotate(x, pos, r) })
}

// SwiGLU writes dst[t, i] = silu(g[t, i])·u[t, i]. gateUp [tokens, 2n] holds
// g‖u; dst [tokens, n].
func (o *Ops) SwiGLU(dst, gateUp *Tensor) {
	c := o.begin("SwiGLU")
	d := c.dims("dst", dst, real, 2)
	c.arg("gateUp", gateUp, real, d[0], 2*d[1])
	c.run(func(k Kernels) error { return k.SwiGLU(dst, gateUp) })
}

// Router chooses experts: softmax over all experts in float32, then the k
// largest (lower expert first among equals), with Groups > 1 only from the
// TopGroups groups whose best expert is largest (lower group first). Weights are
// the softmax values, divided by their sum if Normalize and k > 1, else times
// Scale.
//
// Source: DeepSeek-V2 modeling_deepseek.py, MoEGate.forward.
func (o *Ops) Router(a RouterArgs) {
	c := o.begin("Router", a.Groups, a.TopGroups, a.Normalize, a.Scale)
	c.router(a, c.dims("x", a.X, real, 2))
	c.run(func(kn Kernels) error { return kn.Router(a) })
}

// router checks what chooses among experts for rows of shape d, and returns how
// many a row.
func (c *call) router(a RouterArgs, d []int) int {
	k := c.dims("ids", a.IDs, i32, 2)[1]
	c.arg("ids", a.IDs, i32, d[0], -1)
	c.arg("weights", a.Weights, f32, d[0], k)
	experts := c.dims("gate", a.Gate, real, 2)[0]
	c.arg("gate", a.Gate, real, -1, d[1])
	c.require(k >= 1 && k <= experts, "%d of %d experts", k, experts)
	c.require(a.Groups >= 1 && experts%max(a.Groups, 1) == 0, "%d experts in %d groups", experts, a.Groups)
	c.require(a.TopGroups >= 1 && a.TopGroups <= a.Groups, "%d of %d groups", a.TopGroups, a.Groups)
	c.require(a.Groups < 1 || k <= experts/max(a.Groups, 1)*a.TopGroups, "%d experts from %d groups of %d", k, a.TopGroups, experts/max(a.Groups, 1))
	return k
}

// Experts adds Σⱼ weights[t, j]·expert(ids[t, j])(x[t]) to dst[t]. The tokens
// of an expert go through it together.
func (o *Ops) Experts(a ExpertsArgs) {
	c := o.begin("Experts")
	d := c.dims("x", a.X, real, 2)
	c.arg("dst", a.Dst, real, d[0], d[1])
	k := c.dims("ids", a.IDs, i32, 2)[1]
	c.arg("ids", a.IDs, i32, d[0], -1)
	c.arg("weights", a.Weights, f32, d[0], k)
	c.experts(a.Experts, d, k)
	c.run(func(kn Kernels) error { return kn.Experts(a) })
}

// experts checks experts of rows of shape d, of which k are read for a row.
func (c *call) experts(all []Expert, d []int, k int) {
	c.require(len(all) > 0, "no experts")
	c.reads(d[0]*k, len(all))
	first := len(c.Args)
	for _, e := range all {
		width := e.GateUp.Out() / 2
		c.weight(e.GateUp, 2*width, d[1])
		c.weight(e.Down, d[1], width)
	}
	for i := range c.Args[first:] {
		c.Args[first+i].Name = "expert"
	}
}

// Copy writes src to dst, element by element, converting the float type. Same
// shape; src may be a Repeat. Of F8 the elements are copied, not the factors.
func (o *Ops) Copy(dst, src *Tensor) {
	c := o.begin("Copy")
	c.arg("src", src, scored|i32|i64|u32, shapeOf(src)...)
	c.arg("dst", dst, scored|i32|i64|u32, shapeOf(src)...)
	c.require(c.err != nil || dst.DType == src.DType || dst.DType.Float() && src.DType.Float(), "cannot convert %v to %v", src, dst)
	c.run(func(k Kernels) error { return k.Copy(dst, src) })
}

// Increment adds one to every element of t, I32 [n].
func (o *Ops) Increment(t *Tensor) {
	c := o.begin("Increment")
	c.dims("t", t, i32, 1)
	c.run(func(k Kernels) error { return k.Increment(t) })
}

func shapeOf(t *Tensor) []int {
	if t == nil {
		return nil
	}
	return t.Shape
}
