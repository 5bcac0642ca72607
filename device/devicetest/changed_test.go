package devicetest

import "blitzen/device"

type tensor = device.Tensor

// changed is the reference's kernels with some replaced.
type changed struct {
	embed             func(dst, table, ids *tensor) error
	rmsNorm           func(dst, x, gamma *tensor, eps float32) error
	linear            func(dst, x *tensor, w device.Weight, add bool) error
	headLinear        func(dst, x, w *tensor, transpose bool) error
	rotate            func(x, pos *tensor, r device.RoPE) error
	swiGLU            func(dst, gateUp *tensor) error
	router            func(a device.RouterArgs) error
	experts           func(a device.ExpertsArgs) error
	copy              func(dst, src *tensor) error
	normLinear        func(dst, h, x *tensor, n device.Norm, w device.Weight) error
	normSwiGLU        func(dst, gateUp, h, x *tensor, n device.Norm, w device.Weight) error
	rotateAppend      func(a device.RotateAppendArgs) error
	moe               func(a device.MoEArgs) error
	append            func(cache, rows, pos, slots *tensor) error
	permuteRows       func(t, order *tensor, inverse bool, within int) error
	attend            func(a device.AttendArgs) error
	merge             func(dst *tensor, a, b device.Partial) error
	route             func(a device.RouteArgs) error
	quantize          func(dst, src *tensor) error
	sampleTopK        func(a device.TopKArgs) error
	sampleReplacement func(a device.ReplacementArgs) error
	groupMass         func(phi, scores, offsets *tensor) error
	attendSelected    func(a device.SelectedArgs) error
	attendTeams       func(a device.TeamsArgs) error
	gatherRows        func(dst, src, ids *tensor) error
	spreadCenters     func(a device.SpreadArgs) error
	nearest           func(a device.NearestArgs) error
	moveCenters       func(a device.MoveArgs) error
	divideTeams       func(a device.DivideArgs) error
	sample            func(a device.SampleArgs) error
	topLogProbs       func(a device.LogProbArgs) error
	markSeen          func(seen, ids *tensor) error
	increment         func(t *tensor) error
}

// with is the reference with the replacements that set makes.
func with(set func(c *changed)) *changed {
	var k kernels
	c := &changed{
		embed: k.Embed, rmsNorm: k.RMSNorm, linear: k.Linear, headLinear: k.HeadLinear, rotate: k.Rotate, swiGLU: k.SwiGLU,
		normLinear: k.NormLinear, normSwiGLU: k.NormSwiGLU, rotateAppend: k.RotateAppend, moe: k.MoE,
		router: k.Router, experts: k.Experts, copy: k.Copy, append: k.Append, permuteRows: k.PermuteRows, attend: k.Attend,
		merge: k.Merge, route: k.Route, quantize: k.Quantize, sampleTopK: k.SampleTopK, sampleReplacement: k.SampleWithReplacement, groupMass: k.GroupMass, attendSelected: k.AttendSelected, attendTeams: k.AttendTeams, gatherRows: k.GatherRows,
		spreadCenters: k.SpreadCenters, nearest: k.Nearest, moveCenters: k.MoveCenters, divideTeams: k.DivideTeams, sample: k.Sample, topLogProbs: k.TopLogProbs, markSeen: k.MarkSeen,
		increment: k.Increment,
	}
	set(c)
	return c
}

func (c *changed) Embed(dst, table, ids *tensor) error { return c.embed(dst, table, ids) }
func (c *changed) RMSNorm(dst, x, gamma *tensor, eps float32) error {
	return c.rmsNorm(dst, x, gamma, eps)
}
func (c *changed) Linear(dst, x *tensor, w device.Weight, add bool) error {
	return c.linear(dst, x, w, add)
}
func (c *changed) HeadLinear(dst, x, w *tensor, transpose bool) error {
	return c.headLinear(dst, x, w, transpose)
}
func (c *changed) Rotate(x, pos *tensor, r device.RoPE) error { return c.rotate(x, pos, r) }
func (c *changed) SwiGLU(dst, gateUp *tensor) error           { return c.swiGLU(dst, gateUp) }
func (c *changed) Router(a device.RouterArgs) error           { return c.router(a) }
func (c *changed) Experts(a device.ExpertsArgs) error         { return c.experts(a) }
func (c *changed) Copy(dst, src *tensor) error                { return c.copy(dst, src) }
func (c *changed) NormLinear(dst, h, x *tensor, n device.Norm, w device.Weight) error {
	return c.normLinear(dst, h, x, n, w)
}
func (c *changed) NormSwiGLU(dst, gateUp, h, x *tensor, n device.Norm, w device.Weight) error {
	return c.normSwiGLU(dst, gateUp, h, x, n, w)
}
func (c *changed) RotateAppend(a device.RotateAppendArgs) error { return c.rotateAppend(a) }
func (c *changed) MoE(a device.MoEArgs) error                   { return c.moe(a) }
func (c *changed) Append(cache, rows, pos, slots *tensor) error {
	return c.append(cache, rows, pos, slots)
}
func (c *changed) PermuteRows(t, order *tensor, inverse bool, within int) error {
	return c.permuteRows(t, order, inverse, within)
}
func (c *changed) Attend(a device.AttendArgs) error             { return c.attend(a) }
func (c *changed) Merge(dst *tensor, a, b device.Partial) error { return c.merge(dst, a, b) }
func (c *changed) Route(a device.RouteArgs) error               { return c.route(a) }
func (c *changed) Quantize(dst, src *tensor) error              { return c.quantize(dst, src) }
func (c *changed) SampleTopK(a device.TopKArgs) error           { return c.sampleTopK(a) }
func (c *changed) SampleWithReplacement(a device.ReplacementArgs) error {
	return c.sampleReplacement(a)
}
func (c *changed) GroupMass(phi, scores, offsets *tensor) error {
	return c.groupMass(phi, scores, offsets)
}
func (c *changed) AttendSelected(a device.SelectedArgs) error { return c.attendSelected(a) }
func (c *changed) AttendTeams(a device.TeamsArgs) error       { return c.attendTeams(a) }
func (c *changed) GatherRows(dst, src, ids *tensor) error     { return c.gatherRows(dst, src, ids) }
func (c *changed) SpreadCenters(a device.SpreadArgs) error    { return c.spreadCenters(a) }
func (c *changed) Nearest(a device.NearestArgs) error         { return c.nearest(a) }
func (c *changed) MoveCenters(a device.MoveArgs) error        { return c.moveCenters(a) }
func (c *changed) DivideTeams(a device.DivideArgs) error      { return c.divideTeams(a) }
func (c *changed) Sample(a device.SampleArgs) error           { return c.sample(a) }
func (c *changed) TopLogProbs(a device.LogProbArgs) error     { return c.topLogProbs(a) }
func (c *changed) MarkSeen(seen, ids *tensor) error           { return c.markSeen(seen, ids) }
func (c *changed) Increment(t *tensor) error                  { return c.increment(t) }
