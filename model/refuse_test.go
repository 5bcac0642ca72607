package model

import "testing"

func TestRefuse(t *testing.T) {
	const quantised = "; quantised weights are not supported: use the model's checkpoint in bfloat16, with --quantize int8 for fewer bytes"
	for _, c := range []struct{ fields, want string }{
		{`"layer_types": ["full_attention"]`, "layer_types has length 1, but num_hidden_layers is 2: take config.json from the model's own download"},
		{`"layer_types": []`, "layer_types has length 0, but num_hidden_layers is 2: take config.json from the model's own download"},
		{`"layer_types": ["full_attention", "full_attention", "full_attention"]`, "layer_types has length 3, but num_hidden_layers is 2: take config.json from the model's own download"},
		{`"layer_types": ["full_attention", "sliding_attention"]`, `layer_types has "sliding_attention"; only "full_attention" is supported`},
		{`"layer_types": "full_attention"`, `layer_types is "full_attention", want a list of texts`},
		{`"model_type": "qwen3"`, `model_type is "qwen3"; only "qwen2" is supported`},
		{`"quantization_config": {"bits": 4, "quant_method": "gptq", "group_size": 128}`, `quantization_config has quant_method "gptq"` + quantised},
		{`"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}`, `quantization_config has quant_method "bitsandbytes"` + quantised},
		{`"quantization_config": {"quant_method": ["fp8",   1]}`, `quantization_config has quant_method ["fp8", 1]` + quantised},
		{`"quantization_config": {"load_in_8bit": true}`, `quantization_config is {"load_in_8bit": true}` + quantised},
		{`"quantization_config": {"quant_method": null}`, `quantization_config is {"quant_method": null}` + quantised},
		{`"quantization_config": {}`, `quantization_config is {}` + quantised},
		{`"quantization_config": "fp8"`, `quantization_config is "fp8"` + quantised},
		{`"compression_config": {"quant_method": "compressed-tensors"}`, `compression_config has quant_method "compressed-tensors"` + quantised},
		{`"quantization": {"group_size": 64, "bits": 4}`, `quantization is {"group_size": 64, "bits": 4}` + quantised},
		{`"is_causal": false`, "is_causal is false, as for embeddings; only attention to earlier tokens is supported"},
		{`"hidden_act": "gelu"`, `hidden_act is "gelu"; only "silu" is supported`},
	} {
		f := parse(t, "{"+c.fields+"}")
		Refuse(f, "qwen2", 2)
		wantError(t, f.Err(), "dir/config.json: "+c.want)
	}
}

// What published files say is no reason to refuse them.
func TestRefuseAccepts(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`{"model_type": "qwen2", "is_causal": true, "hidden_act": "silu", "layer_types": ["full_attention", "full_attention"]}`,
		`{"model_type": null, "layer_types": null, "is_causal": null, "quantization_config": null}`,
	} {
		f := parse(t, text)
		Refuse(f, "qwen2", 2)
		if f.Err() != nil {
			t.Errorf("%s: %v", text, f.Err())
		}
	}
}
