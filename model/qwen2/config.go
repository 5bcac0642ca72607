package qwen2

import (
	"fmt"
	"math"

	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/model/rope"
)

// Architecture is the name in config.json.
const Architecture = "Qwen2ForCausalLM"

// mostHeadDim bounds the memory that a config.json alone can ask for.
const mostHeadDim = 4096

// Config is a checked config.json of the Qwen2 family.
type Config struct {
	model.Config
	Hidden   int
	Inner    int // width of the MLP
	KVHeads  int
	HeadDim  int
	Eps      float32
	TiedHead bool // logits by the embedding table
	RoPE     rope.Encoding
}

// ReadConfig checks the fields of config.json that matter here; unknown ones
// are ignored.
func ReadConfig(f *model.Fields) (Config, error) {
	const most = 1 << 24
	c := Config{
		Config: model.Config{
			Architecture: Architecture,
			Vocab:        f.Int("vocab_size", 1, most),
			Layers:       f.Int("num_hidden_layers", 1, 10_000),
			Heads:        f.Int("num_attention_heads", 1, most),
			MaxPositions: f.Int("max_position_embeddings", 1, math.MaxInt32),
		},
		Hidden:   f.Int("hidden_size", 1, most),
		Inner:    f.Int("intermediate_size", 1, most),
		Eps:      f.Float32("rms_norm_eps", 1),
		TiedHead: f.BoolOr("tie_word_embeddings", false),
	}
	c.KVHeads = f.IntOr("num_key_value_heads", c.Heads, 1, most)
	model.Refuse(f, "qwen2", c.Layers)
	if f.BoolOr("use_sliding_window", false) {
		f.Fail("use_sliding_window", "is true; sliding-window attention is not supported")
	}
	if c.Heads%c.KVHeads != 0 {
		f.Fail("num_attention_heads", "is %d, which num_key_value_heads = %d does not divide", c.Heads, c.KVHeads)
	}
	c.HeadDim = f.IntOr("head_dim", c.Hidden/c.Heads, 1, most)
	if !f.Has("head_dim") && c.Hidden%c.Heads != 0 {
		f.Fail("num_attention_heads", "is %d, which does not divide hidden_size = %d", c.Heads, c.Hidden)
	}
	if c.HeadDim > mostHeadDim {
		f.Fail("num_attention_heads", "gives heads of %d numbers; at most %d are supported", c.HeadDim, mostHeadDim)
	}
	if c.HeadDim%2 != 0 {
		f.Fail("num_attention_heads", "gives heads of %d numbers; rotary encoding needs an even number", c.HeadDim)
	}
	if f.Err() != nil {
		return Config{}, fmt.Errorf("qwen2: %w", f.Err())
	}
	c.RoPE = rope.Read(f, c.HeadDim)
	c.MaxPositions = max(c.MaxPositions, c.RoPE.MaxPositions)
	if f.Err() != nil {
		return Config{}, fmt.Errorf("qwen2: %w", f.Err())
	}
	return c, nil
}

// CacheSpec describes the cache rows, one entry a layer.
func (c Config) CacheSpec() []kvcache.Spec {
	specs := make([]kvcache.Spec, c.Layers)
	for i := range specs {
		specs[i] = kvcache.Spec{KVHeads: c.KVHeads, KeyDim: c.HeadDim, ValueDim: c.HeadDim}
	}
	return specs
}
