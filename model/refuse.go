package model

// Refuse names what config.json can ask for in every architecture and none of
// the networks here does. The file is that of a modelType of so many layers.
func Refuse(f *Fields, modelType string, layers int) {
	f.Want("model_type", modelType)
	f.Want("hidden_act", "silu")
	if !f.BoolOr("is_causal", true) {
		f.Fail("is_causal", "is false, as for embeddings; only attention to earlier tokens is supported")
	}
	refuseLayers(f, layers)
	refuseQuantised(f)
}

// refuseLayers takes layer_types that say full attention of every layer,
// as newer transformers write it.
func refuseLayers(f *Fields, layers int) {
	if !f.Has("layer_types") {
		return
	}
	kinds := f.Strings("layer_types")
	for _, kind := range kinds {
		if kind != "full_attention" {
			f.Fail("layer_types", "has %.60q; only \"full_attention\" is supported", kind)
		}
	}
	if len(kinds) != layers {
		f.Fail("layer_types", "has length %d, but num_hidden_layers is %d: take config.json from the model's own download", len(kinds), layers)
	}
}

// refuseQuantised names the method where the file does. The fields are those of
// transformers, of compressed-tensors before it moved there, and of MLX.
func refuseQuantised(f *Fields) {
	for _, field := range []string{"quantization_config", "compression_config", "quantization"} {
		if !f.Has(field) {
			continue
		}
		what := "is " + f.Text(field)
		if f.values[field][0] == '{' {
			if o := f.Object(field); o.Has("quant_method") {
				what = "has quant_method " + o.Text("quant_method")
			}
		}
		f.Fail(field, "%s; quantised weights are not supported: use the model's checkpoint in bfloat16, with --quantize int8 for fewer bytes", what)
	}
}
