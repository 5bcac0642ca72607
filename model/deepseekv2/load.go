package deepseekv2

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
	m := &Model{cfg: cfg, dev: dev, rows: o.Rows, scale: cfg.softmaxScale()}
	m.rope = device.RoPE{InvFreq: l.Values("rope.inv_freq", cfg.RoPE.InvFreq), Scale: cfg.RoPE.Scale, Pairing: device.Interleaved}
	m.embed = l.Weight("model.embed_tokens.weight", cfg.Vocab, cfg.Hidden)
	for i := range cfg.Layers {
		y := layer{tap: fmt.Sprintf("layer.%d", i)}
		y.tapIDs, y.tapWeights = y.tap+".expert_ids", y.tap+".expert_weights"
		p := fmt.Sprintf("model.layers.%d.", i)
		y.loadAttention(l, cfg, p)
		y.loadMLP(l, cfg, p+"mlp.", cfg.Routed(i))
		y.mlpNorm = l.Norm(p+"post_attention_layernorm.weight", cfg.Hidden, cfg.Eps)
		m.layers = append(m.layers, y)
	}
	m.norm = l.Norm("model.norm.weight", cfg.Hidden, cfg.Eps)
	m.head = l.Head(m.embed, cfg.TiedHead)
	m.s = newScratch(l, cfg, o.Rows)
	if o.Rows >= minExpand {
		m.expanded = l.Scratch("expanded", expandRows*cfg.Heads*cfg.headWidth())
	}
	var err error
	if m.owned, err = l.Finish(); err != nil {
		return nil, fmt.Errorf("deepseekv2: %w", err)
	}
	for i := range m.layers {
		m.layers[i].splitUp(cfg)
	}
	return m, nil
}

// loadAttention keeps the products that share their input, q‖kv_a, together.
func (y *layer) loadAttention(l *model.Loader, cfg Config, p string) {
	y.attentionNorm = l.Norm(p+"input_layernorm.weight", cfg.Hidden, cfg.Eps)
	p += "self_attn."
	q := cfg.Heads * (cfg.NopeDim + cfg.RopeDim)
	var first device.Weight
	if cfg.QueryRank > 0 {
		first = l.Linear(p+"q_a_proj", cfg.QueryRank, cfg.Hidden)
		y.queryNorm = l.Norm(p+"q_a_layernorm.weight", cfg.QueryRank, latentEps)
		y.query = l.Linear(p+"q_b_proj", q, cfg.QueryRank)
	} else {
		first = l.Linear(p+"q_proj", q, cfg.Hidden)
	}
	y.reduce = model.Join(first, l.Linear(p+"kv_a_proj_with_mqa", cfg.LatentRank+cfg.RopeDim, cfg.Hidden))
	y.latentNorm = l.Norm(p+"kv_a_layernorm.weight", cfg.LatentRank, latentEps)
	y.up = l.Matrix(p+"kv_b_proj.weight", cfg.Heads*(cfg.NopeDim+cfg.ValueDim), cfg.LatentRank)
	y.out = l.Linear(p+"o_proj", cfg.Hidden, cfg.Heads*cfg.ValueDim)
}

// splitUp cuts kv_b_proj: each head's key rows, then its value rows.
func (y *layer) splitUp(cfg Config) {
	heads := y.up.Unflatten(0, cfg.Heads, cfg.NopeDim+cfg.ValueDim)
	y.keyUp = heads.Slice(1, 0, cfg.NopeDim)
	y.valueUp = heads.Slice(1, cfg.NopeDim, cfg.NopeDim+cfg.ValueDim)
}

func (y *layer) loadMLP(l *model.Loader, cfg Config, p string, routed bool) {
	y.inner = cfg.Inner
	if routed {
		e := cfg.MoE
		y.gate = l.Weight(p+"gate.weight", e.Experts, cfg.Hidden)
		for i := range e.Experts {
			gateUp, down := swiGLU(l, fmt.Sprintf("%sexperts.%d.", p, i), e.Inner, cfg.Hidden)
			y.experts = append(y.experts, device.Expert{GateUp: gateUp, Down: down})
		}
		y.inner = e.SharedInner
		p += "shared_experts."
	}
	if y.inner > 0 {
		y.gateUp, y.down = swiGLU(l, p, y.inner, cfg.Hidden)
	}
}

func swiGLU(l *model.Loader, p string, inner, hidden int) (gateUp, down device.Weight) {
	gateUp = model.Join(l.Linear(p+"gate_proj", inner, hidden), l.Linear(p+"up_proj", inner, hidden))
	return gateUp, l.Linear(p+"down_proj", hidden, inner)
}

func newScratch(l *model.Loader, cfg Config, rows int) scratch {
	row, q := cfg.LatentRank+cfg.RopeDim, cfg.Heads*(cfg.NopeDim+cfg.RopeDim)
	inner := max(cfg.Inner, cfg.MoE.SharedInner)
	s := scratch{
		x:         l.New("x", device.F32, rows, cfg.Hidden),
		h:         l.Scratch("h", rows, cfg.Hidden),
		absorbed:  l.Scratch("absorbed", rows, cfg.Heads*row),
		latent:    l.Scratch("latent", rows, cfg.Heads*cfg.LatentRank),
		attention: l.Scratch("attention", rows, cfg.Heads*cfg.ValueDim),
		gateUp:    l.Scratch("gate_up", rows, 2*inner),
		inner:     l.Scratch("inner", rows, inner),
	}
	if cfg.QueryRank > 0 {
		s.reduced = l.Scratch("reduced", rows, cfg.QueryRank+row)
		s.query = l.Scratch("query", rows, q)
	} else {
		s.reduced = l.Scratch("reduced", rows, q+row)
	}
	if cfg.MoE.Experts > 0 {
		s.ids = l.New("expert_ids", device.I32, rows, cfg.MoE.TopK)
		s.weights = l.New("expert_weights", device.F32, rows, cfg.MoE.TopK)
	}
	return s
}
