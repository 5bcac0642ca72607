package deepseekv2_test

import (
	"math"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/model"
	"blitzen/model/deepseekv2"
	"blitzen/model/rope"
)

// Mistakes in a configuration, each known from other runtimes.

func noMScale(c *deepseekv2.Config)      { c.RoPE.SoftmaxScale = 1 }
func flipNormalize(c *deepseekv2.Config) { c.MoE.Normalize = !c.MoE.Normalize }
func noGroups(c *deepseekv2.Config)      { c.MoE.Groups, c.MoE.TopGroups = 1, 1 }
func noFactor(c *deepseekv2.Config)      { c.MoE.Scale = 1 }
func noYaRN(c *deepseekv2.Config) {
	f, err := model.ParseFields("config.json", []byte(`{"rope_theta": 10000}`))
	if err == nil {
		c.RoPE = rope.Read(f, c.RopeDim)
	}
}

// Every common mistake moves the logits of the longest golden prompt far beyond
// the tolerance, and where the goldens say how far, by just that.
func TestMistakesAreSeen(t *testing.T) {
	const (
		mscale = "softmax scale without mscale^2"
		yarn   = "rope_scaling ignored (frequencies and scale)"
		norm   = "norm_topk_prob flipped"
		greedy = "greedy instead of group_limited_greedy"
		factor = "routed_scaling_factor ignored"
		pairs  = "RoPE on halves instead of adjacent pairs"
		eps    = "rms_norm_eps used in q_a/kv_a layernorm too"
		latent = "latent not normalised"
		router = "sigmoid router"
		after  = "scaling after normalising"
	)
	cases := []struct {
		dir, mistake string
		config       func(*deepseekv2.Config)
		change       func(faithful) device.Kernels
	}{
		{lite, mscale, noMScale, nil}, {group, mscale, noMScale, nil},
		{lite, yarn, noYaRN, nil}, {group, yarn, noYaRN, nil},
		{lite, norm, flipNormalize, nil}, {group, norm, flipNormalize, nil}, {normNoRoPE, norm, flipNormalize, nil},
		{group, greedy, noGroups, nil},
		{group, factor, noFactor, nil},
		{lite, pairs, nil, onHalves}, {group, pairs, nil, onHalves}, {normNoRoPE, pairs, nil, onHalves},
		{group, eps, nil, withOneEps},
		{lite, latent, nil, withRawLatent},
		{lite, router, nil, withSigmoid},
		{normNoRoPE, after, nil, withScaleAfter},
	}
	unlisted := []string{latent, router, after}
	for _, c := range cases {
		t.Run(c.dir[len(testModels):]+"/"+c.mistake, func(t *testing.T) {
			off, tolerance := mistakeError(t, c.dir, c.config, c.change)
			want, listed := expected(t, c.dir)[c.mistake]
			switch {
			case !listed && !slices.Contains(unlisted, c.mistake):
				t.Fatalf("golden.json of %s does not list it", c.dir)
			case listed:
				golden.Near(t, "error of the logits", []float64{off}, []float64{want}, tolerance)
			case off < 100*tolerance:
				t.Errorf("the logits are off by %.3g only", off)
			}
		})
	}
	if off, tolerance := mistakeError(t, lite, nil, nil); off > tolerance {
		t.Errorf("without a mistake the logits are off by %.3g", off)
	}
}

// mistakeError is the largest error of the last logits of golden prompt 2, and what
// rounding allows.
func mistakeError(t *testing.T, dir string, change func(*deepseekv2.Config), kernels func(faithful) device.Kernels) (most, tolerance float64) {
	t.Helper()
	dev := mutant{modeltest.Host(t), kernels}
	cfg := config(t, dir, "config.json")
	if change != nil {
		change(&cfg)
	}
	f := golden.Open(t, dir+"/golden.safetensors")
	m := load(t, dev, dir, cfg, 256)
	got, _ := modeltest.Prefill{Chunk: 256}.Run(t, dev, m, f.Int32s("p2.input_ids"))
	for i, want := range f.Floats("p2.logits_last") {
		most = max(most, math.Abs(got[i]-want))
	}
	return most, modeltest.Rounding(m, modeltest.Terms, got)
}

func expected(t *testing.T, dir string) map[string]float64 {
	t.Helper()
	var g struct {
		Errors map[string]float64 `json:"max_abs_error_if"`
	}
	golden.JSON(t, dir+"/golden.json", &g)
	return g.Errors
}
