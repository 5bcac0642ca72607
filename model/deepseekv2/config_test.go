package deepseekv2

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"
	"blitzen/model"
)

// v2Lite is the published config.json of DeepSeek-V2-Lite, less what only
// training reads.
const v2Lite = `{
	"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "attention_bias": false, "hidden_act": "silu",
	"hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 27,
	"num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": null, "kv_lora_rank": 512,
	"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "rms_norm_eps": 1e-06,
	"n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1,
	"n_group": 1, "topk_group": 1, "topk_method": "greedy", "scoring_func": "softmax", "norm_topk_prob": false, "routed_scaling_factor": 1.0,
	"rope_theta": 10000, "max_position_embeddings": 163840, "vocab_size": 102400, "tie_word_embeddings": false,
	"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707}
}`

// edited is V2-Lite's config.json with some fields set; nil removes one.
func edited(t testing.TB, edit map[string]any) *model.Fields {
	t.Helper()
	var all map[string]any
	modeltest.Check(t, json.Unmarshal([]byte(v2Lite), &all))
	for k, v := range edit {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	data, err := json.Marshal(all)
	modeltest.Check(t, err)
	f, err := model.ParseFields("dir/config.json", data)
	modeltest.Check(t, err)
	return f
}

func TestV2Lite(t *testing.T) {
	c, err := ReadConfig(edited(t, nil))
	modeltest.Check(t, err)
	if got := c.softmaxScale(); math.Abs(float64(got)-0.11472139) > 1e-8 {
		t.Errorf("the softmax scale is %v, want 0.11472139", got)
	}
	if c.MaxPositions != 163840 || c.QueryRank != 0 || c.MoE.SharedInner != 2816 {
		t.Errorf("got %+v", c)
	}
	width, bf16 := 0, 2
	for _, s := range c.CacheSpec() {
		width += s.RowWidth()
	}
	if width*bf16 != 31_104 || c.ExpandedWidth()*bf16 != 276_480 {
		t.Errorf("a token takes %d bytes, expanded %d; want 31,104 and 276,480", width*bf16, c.ExpandedWidth()*bf16)
	}
	want := kvcache.Spec{KVHeads: 1, KeyDim: 576, ValueDim: 512, ValueIsKeyPrefix: true, ClusterDim: 512}
	if s := c.CacheSpec(); len(s) != 27 || s[26] != want {
		t.Errorf("got %d layers of %+v", len(s), s[0])
	}
}

// Frequencies and scales are those that the goldens' own runtime computed.
func TestRoPE(t *testing.T) {
	for _, name := range []string{"dsv2_lite", "dsv2_group", "dsv2_norm_norope"} {
		for _, file := range []string{"config.json", "config.v5.json"} {
			dir := "../../testdata/models/" + name
			c, err := ReadConfig(modeltest.Fields(t, dir, file))
			modeltest.Check(t, err)
			var want struct {
				InvFreq []float64 `json:"inv_freq"`
				Factor  float64   `json:"rope_cos_sin_factor"`
				Scale   float64   `json:"softmax_scale"`
			}
			golden.JSON(t, dir+"/golden.json", &want)
			got := append(golden.Float64s(c.RoPE.InvFreq), float64(c.RoPE.Scale), float64(c.softmaxScale()))
			// Two roundings to float32 of numbers of at most 1.
			golden.Near(t, name+"/"+file, got, append(want.InvFreq, want.Factor, want.Scale), 0x1p-23)
		}
	}
}

func TestRouted(t *testing.T) {
	for _, q := range []struct {
		edit map[string]any
		want string // a letter a layer
	}{
		{nil, "d" + strings.Repeat("e", 26)},
		{map[string]any{"num_hidden_layers": 7, "first_k_dense_replace": 3, "moe_layer_freq": 2}, "ddddede"},
		{map[string]any{"num_hidden_layers": 3, "first_k_dense_replace": 0}, "eee"},
		{map[string]any{"num_hidden_layers": 3, "n_routed_experts": nil, "topk_method": nil, "num_experts_per_tok": nil}, "ddd"},
	} {
		c, err := ReadConfig(edited(t, q.edit))
		modeltest.Check(t, err)
		got := ""
		for i := range c.Layers {
			got += map[bool]string{true: "e", false: "d"}[c.Routed(i)]
		}
		if got != q.want {
			t.Errorf("%v: got %s, want %s", q.edit, got, q.want)
		}
	}
}

func TestReadConfigRefuses(t *testing.T) {
	groups := func(edit map[string]any) map[string]any {
		edit["topk_method"] = "group_limited_greedy"
		return edit
	}
	yarn := func(field string) map[string]any {
		return map[string]any{"rope_scaling": map[string]any{"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, field: 0.707}}
	}
	for _, q := range []struct {
		edit map[string]any
		want string
	}{
		{map[string]any{"architectures": []string{"DeepseekV3ForCausalLM"}}, `architectures is ["DeepseekV3ForCausalLM"]; this is the network of "DeepseekV2ForCausalLM"`},
		{map[string]any{"architectures": nil}, "architectures is missing"},
		{map[string]any{"model_type": "deepseek_v3"}, `model_type is "deepseek_v3"; only "deepseek_v2" is supported`},
		{map[string]any{"topk_method": "noaux_tc"}, `topk_method is "noaux_tc"; supported are "greedy" and "group_limited_greedy"`},
		{map[string]any{"topk_method": nil}, "topk_method is missing"},
		{map[string]any{"scoring_func": "sigmoid"}, `scoring_func is "sigmoid"; only "softmax" is supported`},
		{map[string]any{"hidden_act": "gelu"}, `hidden_act is "gelu"`},
		{map[string]any{"layer_types": []string{}}, "layer_types has length 0, but num_hidden_layers is 27"},
		{map[string]any{"num_hidden_layers": 1, "layer_types": []string{"sliding_attention"}}, `layer_types has "sliding_attention"; only "full_attention" is supported`},
		{map[string]any{"quantization_config": map[string]any{"quant_method": "fp8"}}, `quantization_config has quant_method "fp8"; quantised weights are not supported`},
		{map[string]any{"attention_bias": true}, "attention_bias is true"},
		{map[string]any{"rope_interleave": false}, "rope_interleave is false; only rotation of adjacent pairs is supported"},
		{map[string]any{"mlp_bias": true}, "mlp_bias is true"},
		{map[string]any{"num_attention_heads": 0}, "num_attention_heads is 0, want a whole number from 1"},
		{map[string]any{"num_hidden_layers": 0}, "num_hidden_layers is 0"},
		{map[string]any{"kv_lora_rank": 0}, "kv_lora_rank is 0"},
		{map[string]any{"q_lora_rank": 0}, "q_lora_rank is 0"},
		{map[string]any{"kv_lora_rank": nil}, "kv_lora_rank is missing"},
		{map[string]any{"qk_nope_head_dim": nil}, "qk_nope_head_dim is missing"},
		{map[string]any{"qk_rope_head_dim": 63}, "qk_rope_head_dim is 63; rotary encoding needs an even number"},
		{map[string]any{"v_head_dim": "128"}, "v_head_dim is \"128\""},
		{map[string]any{"rms_norm_eps": nil}, "rms_norm_eps is missing"},
		{map[string]any{"rope_theta": nil}, "rope_theta is missing"},
		{map[string]any{"routed_scaling_factor": nil}, "routed_scaling_factor is missing"},
		{map[string]any{"num_experts_per_tok": nil}, "num_experts_per_tok is missing"},
		{map[string]any{"first_k_dense_replace": nil}, "first_k_dense_replace is missing"},
		{map[string]any{"num_experts_per_tok": 65}, "num_experts_per_tok is 65, but a token may choose from 64 experts only"},
		{groups(map[string]any{"n_group": nil}), "n_group is missing"},
		{groups(map[string]any{"n_group": 3, "topk_group": 2}), "n_routed_experts is 64, which n_group = 3 does not divide"},
		{groups(map[string]any{"n_group": 2, "topk_group": 3}), "topk_group is 3, want a whole number from 1 to 2"},
		{groups(map[string]any{"n_group": 16, "topk_group": 1}), "num_experts_per_tok is 6, but a token may choose from 4 experts only"},
		{map[string]any{"rope_scaling": map[string]any{"type": "linear", "factor": 2}}, `rope_scaling: rope_type is "linear"`},
		{map[string]any{"rms_norm_eps": 1}, "rms_norm_eps is 1, want a number from 1.18e-38 to below 1"},
		{map[string]any{"rms_norm_eps": -1e-6}, "rms_norm_eps is -1e-06, want a number above 0"},
		{map[string]any{"rms_norm_eps": 0}, "rms_norm_eps is 0, want a number above 0"},
		{map[string]any{"rms_norm_eps": 1e308}, "rms_norm_eps is 1e+308, want a number from 1.18e-38 to below 1"},
		{map[string]any{"routed_scaling_factor": 1e-320}, "routed_scaling_factor is 1e-320, want a number from 1.18e-38 to below 1000"},
		{map[string]any{"routed_scaling_factor": 1e6}, "routed_scaling_factor is 1e+06, want a number from 1.18e-38 to below 1000"},
		{map[string]any{"routed_scaling_factor": 0}, "routed_scaling_factor is 0, want a number above 0"},
		{map[string]any{"rope_parameters": map[string]any{"rope_theta": 1e4}, "rope_scaling": map[string]any{"mscale": 1}}, "rope_scaling: mscale and mscale_all_dim must both be set"},
		{yarn("mscale"), "rope_scaling: mscale and mscale_all_dim must both be set"},
		{yarn("mscale_all_dim"), "rope_scaling: mscale and mscale_all_dim must both be set"},
	} {
		_, err := ReadConfig(edited(t, q.edit))
		if err == nil || !strings.Contains(err.Error(), "deepseekv2: dir/config.json: "+q.want) {
			t.Errorf("%v: got %v, want %s", q.edit, err, q.want)
		}
	}
}

// ReadConfig returns a usable configuration or an error, whatever the file
// says.
func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(v2Lite))
	for _, data := range golden.Files(f, "../../testdata/models/*/config*.json") {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fields, err := model.ParseFields("config.json", data)
		if err != nil {
			return
		}
		c, err := ReadConfig(fields)
		if err != nil {
			return
		}
		for i := range c.Layers {
			c.Routed(i)
		}
		if len(c.CacheSpec()) != c.Layers || c.ExpandedWidth() < 1 || len(c.RoPE.InvFreq) != c.RopeDim/2 || c.MaxPositions < 1 {
			t.Errorf("accepted %+v", c)
		}
	})
}
