package cuda

import (
	"fmt"
	"math"
	"testing"

	"blitzen/device"
)

// BenchmarkLatentStep is a layer of DeepSeek-V2-Lite's decode step with exact
// attention, over as many rows as the middle one of 64 tokens reads. Each layer has
// weights, norms and rows of its own: 5 GB of weights, where the model has 31.
func BenchmarkLatentStep(b *testing.B) {
	const layers = 4
	d := requireGPU(b, Options{DType: device.BF16})
	weights := newLatentLayers(&made{b: b, d: d}, layers)
	for _, rows := range []int{512 + 32, 4096 + 32, 32704 + 32} {
		b.Run(fmt.Sprintf("%d rows", rows), func(b *testing.B) {
			m := &made{b: b, d: d}
			pos, caches := m.ints(int32(rows-1)), make([]*device.Tensor, layers)
			for i := range caches {
				caches[i] = m.act(1, rows+64, latentRank+latentRope)
			}
			measure(b, d, layers, scale{}, func(o *device.Ops) {
				for i, l := range weights {
					l.issue(o, caches[i], pos)
				}
			})
		})
	}
}

// Sizes of DeepSeek-V2-Lite.
const (
	latentHidden, latentQueryHeads                  = 2048, 16
	latentNope, latentRope, latentRank, latentValue = 128, 64, 512, 128
)

// latentLayer is a layer without its rows.
type latentLayer struct {
	norm, latentNorm                      device.Norm
	rope                                  device.RoPE
	reduce, out                           device.Weight
	keyUp, valueUp                        *device.Tensor
	x, h, reduced, absorbed, latent, each *device.Tensor
	moe                                   device.MoEArgs
}

func newLatentLayers(m *made, n int) (all []latentLayer) {
	const hidden, heads, width, experts, shared, k = latentHidden, latentQueryHeads, 1408, 64, 2 * 1408, 6
	one := latentLayer{
		rope: device.RoPE{InvFreq: m.tensor(device.F32, latentRope/2), Scale: 1, Pairing: device.Interleaved},
		x:    m.tensor(device.F32, 1, hidden), h: m.act(1, hidden), reduced: m.act(1, heads*(latentNope+latentRope)+latentRank+latentRope),
		absorbed: m.act(1, heads*(latentRank+latentRope)), latent: m.act(1, heads*latentRank), each: m.act(1, heads*latentValue),
	}
	one.moe = device.MoEArgs{
		X: one.x, GateUp: m.act(1, 2*shared), Inner: m.act(1, shared),
		Router: device.RouterArgs{IDs: m.tensor(device.I32, 1, k), Weights: m.tensor(device.F32, 1, k), X: one.h, Groups: 1, TopGroups: 1, Scale: 1},
	}
	for range n {
		l := one
		gamma := func(n int) device.Norm { return device.Norm{Gamma: m.act(n), Eps: 1e-6} }
		l.norm, l.latentNorm, l.moe.Norm = gamma(hidden), gamma(latentRank), gamma(hidden)
		l.reduce = device.Weight{Parts: []*device.Tensor{m.act(heads*(latentNope+latentRope), hidden), m.act(latentRank+latentRope, hidden)}}
		up := m.act(heads, latentNope+latentValue, latentRank)
		l.keyUp, l.valueUp = up.Slice(1, 0, latentNope), up.Slice(1, latentNope, latentNope+latentValue)
		l.out = device.Weight{Parts: []*device.Tensor{m.act(hidden, heads*latentValue)}}
		l.moe.Router.Gate = m.act(experts, hidden)
		l.moe.Shared = newExperts(m, 1, hidden, shared)[0]
		l.moe.Experts = newExperts(m, experts, hidden, width)
		all = append(all, l)
	}
	return all
}

// newExperts cuts experts from one piece of memory.
func newExperts(m *made, n, hidden, width int) (all []device.Expert) {
	memory := m.act(n, 3, width*hidden)
	for i := range n {
		part := func(j int) *device.Tensor { return memory.Index(0, i).Index(0, j) }
		all = append(all, device.Expert{
			GateUp: device.Weight{Parts: []*device.Tensor{part(0).Unflatten(0, width, hidden), part(1).Unflatten(0, width, hidden)}},
			Down:   device.Weight{Parts: []*device.Tensor{part(2).Unflatten(0, hidden, width)}},
		})
	}
	return all
}

// issue does all of a layer, as model/deepseekv2 does.
func (l latentLayer) issue(o *device.Ops, cache, pos *device.Tensor) {
	const heads, query = latentQueryHeads, latentQueryHeads * (latentNope + latentRope)
	o.NormLinear(l.reduced, l.h, l.x, l.norm, l.reduce)
	q, absorbed := l.reduced.Slice(1, 0, query).Unflatten(1, heads, latentNope+latentRope), l.absorbed.Unflatten(1, heads, latentRank+latentRope)
	o.RotateAppend(device.RotateAppendArgs{
		Q: q.Slice(2, latentNope, latentNope+latentRope), K: l.reduced.Slice(1, query, query+latentRank+latentRope).Unflatten(1, 1, latentRank+latentRope), Norm: l.latentNorm,
		Turned: absorbed.Slice(2, latentRank, latentRank+latentRope), Pos: pos, RoPE: l.rope, Keys: cache,
		Beside: &device.HeadProduct{Dst: absorbed.Slice(2, 0, latentRank), X: q.Slice(2, 0, latentNope), W: l.keyUp, Transpose: true},
	})
	latent := l.latent.Unflatten(1, heads, latentRank)
	o.Attend(device.AttendArgs{
		Out: device.Partial{Out: latent}, Q: absorbed, K: cache, V: cache.Slice(2, 0, latentRank), Pos: pos, Scale: float32(1 / math.Sqrt(latentNope+latentRope)),
		Then: &device.HeadProduct{Dst: l.each.Unflatten(1, heads, latentValue), X: latent, W: l.valueUp},
	})
	o.LinearAdd(l.x, l.each, l.out)
	o.MoE(l.moe)
}
