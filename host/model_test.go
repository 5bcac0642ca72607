package host

import (
	"fmt"
	"testing"

	"blitzen/device"
)

// needle is a transformer of the shapes of models/needle-qwen2 with random
// weights, for tests and benchmarks of whole steps.
type needle struct {
	layers                                               []needleLayer
	table, last                                          *device.Tensor
	ids, pos                                             *device.Tensor
	x, norm, qkv, attended, gateUp, act, logits, invFreq *device.Tensor
}

type needleLayer struct {
	norm1, norm2, keys, values *device.Tensor
	qkv, out, gateUp, down     device.Weight
}

const (
	needleHidden, needleInter, needleVocab = 384, 1024, 4096
	needleHeads, needleKV, needleDim       = 6, 2, 64
)

// maker makes a tensor of normal variates times scale.
type maker func(scale float32, shape ...int) *device.Tensor

func newNeedle(rand maker, ids, pos *device.Tensor, layers, capacity int) *needle {
	tokens, wide := ids.Shape[0], (needleHeads+2*needleKV)*needleDim
	weight := func(out, in int) device.Weight {
		return device.Weight{Parts: []*device.Tensor{rand(0.05, out, in)}}
	}
	n := &needle{
		ids: ids, pos: pos,
		table: rand(1, needleVocab, needleHidden), last: rand(1, needleHidden),
		x: rand(1, tokens, needleHidden), norm: rand(1, tokens, needleHidden),
		qkv: rand(1, tokens, wide), attended: rand(1, tokens, needleHeads*needleDim),
		gateUp: rand(1, tokens, 2*needleInter), act: rand(1, tokens, needleInter),
		logits: rand(1, 1, needleVocab), invFreq: rand(0.01, needleDim/2),
	}
	for range layers {
		n.layers = append(n.layers, needleLayer{
			norm1: rand(1, needleHidden), norm2: rand(1, needleHidden),
			keys: rand(1, needleKV, capacity, needleDim), values: rand(1, needleKV, capacity, needleDim),
			qkv: weight(wide, needleHidden), out: weight(needleHidden, needleHeads*needleDim),
			gateUp: weight(2*needleInter, needleHidden), down: weight(needleHidden, needleInter),
		})
	}
	return n
}

// forward computes the logits of the last token.
func (n *needle) forward(o *device.Ops) {
	part := func(from, heads int) *device.Tensor {
		return n.qkv.Slice(1, from*needleDim, (from+heads)*needleDim).Unflatten(1, heads, needleDim)
	}
	q, k, v := part(0, needleHeads), part(needleHeads, needleKV), part(needleHeads+needleKV, needleKV)
	out := device.Partial{Out: n.attended.Unflatten(1, needleHeads, needleDim)}
	rope := device.RoPE{InvFreq: n.invFreq, Scale: 1}
	o.Embed(n.x, n.table, n.ids)
	for _, l := range n.layers {
		o.RMSNorm(n.norm, n.x, l.norm1, 1e-6)
		o.Linear(n.qkv, n.norm, l.qkv)
		o.Rotate(q, n.pos, rope)
		o.Rotate(k, n.pos, rope)
		o.Append(l.keys, k, n.pos, nil)
		o.Append(l.values, v, n.pos, nil)
		o.Attend(device.AttendArgs{Out: out, Q: q, K: l.keys, V: l.values, Pos: n.pos, Scale: 0.125})
		o.LinearAdd(n.x, n.attended, l.out)
		o.RMSNorm(n.norm, n.x, l.norm2, 1e-6)
		o.Linear(n.gateUp, n.norm, l.gateUp)
		o.SwiGLU(n.act, n.gateUp)
		o.LinearAdd(n.x, n.act, l.down)
	}
	end := n.x.Slice(0, n.x.Shape[0]-1, n.x.Shape[0])
	o.RMSNorm(end, end, n.last, 1e-6)
	o.Linear(n.logits, end, device.Weight{Parts: []*device.Tensor{n.table}})
}

func benchNeedle(b *testing.B, tokens, rows int, opts Options) {
	s := newSetupWith(b, opts)
	pos := make([]int32, tokens)
	for i := range pos {
		pos[i] = int32(rows - tokens + i)
	}
	n := newNeedle(s.rand, s.ints(make([]int32, tokens)...), s.ints(pos...), 6, rows)
	s.time(float64(tokens)*1e9, "tokens/s", n.forward)
}

func BenchmarkNeedle(b *testing.B) {
	for name, p := range map[string]Products{"gomlx": ProductsGoMLX, "c": ProductsC} {
		b.Run(fmt.Sprintf("prefill/%s", name), func(b *testing.B) { benchNeedle(b, 512, 2048+256, Options{Products: p}) })
	}
	b.Run("decode", func(b *testing.B) { benchNeedle(b, 1, 4096, Options{}) })
}
