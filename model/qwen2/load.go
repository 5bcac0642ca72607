package qwen2

import (
	"fmt"

	"blitzen/device"
	"blitzen/model"
)

// Load binds every tensor of a source and makes scratch memory for forward
// passes of up to o.Rows tokens. The source must stay open until Close. A
// tensor that is missing, extra or of another shape is an error that names it.
func Load(dev device.Device, from model.Source, cfg Config, o model.Options) (*Model, error) {
	l := model.NewLoader(dev, from, o)
	m := &Model{cfg: cfg, dev: dev, rows: o.Rows}
	m.rope = device.RoPE{InvFreq: l.Values("rope.inv_freq", cfg.RoPE.InvFreq), Scale: cfg.RoPE.Scale, Pairing: device.HalfSplit}
	m.embed = l.Weight("model.embed_tokens.weight", cfg.Vocab, cfg.Hidden)
	for i := range cfg.Layers {
		m.layers = append(m.layers, loadLayer(l, cfg, i))
	}
	m.norm = l.Norm("model.norm.weight", cfg.Hidden, cfg.Eps)
	m.head = l.Head(m.embed, cfg.TiedHead)
	m.s = newScratch(l, cfg, o.Rows)
	var err error
	if m.owned, err = l.Finish(); err != nil {
		return nil, fmt.Errorf("qwen2: %w", err)
	}
	return m, nil
}

func loadLayer(l *model.Loader, cfg Config, i int) layer {
	p := fmt.Sprintf("model.layers.%d.", i)
	q, kv := cfg.Heads*cfg.HeadDim, cfg.KVHeads*cfg.HeadDim
	return layer{
		attentionNorm: l.Norm(p+"input_layernorm.weight", cfg.Hidden, cfg.Eps),
		qkv: model.Join(
			l.Biased(p+"self_attn.q_proj", q, cfg.Hidden),
			l.Biased(p+"self_attn.k_proj", kv, cfg.Hidden),
			l.Biased(p+"self_attn.v_proj", kv, cfg.Hidden),
		),
		out:     l.Linear(p+"self_attn.o_proj", cfg.Hidden, q),
		mlpNorm: l.Norm(p+"post_attention_layernorm.weight", cfg.Hidden, cfg.Eps),
		gateUp: model.Join(
			l.Linear(p+"mlp.gate_proj", cfg.Inner, cfg.Hidden),
			l.Linear(p+"mlp.up_proj", cfg.Inner, cfg.Hidden),
		),
		down: l.Linear(p+"mlp.down_proj", cfg.Hidden, cfg.Inner),
		tap:  fmt.Sprintf("layer.%d", i),
	}
}

func newScratch(l *model.Loader, cfg Config, rows int) scratch {
	heads := cfg.Heads * cfg.HeadDim
	return scratch{
		x:         l.New("x", device.F32, rows, cfg.Hidden),
		h:         l.Scratch("h", rows, cfg.Hidden),
		qkv:       l.Scratch("qkv", rows, heads+2*cfg.KVHeads*cfg.HeadDim),
		attention: l.Scratch("attention", rows, heads),
		gateUp:    l.Scratch("gate_up", rows, 2*cfg.Inner),
		inner:     l.Scratch("inner", rows, cfg.Inner),
	}
}
