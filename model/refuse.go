package model

// Refuse names what config.json can ask for in every architecture and none of
// the networks here does. The file is that of a modelType of so many layers.
func Refuse(f *Fields, modelType string, layers int) {
	f.Want("model_type", modelType)
	f.Want("hidden_act", "silu")
	refuseLayers(f, layers)
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
