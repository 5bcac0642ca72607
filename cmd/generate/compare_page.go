package main

import (
	"fmt"
	"strings"

	"blitzen/eval/divergence"
	"blitzen/report"
)

// page is a comparison as a page.
func (m *measurement) page(c *compared) *report.Page {
	p := &report.Page{
		Title: fmt.Sprintf("%s and %s", c.A.Label, c.B.Label),
		Facts: []report.Fact{
			{Name: "model", Value: fmt.Sprintf("%s (%s)", m.Name, c.Model.Architecture)},
			{Name: "weights", Value: c.Model.Hash},
			{Name: "device", Value: fmt.Sprintf("%s, %s", c.Model.Device, strings.ToLower(c.Model.DType))},
			{Name: "prompt", Value: m.describe(m.question)},
			{Name: "answer", Value: strings.TrimSpace(c.A.shown())},
			{Name: "KV access", Value: fmt.Sprintf("%.1f %% and %.1f %%", c.A.Attention.AccessPercent, c.B.Attention.AccessPercent)},
		},
		Divergence: &report.Divergence{Base: c.A.Label, Method: c.B.Label, Tokens: m.pieces(c.A.TokenIDs), Figures: c.figures()},
		Map:        &report.Map{Method: c.B.Label, Tokens: m.pieces(m.ids), Mass: c.mass, Reads: c.reads, Errors: c.Seeds[0].OutputErrors},
	}
	if c.aboveAll() {
		access := &p.Facts[len(p.Facts)-1]
		access.Value += "; " + aboveAll
	}
	d := p.Divergence
	d.NLLBase, d.NLL = make([]float64, len(d.Tokens)), make([]float64, len(d.Tokens))
	for _, s := range c.Seeds {
		d.Seeds, d.KLD = append(d.Seeds, s.Seed), append(d.KLD, klds(s.Tokens))
		for i, step := range s.Tokens {
			d.NLLBase[i] = step.NLLBase
			d.NLL[i] += step.NLL / float64(len(c.Seeds))
		}
	}
	if c.Control != nil {
		d.Control = klds(c.Control.Tokens)
		d.Note = fmt.Sprintf("dense against dense, the prompt read %d in place of %d tokens at once and its rows shuffled", c.Control.Chunk, c.Control.UsualChunk)
	}
	return p
}

func klds(steps []divergence.Step) []float64 {
	out := make([]float64, len(steps))
	for i, s := range steps {
		out[i] = s.KLD
	}
	return out
}

// pieces are the texts of tokens; bytes that are no character on their own show
// as U+FFFD, and ids where there is no tokenizer.
func (m *measurement) pieces(ids []int32) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		if m.Tokenizer == nil {
			out[i] = fmt.Sprintf("%d ", id)
			continue
		}
		text, _ := m.Tokenizer.Bytes(id)
		out[i] = strings.ToValidUTF8(string(text), "\uFFFD")
	}
	return out
}
