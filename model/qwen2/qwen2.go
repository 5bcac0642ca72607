// Package qwen2 is the Qwen2 and Qwen2.5 decoder: grouped-query attention with
// biased q, k and v projections and half-split rotary encoding, SwiGLU, RMSNorm
// before each block.
package qwen2

import (
	"math"

	"blitzen/attention"
	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/model"
)

// Model is a Qwen2 network on a device.
type Model struct {
	cfg  Config
	dev  device.Device
	rope device.RoPE

	embed  *device.Tensor // [vocab, hidden]
	layers []layer
	norm   device.Norm
	head   device.Weight // [vocab, hidden]

	s     scratch
	rows  int
	owned []*device.Tensor
}

type layer struct {
	attentionNorm device.Norm
	qkv           device.Weight // q‖k‖v [(heads + 2·kv heads)·d, hidden] with bias
	out           device.Weight // [hidden, heads·d]
	mlpNorm       device.Norm
	gateUp        device.Weight // gate‖up [2·inner, hidden]
	down          device.Weight // [hidden, inner]
	tap           string
}

// scratch is the memory of one forward pass, rows tokens wide.
type scratch struct {
	x         *device.Tensor // F32 [rows, hidden]: the residual stream
	h         *device.Tensor // [rows, hidden]: normalised input of a block
	qkv       *device.Tensor // [rows, (heads + 2·kv heads)·d]
	attention *device.Tensor // [rows, heads·d]
	gateUp    *device.Tensor // [rows, 2·inner]
	inner     *device.Tensor // [rows, inner]
}

// Config is what config.json says.
func (m *Model) Config() model.Config { return m.cfg.Config }

// MaxRows is the most tokens of one Forward.
func (m *Model) MaxRows() int { return m.rows }

// CacheSpec is the cache rows of every layer.
func (m *Model) CacheSpec() []kvcache.Spec { return m.cfg.CacheSpec() }

// Forward taps "embed", "layer.N" (the residual after a layer) and "norm".
func (m *Model) Forward(ops *device.Ops, in model.Batch, kv *kvcache.Cache, attn attention.Backend, logits *device.Tensor) {
	n := in.IDs.Shape[0]
	s := m.s.of(n)
	ops.Embed(s.x, m.embed, in.IDs)
	ops.Tap("embed", s.x)
	for i := range m.layers {
		l := &m.layers[i]
		m.attend(ops, i, l, s, in, kv.Layers[i], attn)
		m.mlp(ops, l, s)
		ops.Tap(l.tap, s.x)
	}
	if logits == nil {
		return
	}
	last := s.x.Slice(0, n-logits.Shape[0], n)
	h := s.h.Slice(0, 0, logits.Shape[0])
	ops.NormLinear(logits, h, last, m.norm, m.head)
	ops.Tap("norm", h)
}

// attend adds softmax(q·kᵀ/√d)·v·Wₒ to the residual.
func (m *Model) attend(ops *device.Ops, i int, l *layer, s scratch, in model.Batch, kv *kvcache.Layer, attn attention.Backend) {
	heads, kvHeads, d := m.cfg.Heads, m.cfg.KVHeads, m.cfg.HeadDim
	ops.NormLinear(s.qkv, s.h, s.x, l.attentionNorm, l.qkv)
	rows := s.qkv.Unflatten(1, heads+2*kvHeads, d)
	q, k, v := rows.Slice(1, 0, heads), rows.Slice(1, heads, heads+kvHeads), rows.Slice(1, heads+kvHeads, heads+2*kvHeads)
	kv.RotateAppend(ops, device.RotateAppendArgs{Q: q, K: k, V: v, Pos: in.Pos, RoPE: m.rope})
	attn.Attend(ops, attention.Input{
		Layer: i, Q: q, K: kv.K, V: kv.V, Pos: in.Pos, Most: in.Most,
		Out:   s.attention.Unflatten(1, heads, d),
		Scale: float32(1 / math.Sqrt(float64(d))),
	})
	ops.LinearAdd(s.x, s.attention, l.out)
}

// mlp adds (silu(h·Wg) ⊙ h·Wu)·Wd to the residual, h = norm(x).
func (m *Model) mlp(ops *device.Ops, l *layer, s scratch) {
	ops.NormSwiGLU(s.inner, s.gateUp, s.h, s.x, l.mlpNorm, l.gateUp)
	ops.LinearAdd(s.x, s.inner, l.down)
}

// of is the scratch of n tokens.
func (s scratch) of(n int) scratch {
	return scratch{
		x: s.x.Slice(0, 0, n), h: s.h.Slice(0, 0, n), qkv: s.qkv.Slice(0, 0, n),
		attention: s.attention.Slice(0, 0, n), gateUp: s.gateUp.Slice(0, 0, n), inner: s.inner.Slice(0, 0, n),
	}
}

// Close frees weights and scratch.
func (m *Model) Close() {
	for _, t := range m.owned {
		m.dev.Free(t)
	}
	m.owned = nil
}
