package main

import (
	"blitzen/eval"
	"blitzen/eval/comparison"
	"blitzen/eval/divergence"
)

// exact is exact attention's answer to a prompt, which other methods follow.
func (r *evaluation) exact(p comparison.Prompt, q question) (*comparison.Trajectory, error) {
	build, err := r.builderOf(r.attentionFlags.as("dense"), 0)
	if err != nil {
		return nil, err
	}
	if err := p.Session.Build(build); err != nil {
		return nil, err
	}
	limits, err := q.limits(r.opened)
	if err != nil {
		return nil, err
	}
	result, err := p.Session.Generate(r.cmd.Context(), limits, nil)
	if err != nil {
		return nil, err
	}
	t, err := p.RecordLogits(r.cmd.Context(), build, result.IDs())
	return &t, err
}

// sumOf is what results files hold of a prompt's steps.
func sumOf(steps []divergence.Step) *eval.Divergence {
	d := eval.Divergence{Steps: len(steps)}
	for _, step := range steps {
		d.KL += step.KLD
		d.Max = max(d.Max, step.KLD)
		if step.SameTop {
			d.Same++
		}
	}
	return &d
}

// builderOf makes a method's backend with an attention seed.
func (r *evaluation) builderOf(flags attentionFlags, seed uint64) (comparison.Build, error) {
	return flags.seeded(r.cmd.Context(), r.opened.loaded, seed, nil)
}
