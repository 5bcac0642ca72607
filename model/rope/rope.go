// Package rope reads rotary position encodings from a config.json, in both of
// its spellings, and computes their frequencies: plain and YaRN.
package rope

import (
	"math"

	"blitzen/model"
)

// Encoding is a rotary encoding of width 2·len(InvFreq).
type Encoding struct {
	InvFreq []float32 // radians a position
	Scale   float32   // factor of cos and sin
	// SoftmaxScale multiplies 1/√d where a model asks for it (DeepSeek-V2):
	// (0.1·mscale_all_dim·ln(factor) + 1)², else 1.
	SoftmaxScale float64
	// MaxPositions is what the scaling stretches to, in tokens; 0 without.
	MaxPositions int
}

// Parameters are what a model's config.json says beside rope_theta, nil if
// nothing: rope_scaling, or rope_parameters as transformers 5 writes. Where both
// stand, rope_scaling counts unless it is empty: users add it to stretch a
// context. Of parameters by kind of layer, those of full attention count.
// Source: transformers modeling_rope_utils.py, convert_rope_params_to_dict.
func Parameters(f *model.Fields) *model.Fields {
	params := f.Object("rope_scaling")
	if params == nil || params.Len() == 0 {
		params = f.Object("rope_parameters")
	}
	if params == nil {
		return nil
	}
	if params.Has(fullAttention) {
		return params.Object(fullAttention)
	}
	if kinds := params.Objects(); len(kinds) > 0 {
		params.Fail(fullAttention, "is missing beside %.60q; only full attention is supported", kinds[0])
	}
	return params
}

const (
	fullAttention = "full_attention"

	// No model comes near these; a file that does is damaged.
	mostTheta = 1e15
	mostScale = 1000
)

// thetaOf is the object that holds rope_theta.
func thetaOf(f, params *model.Fields) *model.Fields {
	if params != nil && params.Has("rope_theta") {
		return params
	}
	if old := f.Object("rope_parameters"); !f.Has("rope_theta") && old != nil {
		if old.Has(fullAttention) {
			old = old.Object(fullAttention)
		}
		if old.Has("rope_theta") {
			return old
		}
	}
	return f
}

// Read takes the encoding of width dim from a model's config.json: Parameters
// with rope_theta in them or beside them.
func Read(f *model.Fields, dim int) Encoding {
	params := Parameters(f)
	where := thetaOf(f, params)
	theta := where.Float("rope_theta")
	if theta <= 1 || theta >= mostTheta {
		where.Fail("rope_theta", "is %v, want a number above 1 and below %v", theta, mostTheta)
	}
	for _, o := range []*model.Fields{f, params, f.Object("rope_parameters")} {
		if o == nil {
			continue
		}
		if part := o.FloatOr("partial_rotary_factor", 1); part != 1 {
			o.Fail("partial_rotary_factor", "is %v, want 1: rotation of a part of each head is not supported", part)
		}
	}
	kind := "default"
	if params != nil {
		kind = params.StringOr("rope_type", params.StringOr("type", "default"))
		if old := params.StringOr("type", kind); old != kind {
			params.Fail("rope_type", "is %.60q and type %.60q; leave one of them", kind, old)
		}
		if !params.Has("rope_type") && !params.Has("type") && params.Has("factor") {
			params.Fail("rope_type", "is missing beside factor; it changes the result and has no default")
		}
	}
	e := Encoding{InvFreq: frequencies(theta, dim), Scale: 1, SoftmaxScale: 1}
	switch kind {
	case "default":
	case "yarn":
		e.yarn(params, theta, dim)
	default:
		params.Fail("rope_type", "is %.60q; supported are \"default\" and \"yarn\"", kind)
	}
	return e
}

// frequencies are θ^(−2i/dim), rounded to float32 as transformers keeps them.
func frequencies(theta float64, dim int) []float32 {
	inv := make([]float32, dim/2)
	for i := range inv {
		inv[i] = float32(1 / math.Pow(theta, float64(2*i)/float64(dim)))
	}
	return inv
}

// yarn stretches low frequencies by factor and keeps high ones, with a linear
// ramp between the dimensions that turn beta_fast and beta_slow times within
// the original length. Source: transformers modeling_rope_utils.py,
// _compute_yarn_parameters; Peng et al., YaRN (2023).
func (e *Encoding) yarn(p *model.Fields, theta float64, dim int) {
	factor := p.Float("factor")
	original := p.Int("original_max_position_embeddings", 1, math.MaxInt32)
	fast, slow := p.FloatOr("beta_fast", 32), p.FloatOr("beta_slow", 1)
	// transformers passes over these two, vLLM multiplies by them.
	if v := p.FloatOr("attn_factor", 1); v != 1 {
		p.Fail("attn_factor", "is %v, want 1: runtimes disagree on whether it counts; attention_factor does", v)
	}
	if v := p.FloatOr("extrapolation_factor", 1); v != 1 {
		p.Fail("extrapolation_factor", "is %v, want 1: runtimes disagree on whether it counts", v)
	}
	if factor < 1 {
		p.Fail("factor", "is %v, want a number of at least 1", factor)
	}
	if factor*float64(original) > math.MaxInt32 {
		p.Fail("factor", "is %v: %d positions times that are more than %d", factor, original, math.MaxInt32)
	}
	if p.Err() != nil {
		return
	}
	turns := func(n float64) float64 { // dimension that turns n times
		return float64(dim) * math.Log(float64(original)/(n*2*math.Pi)) / (2 * math.Log(theta))
	}
	low, high := turns(fast), turns(slow)
	if math.IsInf(low, 0) || math.IsInf(high, 0) {
		p.Fail("beta_fast", "is %v and beta_slow %v, out of every dimension's reach", fast, slow)
		return
	}
	if p.BoolOr("truncate", true) {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(dim-1))
	if low == high {
		high += 0.001 // as the source does: no division by zero
	}
	for i := range e.InvFreq {
		keep := 1 - min(max((float64(i)-low)/(high-low), 0), 1)
		plain := 1 / math.Pow(theta, float64(2*i)/float64(dim))
		e.InvFreq[i] = float32(plain/factor*(1-keep) + plain*keep)
	}
	m, all := p.ZeroOr("mscale"), p.ZeroOr("mscale_all_dim")
	switch {
	case p.Has("attention_factor"):
		e.Scale = p.Float32("attention_factor", mostScale)
	case m > 0 && all > 0:
		e.Scale = float32(yarnMScale(factor, m) / yarnMScale(factor, all))
	default:
		e.Scale = float32(yarnMScale(factor, 1))
	}
	if all > 0 {
		e.SoftmaxScale = yarnMScale(factor, all) * yarnMScale(factor, all)
	}
	e.MaxPositions = int(factor * float64(original))
	if !model.FitsFloat32(float64(e.Scale), mostScale) || !model.FitsFloat32(e.SoftmaxScale, mostScale) {
		p.Fail("mscale", "with factor and attention_factor gives %v and %v as scales, want both below %d", e.Scale, e.SoftmaxScale, mostScale)
	}
}

// yarnMScale is 0.1·m·ln(s) + 1 for s > 1, else 1. Source: DeepSeek-V2-Lite
// modeling_deepseek.py, yarn_get_mscale.
func yarnMScale(s, m float64) float64 {
	if s <= 1 {
		return 1
	}
	return 0.1*m*math.Log(s) + 1
}
