package main

import (
	"strings"
	"time"

	"blitzen/eval/comparison"
	"blitzen/eval/divergence"
)

// compared is the JSON object of a comparison. Shares are from 0 to 1 but where
// a key says percent.
type compared struct {
	Prompt    comparedPrompt `json:"prompt"`
	A         sideResult     `json:"a"` // the base
	B         sideResult     `json:"b"` // with the first seed
	Seeds     []seedResult   `json:"seeds"`
	OverSeeds *overSeeds     `json:"over_seeds,omitempty"` // with several seeds
	Control   *controlResult `json:"control,omitempty"`
	// EndedEarly: seeds that were asked for, or the control, are not there.
	EndedEarly bool        `json:"ended_early,omitempty"`
	Model      modelReport `json:"model"`
	Version    string      `json:"version"`

	mass, reads [][]float64 // [layers][prompt tokens]: for --report
}

type comparedPrompt struct {
	Tokens    int     `json:"tokens"`
	ID        string  `json:"id,omitempty"`
	Expected  string  `json:"expected,omitempty"`
	PrefillMS float64 `json:"prefill_ms"`
}

// sideResult is what a method answered on its own.
type sideResult struct {
	Label        string          `json:"label"`
	Attention    attentionReport `json:"attention"`
	Text         string          `json:"text"`
	TokenIDs     []int32         `json:"token_ids"`
	FinishReason string          `json:"finish_reason"`
	Exact        *bool           `json:"exact,omitempty"` // with a reference answer
	BuildMS      float64         `json:"build_ms"`
	DecodeMS     float64         `json:"decode_ms"`
}

// seedResult is the second method against the base with one attention seed.
type seedResult struct {
	Seed          uint64             `json:"seed"`
	TokenIDs      []int32            `json:"token_ids"` // decoded freely
	MatchRate     float64            `json:"token_id_match_rate"`
	FirstDiffers  *int               `json:"first_differing_token"` // null for none
	Exact         *bool              `json:"exact,omitempty"`
	AccessPercent float64            `json:"access_percent"`
	BytesPercent  float64            `json:"bytes_percent"`
	Divergence    divergence.Summary `json:"divergence"`              // along the base's tokens
	OutputErrors  []float64          `json:"attention_output_errors"` // by layer, on the base's trajectory
	Tokens        []divergence.Step  `json:"tokens"`
}

func (s *seedResult) setMatch(base, free []int32) {
	var first int
	if s.MatchRate, first = comparison.Match(base, free); first >= 0 {
		s.FirstDiffers = &first
	}
}

// controlResult is exact attention against itself.
type controlResult struct {
	Chunk      int                `json:"chunk"` // prompt tokens read at once
	UsualChunk int                `json:"usual_chunk"`
	Divergence divergence.Summary `json:"divergence"`
	Tokens     []divergence.Step  `json:"tokens"`
}

// overSeeds is the mean over attention seeds with its standard error.
type overSeeds struct {
	PPLRatio      divergence.Estimate   `json:"mean_ppl_q_ppl_base"`
	MeanKLD       divergence.Estimate   `json:"mean_kld"`
	MaximumKLD    divergence.Estimate   `json:"maximum_kld"`
	P999KLD       divergence.Estimate   `json:"p99_9_kld"`
	MedianKLD     divergence.Estimate   `json:"median_kld"`
	MeanDeltaP    divergence.Estimate   `json:"mean_delta_p"`
	RMSDeltaP     divergence.Estimate   `json:"rms_delta_p"`
	SameTop       divergence.Estimate   `json:"same_top_p"`
	RMSLogit      divergence.Estimate   `json:"rms_logit_error"`
	MatchRate     divergence.Estimate   `json:"token_id_match_rate"`
	AccessPercent divergence.Estimate   `json:"access_percent"`
	BytesPercent  divergence.Estimate   `json:"bytes_percent"`
	OutputErrors  []divergence.Estimate `json:"attention_output_errors"`
}

func (m *measurement) newResult(prefill time.Duration) *compared {
	r := newReport(m.opened)
	c := &compared{Model: r.Model, Version: r.Version}
	c.Prompt = comparedPrompt{Tokens: len(m.ids), ID: m.ID, PrefillMS: milliseconds(prefill)}
	if len(m.Outputs) > 0 {
		c.Prompt.Expected = strings.Join(m.Outputs, ", ")
	}
	return c
}

// over is the mean of a figure over the seeds.
func (c *compared) over(of func(seedResult) float64) divergence.Estimate {
	var values []float64
	for _, s := range c.Seeds {
		values = append(values, of(s))
	}
	return divergence.OverSeeds(values)
}

func (c *compared) overSeeds() {
	if len(c.Seeds) < 2 {
		return
	}
	summary := func(of func(divergence.Summary) float64) divergence.Estimate {
		return c.over(func(s seedResult) float64 { return of(s.Divergence) })
	}
	c.OverSeeds = &overSeeds{
		PPLRatio:      summary(func(d divergence.Summary) float64 { return d.PPLRatio.Value }),
		MeanKLD:       summary(func(d divergence.Summary) float64 { return d.MeanKLD.Value }),
		MaximumKLD:    summary(func(d divergence.Summary) float64 { return d.KLD.Maximum }),
		P999KLD:       summary(func(d divergence.Summary) float64 { return d.KLD.P999 }),
		MedianKLD:     summary(func(d divergence.Summary) float64 { return d.KLD.Median }),
		MeanDeltaP:    summary(func(d divergence.Summary) float64 { return d.MeanDeltaP.Value }),
		RMSDeltaP:     summary(func(d divergence.Summary) float64 { return d.RMSDeltaP.Value }),
		SameTop:       summary(func(d divergence.Summary) float64 { return d.SameTop.Value }),
		RMSLogit:      summary(func(d divergence.Summary) float64 { return d.RMSLogit.Value }),
		MatchRate:     c.over(func(s seedResult) float64 { return s.MatchRate }),
		AccessPercent: c.over(func(s seedResult) float64 { return s.AccessPercent }),
		BytesPercent:  c.over(func(s seedResult) float64 { return s.BytesPercent }),
	}
	for layer := range c.Seeds[0].OutputErrors {
		c.OverSeeds.OutputErrors = append(c.OverSeeds.OutputErrors, c.over(func(s seedResult) float64 { return s.OutputErrors[layer] }))
	}
}
