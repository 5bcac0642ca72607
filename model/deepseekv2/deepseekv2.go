// Package deepseekv2 is the DeepSeek-V2 decoder: multi-head latent attention
// with interleaved rotary encoding, experts chosen by softmax, SwiGLU, RMSNorm
// before each block.
//
// The cache holds one row a token and layer, the latent that all heads' keys
// and values are products of. Attention takes one of two forms with the same
// result (attention.go): absorbed, on the rows as they are, or expanded, on
// every head's own keys and values in scratch memory.
package deepseekv2

import (
	"blitzen/attention"
	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/model"
)

// Model is a DeepSeek-V2 network on a device.
type Model struct {
	cfg   Config
	dev   device.Device
	rope  device.RoPE
	scale float32 // of the softmax

	embed  *device.Tensor // [vocab, hidden]
	layers []layer
	norm   device.Norm
	head   device.Weight // [vocab, hidden]

	s        scratch
	expanded *device.Tensor // [numbers]: keys and values of as many heads as fit
	rows     int
	owned    []*device.Tensor
}

type layer struct {
	attentionNorm device.Norm
	reduce        device.Weight // q‖latent‖rotary [query width + rank + rope, hidden]
	queryNorm     device.Norm   // none without q_lora
	query         device.Weight // [heads·(nope+rope), query rank]; none without q_lora
	latentNorm    device.Norm
	up            *device.Tensor // [heads·(nope+value), rank]: the owner of the next two
	keyUp         *device.Tensor // [heads, nope, rank], a view
	valueUp       *device.Tensor // [heads, value, rank], a view
	out           device.Weight  // [hidden, heads·value]

	mlpNorm device.Norm
	gate    *device.Tensor  // [experts, hidden]; nil in a dense layer
	experts []device.Expert // none in a dense layer
	inner   int             // width of the MLP that every token goes through; 0 for none
	gateUp  device.Weight   // gate‖up [2·inner, hidden]
	down    device.Weight   // [hidden, inner]

	tap, tapIDs, tapWeights string
}

// scratch is the memory of one forward pass, rows tokens wide.
type scratch struct {
	x         *device.Tensor // F32 [rows, hidden]: the residual stream
	h         *device.Tensor // [rows, hidden]: normalised input of a block
	reduced   *device.Tensor // [rows, query width + rank + rope]
	query     *device.Tensor // [rows, heads·(nope+rope)]; nil without q_lora
	absorbed  *device.Tensor // [rows, heads·(rank+rope)]: queries on the latent
	latent    *device.Tensor // [rows, heads·rank]: attention in latent space
	attention *device.Tensor // [rows, heads·value]
	gateUp    *device.Tensor // [rows, 2·widest inner]
	inner     *device.Tensor // [rows, widest inner]
	ids       *device.Tensor // I32 [rows, top k]; nil without experts
	weights   *device.Tensor // F32 [rows, top k]; nil without experts
}

// Config is what config.json says.
func (m *Model) Config() model.Config { return m.cfg.Config }

// MaxRows is the most tokens of one Forward.
func (m *Model) MaxRows() int { return m.rows }

// CacheSpec is the cache rows of every layer: a latent beside a rotary part.
func (m *Model) CacheSpec() []kvcache.Spec { return m.cfg.CacheSpec() }

// Forward taps "embed", "layer.N" (the residual after a layer), "norm" and, in
// a layer with experts, "layer.N.expert_ids" (I32) and "layer.N.expert_weights",
// both [tokens, top k].
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

// mlp adds to the residual the MLP that every token goes through, a dense layer's
// or the shared experts side by side, and Σ wₑ·expertₑ(h) over the experts chosen
// for a token, if the layer has any.
func (m *Model) mlp(ops *device.Ops, l *layer, s scratch) {
	gateUp, inner := s.gateUp.Slice(1, 0, 2*l.inner), s.inner.Slice(1, 0, l.inner)
	if len(l.experts) == 0 {
		ops.NormSwiGLU(inner, gateUp, s.h, s.x, l.mlpNorm, l.gateUp)
		ops.LinearAdd(s.x, inner, l.down)
		return
	}
	e := m.cfg.MoE
	a := device.MoEArgs{
		X: s.x, Norm: l.mlpNorm, Experts: l.experts,
		Router: device.RouterArgs{
			IDs: s.ids, Weights: s.weights, X: s.h, Gate: l.gate,
			Groups: e.Groups, TopGroups: e.TopGroups, Normalize: e.Normalize, Scale: e.Scale,
		},
	}
	if l.inner > 0 {
		a.Shared, a.GateUp, a.Inner = device.Expert{GateUp: l.gateUp, Down: l.down}, gateUp, inner
	}
	ops.MoE(a)
	ops.Tap(l.tapIDs, s.ids)
	ops.Tap(l.tapWeights, s.weights)
}

// of is the scratch of n tokens.
func (s scratch) of(n int) scratch {
	for _, t := range []**device.Tensor{
		&s.x, &s.h, &s.reduced, &s.query, &s.absorbed, &s.latent, &s.attention, &s.gateUp, &s.inner, &s.ids, &s.weights,
	} {
		if *t != nil {
			*t = (*t).Slice(0, 0, n)
		}
	}
	return s
}

// Close frees weights and scratch.
func (m *Model) Close() {
	for _, t := range m.owned {
		m.dev.Free(t)
	}
	m.owned = nil
}
