package deepseekv2

import (
	"fmt"
	"math"
	"slices"

	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/model/rope"
)

// Architecture is the name in config.json.
const Architecture = "DeepseekV2ForCausalLM"

// Config is a checked config.json of the DeepSeek-V2 family.
type Config struct {
	model.Config
	Hidden     int
	Inner      int // width of the MLP of a dense layer
	QueryRank  int // q_lora_rank: width of the compressed query; 0 for none
	LatentRank int // kv_lora_rank: width of the latent that keys and values come from
	NopeDim    int // numbers of a head's key without position
	RopeDim    int // numbers of the rotated key part, which all heads share
	ValueDim   int // numbers of a head's value
	Eps        float32
	TiedHead   bool // logits by the embedding table
	RoPE       rope.Encoding
	MoE        MoE
}

// MoE describes the layers that route a token to experts.
type MoE struct {
	Experts     int // routed experts a layer; 0: every layer is dense
	TopK        int // experts a token goes to
	Inner       int // width of one expert
	SharedInner int // width of the MLP that every token goes through beside its experts; 0 for none
	FirstLayer  int // earlier layers are dense
	Every       int // of the later ones, those whose number it divides have experts
	Groups      int // groups of experts; 1 for plain greedy
	TopGroups   int // groups that a token's experts may come from
	Normalize   bool
	Scale       float32 // of the chosen weights, unless they are normalised
}

const (
	most      = 1 << 24 // widest matrix side
	mostSmall = 1 << 16 // heads, experts and rotary numbers
	mostPairs = 1 << 16 // experts of all layers: DeepSeek-V3 has 14,848
	mostScale = 1000    // of experts: DeepSeek-V2 has 16
)

// ReadConfig checks the fields of config.json that matter here; unknown ones
// are ignored.
func ReadConfig(f *model.Fields) (Config, error) {
	c := Config{
		Config: model.Config{
			Architecture: Architecture,
			Vocab:        f.Int("vocab_size", 1, most),
			Layers:       f.Int("num_hidden_layers", 1, 10_000),
			Heads:        f.Int("num_attention_heads", 1, mostSmall),
			MaxPositions: f.Int("max_position_embeddings", 1, math.MaxInt32),
		},
		Hidden:     f.Int("hidden_size", 1, most),
		Inner:      f.Int("intermediate_size", 1, most),
		QueryRank:  f.IntOr("q_lora_rank", 0, 1, most),
		LatentRank: f.Int("kv_lora_rank", 1, most),
		NopeDim:    f.Int("qk_nope_head_dim", 1, most),
		RopeDim:    f.Int("qk_rope_head_dim", 2, mostSmall),
		ValueDim:   f.Int("v_head_dim", 1, most),
		Eps:        f.Float32("rms_norm_eps", 1),
		TiedHead:   f.BoolOr("tie_word_embeddings", false),
		MoE:        readMoE(f),
	}
	refuse(f, c.Layers)
	if n := c.Layers * c.MoE.Experts; n > mostPairs {
		f.Fail("n_routed_experts", "is %d in each of %d layers; at most %d experts in all are supported", c.MoE.Experts, c.Layers, mostPairs)
	}
	if c.RopeDim%2 != 0 {
		f.Fail("qk_rope_head_dim", "is %d; rotary encoding needs an even number", c.RopeDim)
	}
	if f.Err() != nil {
		return Config{}, fmt.Errorf("deepseekv2: %w", f.Err())
	}
	c.RoPE = rope.Read(f, c.RopeDim)
	c.MaxPositions = max(c.MaxPositions, c.RoPE.MaxPositions)
	if f.Err() != nil {
		return Config{}, fmt.Errorf("deepseekv2: %w", f.Err())
	}
	return c, nil
}

// refuse names what a checkpoint asks for that this network does not do.
func refuse(f *model.Fields, layers int) {
	if names := f.Strings("architectures"); !slices.Contains(names, Architecture) {
		f.Fail("architectures", "is %q; this is the network of %q", names, Architecture)
	}
	model.Refuse(f, "deepseek_v2", layers)
	for _, field := range []string{"attention_bias", "mlp_bias"} {
		if f.BoolOr(field, false) {
			f.Fail(field, "is true; projections with a bias are not supported")
		}
	}
	if !f.BoolOr("rope_interleave", true) {
		f.Fail("rope_interleave", "is false; only rotation of adjacent pairs is supported")
	}
	if scaling := rope.Parameters(f); scaling != nil && scaling.Has("mscale") != scaling.Has("mscale_all_dim") {
		scaling.Fail("mscale", "and mscale_all_dim must both be set or both be absent: runtimes disagree on what one alone means")
	}
}

func readMoE(f *model.Fields) MoE {
	if !f.Has("n_routed_experts") {
		return MoE{}
	}
	e := MoE{
		Experts:    f.Int("n_routed_experts", 1, mostSmall),
		TopK:       f.Int("num_experts_per_tok", 1, mostSmall),
		Inner:      f.Int("moe_intermediate_size", 1, most),
		FirstLayer: f.Int("first_k_dense_replace", 0, most),
		Every:      f.IntOr("moe_layer_freq", 1, 1, most),
		Groups:     1,
		TopGroups:  1,
		Normalize:  f.BoolOr("norm_topk_prob", false),
		Scale:      f.Float32("routed_scaling_factor", mostScale),
	}
	e.SharedInner = e.Inner * f.IntOr("n_shared_experts", 0, 0, mostSmall)
	f.Want("scoring_func", "softmax")
	switch method := f.String("topk_method"); method {
	case "greedy":
	case "group_limited_greedy":
		e.Groups = f.Int("n_group", 1, e.Experts)
		e.TopGroups = f.Int("topk_group", 1, e.Groups)
	default:
		f.Fail("topk_method", "is %.60q; supported are \"greedy\" and \"group_limited_greedy\"", method)
	}
	if e.Experts%e.Groups != 0 {
		f.Fail("n_routed_experts", "is %d, which n_group = %d does not divide", e.Experts, e.Groups)
	}
	if allowed := e.Experts / e.Groups * e.TopGroups; e.TopK > allowed {
		f.Fail("num_experts_per_tok", "is %d, but a token may choose from %d experts only", e.TopK, allowed)
	}
	return e
}

// Routed reports whether a layer has experts.
func (c Config) Routed(layer int) bool {
	e := c.MoE
	return e.Experts > 0 && layer >= e.FirstLayer && layer%e.Every == 0
}

// CacheSpec describes the cache rows, one entry a layer: the normalised latent
// beside the rotated key part, once for all heads; the latent is the value too,
// and what teams are made of.
func (c Config) CacheSpec() []kvcache.Spec {
	return slices.Repeat([]kvcache.Spec{{
		KVHeads:          1,
		KeyDim:           c.LatentRank + c.RopeDim,
		ValueDim:         c.LatentRank,
		ValueIsKeyPrefix: true,
		ClusterDim:       c.LatentRank,
	}}, c.Layers)
}

// ExpandedWidth is the numbers that a token would store in all layers if the
// cache held every head's own key and value.
func (c Config) ExpandedWidth() int { return c.Layers * c.Heads * c.headWidth() }

// headWidth is the numbers of one head's key and value.
func (c Config) headWidth() int { return c.NopeDim + c.RopeDim + c.ValueDim }

// softmaxScale is the factor of q·k: 1/√d of the expanded key, times YaRN's
// mscale², whichever form attention takes.
func (c Config) softmaxScale() float32 {
	return float32(c.RoPE.SoftmaxScale / math.Sqrt(float64(c.NopeDim+c.RopeDim)))
}
