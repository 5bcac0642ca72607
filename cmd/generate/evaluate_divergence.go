package main

import (
	"slices"

	"blitzen/decode"
	"blitzen/eval"
	"blitzen/eval/divergence"
)

// course is exact attention's answer to a prompt, which other methods follow.
type course struct {
	ids    []int32
	logits [][]float32 // [steps][vocab]
}

// exactCourse decodes with exact attention and keeps the logits of its steps.
func (r *evaluation) exactCourse(s *decode.Session, q question) (*course, error) {
	exact := r.attentionFlags.as("dense")
	if err := r.build(s, exact, 0); err != nil {
		return nil, err
	}
	result, err := s.Generate(r.cmd.Context(), decode.Limits{MaxTokens: q.maxTokens, EOS: r.opened.EOS}, nil)
	if err != nil {
		return nil, err
	}
	c := &course{ids: result.IDs()}
	err = s.Follow(r.cmd.Context(), c.ids, func(_ int, logits []float32) error {
		c.logits = append(c.logits, slices.Clone(logits))
		return nil
	})
	return c, err
}

// diverge follows the course with the method that is built.
func (r *evaluation) diverge(s *decode.Session, c *course) (*eval.Divergence, error) {
	var d eval.Divergence
	err := s.Follow(r.cmd.Context(), c.ids, func(i int, logits []float32) error {
		step := divergence.Compare(c.logits[i], logits, c.ids[i])
		d.Steps++
		d.KL += step.KLD
		d.Max = max(d.Max, step.KLD)
		if step.SameTop {
			d.Same++
		}
		return nil
	})
	return &d, err
}

// build makes a method's backend over the prompt's cache.
func (r *evaluation) build(s *decode.Session, flags attentionFlags, seed uint64) error {
	flags.seed = seed
	build, err := flags.builder(r.cmd.Context(), r.opened.loaded, r.cmd.Flags(), seed, nil)
	if err != nil {
		return err
	}
	return s.Build(build)
}
