// Package comparison decodes one prompt with several methods and says how far
// they are apart: freely, along the same tokens, and, for attention itself, on
// the same queries and cache rows.
//
//	Record        the base: its trajectory along its own tokens
//	Divergence    another method along the base's tokens, fed by itself
//	OutputErrors  another method's attention on the base's trajectory
//	Mass, Reads   which prompt rows exact attention weighs, which a method read
package comparison

import (
	"context"
	"errors"
	"math"
	"slices"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/eval/divergence"
	"blitzen/kvcache"
	"blitzen/model"
)

// Build makes a method's backend over a frozen cache.
type Build func(*kvcache.Cache) (attention.Backend, error)

// Prompt is a session that has read a prompt. Every method starts at its end.
type Prompt struct {
	Session *decode.Session
	Device  device.Device
	Model   model.Model
}

// Trajectory is what a method computed along tokens.
type Trajectory struct {
	Tokens  []int32
	Logits  [][]float32 // [steps][vocab]
	outputs [][]float32 // [steps][layers · heads · dim]; none of RecordLogits
}

func (p Prompt) shape() record.Shape {
	c := p.Model.Config()
	return record.Shape{Layers: c.Layers, Heads: c.Heads, Dim: p.Model.CacheSpec()[0].ValueDim}
}

// RecordLogits follows tokens with a method and keeps its logits in float32: all
// that Divergence asks of a base.
func (p Prompt) RecordLogits(ctx context.Context, build Build, tokens []int32) (Trajectory, error) {
	return p.record(ctx, build, tokens, func() error { return nil })
}

// Record keeps the attention outputs of every token in float32, too, which
// OutputErrors asks of a base.
func (p Prompt) Record(ctx context.Context, build Build, tokens []int32) (Trajectory, error) {
	var r *record.Outputs
	var outputs [][]float32
	recorded := wrap(build, func(inner attention.Backend) (attention.Backend, error) {
		var err error
		r, err = record.NewOutputs(p.Device, inner, p.shape())
		return r, err
	})
	t, err := p.record(ctx, recorded, tokens, func() error {
		last, err := r.Last()
		outputs = append(outputs, last)
		return err
	})
	t.outputs = outputs
	return t, err
}

// record keeps logits and calls each after every step.
func (p Prompt) record(ctx context.Context, build Build, tokens []int32, each func() error) (Trajectory, error) {
	t := Trajectory{Tokens: tokens}
	if err := p.Session.Build(build); err != nil {
		return t, err
	}
	err := p.Session.Follow(ctx, tokens, func(_ int, logits []float32) error {
		t.Logits = append(t.Logits, slices.Clone(logits))
		return each()
	})
	return t, err
}

// wrap puts a backend around another; the inner one is closed if that fails.
func wrap(build Build, around func(attention.Backend) (attention.Backend, error)) Build {
	return func(c *kvcache.Cache) (attention.Backend, error) {
		inner, err := build(c)
		if err != nil {
			return nil, err
		}
		outer, err := around(inner)
		if err != nil {
			inner.Close()
			return nil, err
		}
		return outer, nil
	}
}

// Divergence follows the base's tokens with another method and compares the
// distributions of every step.
func (p Prompt) Divergence(ctx context.Context, build Build, base Trajectory) ([]divergence.Step, error) {
	if err := p.Session.Build(build); err != nil {
		return nil, err
	}
	var steps []divergence.Step
	err := p.Session.Follow(ctx, base.Tokens, func(i int, logits []float32) error {
		steps = append(steps, divergence.Compare(base.Logits[i], logits, base.Tokens[i]))
		return nil
	})
	return steps, err
}

// OutputErrors are, by layer, the attention outputs' relative error against the
// base's: √(Σ|o − o_base|² / Σ|o_base|²) over steps and query heads. The base's
// outputs go on to the next layer, so that both see the same queries and rows.
func (p Prompt) OutputErrors(ctx context.Context, build Build, base Trajectory) ([]float64, error) {
	if len(base.outputs) < len(base.Tokens) {
		return nil, errors.New("the base has no attention outputs: only Record keeps them")
	}
	var r *record.Replay
	err := p.Session.Build(wrap(build, func(inner attention.Backend) (attention.Backend, error) {
		var err error
		r, err = record.NewReplay(p.Device, inner, p.shape())
		return r, err
	}))
	if err != nil {
		return nil, err
	}
	e := newSquares(p.shape().Layers)
	if len(base.outputs) > 0 {
		if err := r.Give(base.outputs[0]); err != nil {
			return nil, err
		}
	}
	err = p.Session.Follow(ctx, base.Tokens, func(i int, _ []float32) error {
		got, err := r.Last()
		if err != nil {
			return err
		}
		e.add(got, base.outputs[i])
		if i+1 < len(base.outputs) {
			return r.Give(base.outputs[i+1])
		}
		return nil
	})
	return e.relative(), err
}

// squares are summed by layer: those of differences, and of what is right.
type squares struct{ wrong, size []float64 }

func newSquares(layers int) squares {
	return squares{make([]float64, layers), make([]float64, layers)}
}

// add takes one step's outputs, [layers · …].
func (e squares) add(got, want []float32) {
	width := len(want) / len(e.size)
	for i := range want {
		d, w := float64(got[i])-float64(want[i]), float64(want[i])
		e.wrong[i/width] += d * d
		e.size[i/width] += w * w
	}
}

func (e squares) relative() []float64 {
	out := make([]float64, len(e.size))
	for i := range out {
		if e.wrong[i] > 0 {
			out[i] = math.Sqrt(e.wrong[i] / e.size[i])
		}
	}
	return out
}
