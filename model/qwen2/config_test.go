package qwen2

import (
	"encoding/json"
	"math"
	"testing"

	"blitzen/internal/golden"
	"blitzen/model"
	"blitzen/model/rope"
)

// published is config.json of Qwen2.5-7B-Instruct, with fields that nobody
// needs.
const published = `{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
	"num_attention_heads": 28, "num_key_value_heads": 4, "hidden_act": "silu", "rms_norm_eps": 1e-06, "attention_dropout": 0.0,
	"initializer_range": 0.02, "rope_theta": 1000000.0, "rope_scaling": null, "max_position_embeddings": 32768, "sliding_window": 131072,
	"use_sliding_window": false, "max_window_layers": 28, "tie_word_embeddings": false, "vocab_size": 152064, "use_mrope": false,
	"unsloth_fixed": true, "pad_token_id": 151665, "torch_dtype": "bfloat16", "rope_unused": NaN}`

// change is published with fields replaced; nil drops one.
func change(t *testing.T, fields map[string]any) string {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(published))
	if err != nil || f.Has("absent") {
		t.Fatal(err)
	}
	all := map[string]any{}
	text := []byte(published[:len(published)-len(`, "rope_unused": NaN}`)] + "}")
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func readConfig(t *testing.T, text string) (Config, error) {
	t.Helper()
	f, err := model.ParseFields("dir/config.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ReadConfig(f)
}

func TestReadConfig(t *testing.T) {
	c, err := readConfig(t, published)
	if err != nil {
		t.Fatal(err)
	}
	c.RoPE = rope.Encoding{}
	want := Config{
		Config: model.Config{Architecture: "Qwen2ForCausalLM", Vocab: 152064, Layers: 28, Heads: 28, MaxPositions: 32768},
		Hidden: 3584, Inner: 18944, KVHeads: 4, HeadDim: 128, Eps: 1e-6,
	}
	if got, w := dump(t, c), dump(t, want); got != w {
		t.Errorf("got\n %s\nwant\n %s", got, w)
	}
	if specs := c.CacheSpec(); len(specs) != 28 || specs[27].RowWidth() != 2*4*128 {
		t.Errorf("cache rows %+v", specs)
	}
	for _, v := range []struct {
		fields map[string]any
		ok     func(Config) bool
	}{
		{map[string]any{"tie_word_embeddings": true}, func(c Config) bool { return c.TiedHead }},
		{map[string]any{"tie_word_embeddings": nil}, func(c Config) bool { return !c.TiedHead }},
		{map[string]any{"model_type": nil}, func(c Config) bool { return true }},
		{map[string]any{"num_key_value_heads": nil}, func(c Config) bool { return c.KVHeads == 28 }},
		{map[string]any{"use_sliding_window": nil}, func(c Config) bool { return true }},
		// as Qwen2.5-7B-Instruct-1M has it
		{map[string]any{"max_position_embeddings": 1010000, "rope_theta": 1e7, "dual_chunk_attention_config": map[string]any{"chunk_size": 262144, "local_size": 8192, "original_max_position_embeddings": 262144}}, func(c Config) bool { return c.MaxPositions == 1010000 }},
		{map[string]any{"head_dim": 64}, func(c Config) bool { return c.HeadDim == 64 }},
		{map[string]any{"rope_scaling": map[string]any{"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768}}, func(c Config) bool { return c.MaxPositions == 131072 }},
		{map[string]any{"rope_scaling": map[string]any{"type": "yarn", "factor": 2, "original_max_position_embeddings": 8192}}, func(c Config) bool { return c.MaxPositions == 32768 }},
	} {
		if c, err := readConfig(t, change(t, v.fields)); err != nil || !v.ok(c) {
			t.Errorf("%v: %+v, %v", v.fields, c, err)
		}
	}
}

func dump(t *testing.T, c Config) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReadConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		fields map[string]any
		want   string
	}{
		{map[string]any{"vocab_size": nil}, "vocab_size is missing; it changes the result and has no default"},
		{map[string]any{"rms_norm_eps": nil}, "rms_norm_eps is missing; it changes the result and has no default"},
		{map[string]any{"rope_theta": nil}, "rope_theta is missing; it changes the result and has no default"},
		{map[string]any{"max_position_embeddings": nil}, "max_position_embeddings is missing; it changes the result and has no default"},
		{map[string]any{"num_hidden_layers": 0}, "num_hidden_layers is 0, want a whole number from 1 to 10000"},
		{map[string]any{"num_hidden_layers": 1e6}, "num_hidden_layers is 1000000, want a whole number from 1 to 10000"},
		{map[string]any{"num_attention_heads": 0}, "num_attention_heads is 0, want a whole number from 1 to 16777216"},
		{map[string]any{"num_key_value_heads": 0}, "num_key_value_heads is 0, want a whole number from 1 to 16777216"},
		{map[string]any{"num_key_value_heads": 5}, "num_attention_heads is 28, which num_key_value_heads = 5 does not divide"},
		{map[string]any{"num_attention_heads": 40}, "num_attention_heads is 40, which does not divide hidden_size = 3584"},
		{map[string]any{"num_attention_heads": 5000, "num_key_value_heads": 5000}, "num_attention_heads is 5000, which does not divide hidden_size = 3584"},
		{map[string]any{"head_dim": 63}, "num_attention_heads gives heads of 63 numbers; rotary encoding needs an even number"},
		{map[string]any{"head_dim": 8192}, "num_attention_heads gives heads of 8192 numbers; at most 4096 are supported"},
		{map[string]any{"model_type": "qwen3"}, `model_type is "qwen3"; only "qwen2" is supported`},
		{map[string]any{"hidden_act": "gelu"}, `hidden_act is "gelu"; only "silu" is supported`},
		{map[string]any{"use_sliding_window": true}, "use_sliding_window is true; sliding-window attention is not supported"},
		{map[string]any{"num_hidden_layers": 2, "layer_types": []string{"full_attention", "sliding_attention"}}, `layer_types has "sliding_attention"; only "full_attention" is supported`},
		{map[string]any{"layer_types": []string{}}, "layer_types has length 0, but num_hidden_layers is 28: take config.json from the model's own download"},
		{map[string]any{"quantization_config": map[string]any{"quant_method": "awq", "bits": 4}}, `quantization_config has quant_method "awq"; quantised weights are not supported: use the model's checkpoint in bfloat16, with --quantize int8 for fewer bytes`},
		{map[string]any{"rms_norm_eps": 1}, "rms_norm_eps is 1, want a number from 1.18e-38 to below 1"},
		{map[string]any{"rms_norm_eps": -1e-6}, "rms_norm_eps is -1e-06, want a number above 0"},
		{map[string]any{"rms_norm_eps": 0}, "rms_norm_eps is 0, want a number above 0"},
		{map[string]any{"rms_norm_eps": 1e308}, "rms_norm_eps is 1e+308, want a number from 1.18e-38 to below 1"},
		{map[string]any{"rms_norm_eps": 1e-320}, "rms_norm_eps is 1e-320, want a number from 1.18e-38 to below 1"},
		{map[string]any{"rope_scaling": map[string]any{"type": "linear", "factor": 2}}, `rope_scaling: rope_type is "linear"; supported are "default" and "yarn"`},
	} {
		if _, err := readConfig(t, change(t, c.fields)); err == nil || err.Error() != "qwen2: dir/config.json: "+c.want {
			t.Errorf("%v:\n %v\nwant\n qwen2: dir/config.json: %s", c.fields, err, c.want)
		}
	}
}

// Whatever the file says: no panic, and memory and numbers stay in bounds.
func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(published))
	for _, data := range golden.Files(f, "../../testdata/models/qwen2_*/config*.json") {
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
		if c.Layers < 1 || c.Heads < 1 || c.KVHeads < 1 || c.Heads%c.KVHeads != 0 || c.HeadDim < 2 || c.HeadDim%2 != 0 || c.MaxPositions < 1 ||
			c.Layers > 10_000 || len(c.RoPE.InvFreq) != c.HeadDim/2 || c.HeadDim > mostHeadDim {
			t.Errorf("accepted %+v", c)
		}
		for _, v := range append([]float32{c.RoPE.Scale, float32(c.RoPE.SoftmaxScale)}, c.RoPE.InvFreq...) {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Errorf("accepted rotary numbers that are not finite: %+v", c.RoPE)
			}
		}
		if len(c.CacheSpec()) != c.Layers {
			t.Errorf("%d cache rows for %d layers", len(c.CacheSpec()), c.Layers)
		}
	})
}
