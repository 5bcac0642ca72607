package deepseekv2

import (
	"blitzen/attention"
	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/model"
)

const (
	// latentEps is the epsilon of the norms of query and latent. DeepSeek's code
	// leaves it at its default there, whatever rms_norm_eps says.
	latentEps = 1e-6
	// minExpand is the fewest tokens worth the operations of expanding.
	minExpand = 64
	// expandRows is how many cache rows scratch memory can hold with the keys
	// and values of all heads. Longer contexts go through it some heads at a
	// time; memory does not grow with the context.
	expandRows = 8192
)

// attend adds the attention of one layer to the residual.
func (m *Model) attend(ops *device.Ops, i int, l *layer, s scratch, in model.Batch, kv *kvcache.Layer, attn attention.Backend) {
	c := &m.cfg
	ops.NormLinear(s.reduced, s.h, s.x, l.attentionNorm, l.reduce)
	width := s.reduced.Shape[1]
	query, row := s.reduced.Slice(1, 0, width-kv.KeyDim), s.reduced.Slice(1, width-kv.KeyDim, width)
	if c.QueryRank > 0 {
		ops.NormLinear(s.query, query, query, l.queryNorm, l.query)
		query = s.query
	}
	q, absorbed := query.Unflatten(1, c.Heads, c.NopeDim+c.RopeDim), s.absorbed.Unflatten(1, c.Heads, c.LatentRank+c.RopeDim)
	place := device.RotateAppendArgs{
		Q: q.Slice(2, c.NopeDim, c.NopeDim+c.RopeDim), K: row.Unflatten(1, 1, kv.KeyDim), Norm: l.latentNorm,
		Turned: absorbed.Slice(2, c.LatentRank, c.LatentRank+c.RopeDim), Pos: in.Pos, RoPE: m.rope,
	}
	call := attention.Input{Layer: i, Q: q, K: kv.K, V: kv.V, Pos: in.Pos, Most: in.Most, Out: s.attention.Unflatten(1, c.Heads, c.ValueDim), Scale: m.scale}
	if attn.Exact() && m.expands(in) {
		kv.RotateAppend(ops, place)
		m.attendExpanded(ops, l, call, in.Rows, attn)
	} else {
		place.Beside = &device.HeadProduct{Dst: absorbed.Slice(2, 0, c.LatentRank), X: q.Slice(2, 0, c.NopeDim), W: l.keyUp, Transpose: true}
		kv.RotateAppend(ops, place)
		call.Q = absorbed
		m.attendAbsorbed(ops, l, s, call, attn)
	}
	ops.LinearAdd(s.x, s.attention, l.out)
}

// attendAbsorbed attends over the cache rows themselves: the up-projection of
// the keys is moved to the query, beside whose rotated part it has been written,
// that of the values to the output.
//
//	q·[W_K·c | r] = [W_Kᵀ·q_nope | q_rope]·[c | r]        Σ p·(W_V·c) = W_V·(Σ p·c)
func (m *Model) attendAbsorbed(ops *device.Ops, l *layer, s scratch, call attention.Input, attn attention.Backend) {
	latent := s.latent.Unflatten(1, m.cfg.Heads, m.cfg.LatentRank)
	call.Then = &device.HeadProduct{Dst: call.Out, X: latent, W: l.valueUp}
	call.Out = latent
	attn.Attend(ops, call)
}

// attendExpanded attends over every head's own keys and values, made in scratch
// from the first rows of the cache, as many heads at a time as fit.
func (m *Model) attendExpanded(ops *device.Ops, l *layer, call attention.Input, rows int, attn attention.Backend) {
	heads, fit := m.cfg.Heads, m.expanded.Len()/(rows*m.cfg.headWidth())
	passes := (heads + fit - 1) / fit
	size := (heads + passes - 1) / passes
	q, out, cache := call.Q, call.Out, call.K.Index(0, 0).Slice(0, 0, rows)
	for from := 0; from < heads; from += size {
		to := min(from+size, heads)
		call.K, call.V = m.expand(ops, l, cache, from, to)
		call.Q, call.Out = q.Slice(1, from, to), out.Slice(1, from, to)
		attn.Attend(ops, call)
	}
}

// expand makes keys [heads, rows, nope+rope] and values [heads, rows, value] of
// the heads from ≤ h < to, from cache rows [rows, rank+rope].
func (m *Model) expand(ops *device.Ops, l *layer, cache *device.Tensor, from, to int) (k, v *device.Tensor) {
	c, heads, rows := &m.cfg, to-from, cache.Shape[0]
	key := c.NopeDim + c.RopeDim
	split, end := heads*rows*key, heads*rows*c.headWidth()
	k = m.expanded.Slice(0, 0, split).Unflatten(0, heads, rows, key)
	v = m.expanded.Slice(0, split, end).Unflatten(0, heads, rows, c.ValueDim)
	latent, rotary := cache.Slice(1, 0, c.LatentRank), cache.Slice(1, c.LatentRank, c.LatentRank+c.RopeDim)
	ops.HeadLinear(k.Slice(2, 0, c.NopeDim).Transpose(0, 1), latent.Repeat(1, heads), l.keyUp.Slice(0, from, to), false)
	ops.HeadLinear(v.Transpose(0, 1), latent.Repeat(1, heads), l.valueUp.Slice(0, from, to), false)
	ops.Copy(k.Slice(2, c.NopeDim, key), rotary.Repeat(0, heads))
	return k, v
}

// expands reports whether expanding costs less arithmetic for this batch. New
// rows cost the same in both forms. Per head, expanded attention makes keys and
// values of every earlier row again, rank·(nope+value) products, and saves
// 2·rank − nope − value products for each pair of a query and a row.
func (m *Model) expands(in model.Batch) bool {
	c, n := &m.cfg, in.IDs.Shape[0]
	if in.Rows == 0 || n < minExpand || in.Rows*c.headWidth() > m.expanded.Len() {
		return false
	}
	earlier := in.Rows - n
	pairs := n*earlier + n*(n+1)/2
	again := earlier * c.LatentRank * (c.NopeDim + c.ValueDim)
	return again < pairs*(2*c.LatentRank-c.NopeDim-c.ValueDim)
}
