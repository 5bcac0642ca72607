package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"blitzen/decode"
	"blitzen/sample"
)

// generationReport is the JSON object of a generation. Times are in milliseconds, under
// llama.cpp's names.
type generationReport struct {
	Text         string          `json:"text"`
	TokenIDs     []int32         `json:"token_ids"`
	PromptTokens int             `json:"prompt_tokens"`
	FinishReason string          `json:"finish_reason"`
	LogProbs     []tokenReport   `json:"logprobs"` // empty unless asked for
	Attention    attentionReport `json:"attention"`
	Timings      timings         `json:"timings"`
	Sampling     sample.Settings `json:"sampling"`
	Model        modelReport     `json:"model"`
	Version      string          `json:"version"`
}

type tokenReport struct {
	TokenID int32             `json:"token_id"`
	Token   string            `json:"token,omitempty"`
	LogProb float32           `json:"logprob"`
	Top     []candidateReport `json:"top"`
}

type candidateReport struct {
	TokenID int32   `json:"token_id"`
	Token   string  `json:"token,omitempty"`
	LogProb float32 `json:"logprob"`
}

type timings struct {
	LoadMS        float64 `json:"load_ms"`
	PromptN       int     `json:"prompt_n"`
	PromptMS      float64 `json:"prompt_ms"`
	PromptPerSec  float64 `json:"prompt_per_second"`
	BuildMS       float64 `json:"build_ms"` // building teams
	PredictedN    int     `json:"predicted_n"`
	PredictedMS   float64 `json:"predicted_ms"`
	PredictedEach float64 `json:"predicted_per_token_ms"`
	PredictedSec  float64 `json:"predicted_per_second"`
}

type modelReport struct {
	Path         string `json:"path"`
	Architecture string `json:"architecture"`
	Hash         string `json:"hash"`
	DType        string `json:"dtype"`
	Quantize     string `json:"quantize"`
	Device       string `json:"device"`
}

func newReport(o *opened) generationReport {
	return generationReport{Version: version, LogProbs: []tokenReport{}, Model: modelReport{
		Path: o.Dir, Architecture: o.Config.Architecture, Hash: o.Checkpoint.Fingerprint(),
		DType: o.Device.DType().String(), Quantize: o.quantize(), Device: o.Device.Name(),
	}}
}

func (r *generationReport) fill(g *generation, s *decode.Session, ids []int32, result decode.Result) {
	r.Text, r.TokenIDs, r.FinishReason = result.Text, result.IDs(), result.Finish
	r.PromptTokens, r.Sampling = len(ids), g.settings
	r.Attention = g.attentionFlags.report(s.Access(), g.attentionFlags.seedFor(g.cmd.Flags(), g.settings.Seed))
	if g.logprobs > 0 {
		r.addLogProbs(g.opened, result.Tokens)
	}
	t := &r.Timings
	t.PromptN, t.PredictedN, t.PredictedMS = len(ids), len(result.Tokens), milliseconds(result.Decode)
	t.PromptPerSec = perSecond(t.PromptN, t.PromptMS)
	t.PredictedSec = perSecond(t.PredictedN, t.PredictedMS)
	if t.PredictedN > 0 {
		t.PredictedEach = t.PredictedMS / float64(t.PredictedN)
	}
}

func (r *generationReport) addLogProbs(o *opened, tokens []decode.Token) {
	// A token's own text; bytes that are no character on their own show as
	// U+FFFD.
	piece := func(id int32) string {
		if o.Tokenizer == nil {
			return ""
		}
		text, _ := o.Tokenizer.Bytes(id)
		return strings.ToValidUTF8(string(text), "\uFFFD")
	}
	for _, t := range tokens {
		entry := tokenReport{TokenID: t.ID, Token: piece(t.ID), LogProb: t.LogProb}
		for _, c := range t.Top {
			entry.Top = append(entry.Top, candidateReport{c.ID, piece(c.ID), c.LogProb})
		}
		r.LogProbs = append(r.LogProbs, entry)
	}
}

// print writes the figures for people.
func (r *generationReport) print(w io.Writer) {
	t := r.Timings
	fmt.Fprintf(w, "load         %10.1f ms\n", t.LoadMS)
	fmt.Fprintf(w, "prompt       %10.1f ms  %6d tokens  %8.1f tokens/s\n", t.PromptMS, t.PromptN, t.PromptPerSec)
	fmt.Fprintf(w, "teams        %10.1f ms\n", t.BuildMS)
	fmt.Fprintf(w, "decode       %10.1f ms  %6d tokens  %8.1f tokens/s\n", t.PredictedMS, t.PredictedN, t.PredictedSec)
	fmt.Fprintf(w, "KV access    %10.2f %%   selected rows alone %.2f %%, bytes %.2f %%\n", r.Attention.AccessPercent, r.Attention.SelectedPercent, r.Attention.BytesPercent)
	r.Attention.printExhaustive(w, "             "+r.Attention.Name)
	if r.Attention.AccessPercent > 100 {
		fmt.Fprintf(w, "             %s\n", aboveAll)
	}
	fmt.Fprintf(w, "sampling     temperature %g (%s), top-k %d (%s), top-p %g (%s), min-p %g (%s), repetition penalty %g (%s)\n",
		r.Sampling.Temperature, r.Sampling.Origin["temperature"], r.Sampling.TopK, r.Sampling.Origin["top_k"], r.Sampling.TopP, r.Sampling.Origin["top_p"],
		r.Sampling.MinP, r.Sampling.Origin["min_p"], r.Sampling.Repetition, r.Sampling.Origin["repetition_penalty"])
	fmt.Fprintf(w, "finish       %s\n", cmp.Or(r.FinishReason, "cut short"))
}

func perSecond(n int, ms float64) float64 {
	if ms == 0 {
		return 0
	}
	return float64(n) / ms * 1000
}

// idList prints ids as --prompt-ids reads them.
func idList(ids []int32) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")
}
