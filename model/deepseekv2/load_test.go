package deepseekv2_test

import (
	"strings"
	"testing"

	"blitzen/internal/modeltest"
	"blitzen/model"
	"blitzen/model/deepseekv2"
	"blitzen/weights"
)

// A checkpoint that is not what config.json says is refused by the name of a
// tensor, and leaves no memory behind; nor does Close.
func TestLoadRefuses(t *testing.T) {
	for _, q := range []struct {
		dir  string
		edit func(*deepseekv2.Config)
		want string
	}{
		{lite, func(c *deepseekv2.Config) { c.QueryRank = 40 }, "model.layers.0.self_attn.q_a_proj.weight"},
		{group, func(c *deepseekv2.Config) { c.QueryRank = 0 }, "model.layers.0.self_attn.q_proj.weight"},
		{lite, func(c *deepseekv2.Config) { c.MoE.FirstLayer = 2 }, "model.layers.1.mlp.gate_proj.weight"},
		{lite, func(c *deepseekv2.Config) { c.MoE.SharedInner = 0 }, "mlp.shared_experts.down_proj.weight"},
		{lite, func(c *deepseekv2.Config) { c.MoE.Experts = 8 }, "model.layers.1.mlp.gate.weight"},
		{lite, func(c *deepseekv2.Config) { c.ValueDim = 16 }, "model.layers.0.self_attn.kv_b_proj.weight"},
		{lite, func(c *deepseekv2.Config) { c.Layers = 2 }, "model.layers.2."},
		{lite, nil, ""},
	} {
		cfg := config(t, q.dir, "config.json")
		if q.edit != nil {
			q.edit(&cfg)
		}
		dev := modeltest.Host(t)
		ck, err := weights.Open(q.dir)
		modeltest.Check(t, err)
		m, err := deepseekv2.Load(dev, ck, cfg, model.Options{Rows: 64})
		switch {
		case err != nil && (q.want == "" || !strings.Contains(err.Error(), q.want)):
			t.Errorf("got %v, want an error that names %s", err, q.want)
		case err == nil && q.want != "":
			t.Errorf("loaded; want an error that names %s", q.want)
		}
		if err == nil {
			m.Close()
		}
		if used := dev.Memory().Used; used != 0 {
			t.Errorf("%d bytes are left", used)
		}
		modeltest.Check(t, ck.Close())
	}
}
