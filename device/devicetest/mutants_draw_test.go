package devicetest

import (
	"errors"
	"math"

	"blitzen/device"
)

func teamMutants() []mutant {
	var k kernels
	teams := func(edit func(a *device.TopKArgs)) func(c *changed) {
		return func(c *changed) {
			c.sampleTopK = func(a device.TopKArgs) error {
				edit(&a)
				return k.SampleTopK(a)
			}
		}
	}
	return []mutant{
		{"SampleTopK: another layer", teams(func(a *device.TopKArgs) { a.Draw.Layer++ })},
		{"SampleTopK: another position", teams(func(a *device.TopKArgs) { a.Draw.Pos = edited(a.Draw.Pos, plus(1)) })},
		{"SampleTopK: seed halves exchanged", teams(func(a *device.TopKArgs) { a.Draw.Seed = swapped(a.Draw.Seed) })},
		{"SampleTopK: teams that are not there", teams(func(a *device.TopKArgs) {
			a.Phi = edited(a.Phi, func(_ int, v float64) float64 { return max(v, -3) })
		})},
		{"SampleTopK: the K-th for the (K+1)-th", func(c *changed) { c.sampleTopK = laxThreshold }},
		{"SampleTopK: no correction", func(c *changed) {
			c.sampleTopK = func(a device.TopKArgs) error { return errors.Join(k.SampleTopK(a), setEdited(a.LogC, times(0))) }
		}},
		{"SampleTopK: chances 1/1000 off", func(c *changed) {
			c.sampleTopK = func(a device.TopKArgs) error {
				return errors.Join(k.SampleTopK(a), setEdited(a.LogC, func(_ int, v float64) float64 { return v + 1e-3 }))
			}
		}},
	}
}

func replacementMutants() []mutant {
	var k kernels
	draws := func(edit func(a *device.ReplacementArgs)) func(c *changed) {
		return func(c *changed) {
			c.sampleReplacement = func(a device.ReplacementArgs) error {
				edit(&a)
				return k.SampleWithReplacement(a)
			}
		}
	}
	masses := func(groupMass func(phi, scores, offsets *tensor) error) func(c *changed) {
		return func(c *changed) { c.groupMass = groupMass }
	}
	quantized := func(quantize func(dst, src *tensor) error) func(c *changed) {
		return func(c *changed) { c.quantize = quantize }
	}
	return []mutant{
		{"SampleWithReplacement: another layer", draws(func(a *device.ReplacementArgs) { a.Draw.Layer++ })},
		{"SampleWithReplacement: another position", draws(func(a *device.ReplacementArgs) { a.Draw.Pos = edited(a.Draw.Pos, plus(1)) })},
		{"SampleWithReplacement: seed halves exchanged", draws(func(a *device.ReplacementArgs) { a.Draw.Seed = swapped(a.Draw.Seed) })},
		{"SampleWithReplacement: never systematic", draws(func(a *device.ReplacementArgs) { a.Systematic = false })},
		{"SampleWithReplacement: teams that are not there", draws(func(a *device.ReplacementArgs) {
			a.Phi = edited(a.Phi, func(_ int, v float64) float64 { return max(v, -3) })
		})},
		{"SampleWithReplacement: the chance of one draw", func(c *changed) {
			c.sampleReplacement = func(a device.ReplacementArgs) error {
				s := math.Log(float64(a.Teams.Shape[2]))
				return errors.Join(k.SampleWithReplacement(a), setEdited(a.LogC, func(_ int, v float64) float64 { return v - s }))
			}
		}},
		{"Quantize: to 480", quantized(func(dst, src *tensor) error {
			err := k.Quantize(dst, src)
			f := dst.Scale.Index(1, 0)
			return errors.Join(err, setEdited(f, times(448.0/480)))
		})},
		{"Quantize: halves away from zero", quantized(func(dst, src *tensor) error {
			return k.Quantize(dst, edited(src, times(1+0x1p-20)))
		})},
		{"Quantize: the factor of the first head", quantized(func(dst, src *tensor) error {
			err := k.Quantize(dst, src)
			for h := range src.Shape[0] {
				setNumber(dst.Scale, number(dst.Scale, 0, 0), h, 0)
			}
			return err
		})},
		{"Route: the factor of the first key head", func(c *changed) {
			c.route = func(a device.RouteArgs) error {
				if a.Reps.DType == device.F8 {
					reps := *a.Reps
					reps.Scale = reps.Scale.Index(0, 0).Repeat(0, reps.Shape[0])
					a.Reps = &reps
				}
				return k.Route(a)
			}
		}},
		{"GroupMass: the largest alone", masses(func(phi, scores, offsets *tensor) error {
			group := phi.Shape[1] / offsets.Shape[0]
			for _, index := range indices(phi.Shape) {
				top := math.Inf(-1)
				for i := integer(offsets, index[1]/group, index[2]); i < integer(offsets, index[1]/group, index[2]+1); i++ {
					top = max(top, number(scores, index[0], index[1], i))
				}
				setNumber(phi, top, index...)
			}
			return nil
		})},
		{"GroupMass: groups of the first key head", masses(func(phi, scores, offsets *tensor) error {
			return k.GroupMass(phi, scores, offsets.Index(0, 0).Repeat(0, offsets.Shape[0]))
		})},
	}
}

func tokenMutants() []mutant {
	var k kernels
	token := func(edit func(a *device.SampleArgs)) func(c *changed) {
		return func(c *changed) {
			c.sample = func(a device.SampleArgs) error {
				edit(&a)
				return k.Sample(a)
			}
		}
	}
	without := func(setting int, neutral float64) func(c *changed) {
		return token(func(a *device.SampleArgs) {
			a.Settings = edited(a.Settings, func(i int, v float64) float64 {
				if i == setting && v != 0 {
					return neutral
				}
				return v
			})
		})
	}
	return []mutant{
		{"Sample: no temperature", without(device.SetTemperature, 1)},
		{"Sample: no top-k", without(device.SetTopK, 0)},
		{"Sample: no top-p", without(device.SetTopP, 1)},
		{"Sample: no min-p", without(device.SetMinP, 0)},
		{"Sample: no penalty", without(device.SetRepetition, 1)},
		{"Sample: penalty on unseen tokens", token(func(a *device.SampleArgs) { a.Seen = edited(a.Seen, func(_ int, v float64) float64 { return 1 - v }) })},
		{"Sample: another position", token(func(a *device.SampleArgs) { a.Pos = edited(a.Pos, plus(1)) })},
		{"Sample: seed halves exchanged", token(func(a *device.SampleArgs) { a.Seed = swapped(a.Seed) })},
		{"Sample: NaN counts as small", token(func(a *device.SampleArgs) {
			a.Logits = edited(a.Logits, func(_ int, v float64) float64 {
				if math.IsNaN(v) {
					return -30
				}
				return v
			})
		})},
		{"TopLogProbs: to base 2", func(c *changed) {
			c.topLogProbs = func(a device.LogProbArgs) error {
				return errors.Join(k.TopLogProbs(a), setEdited(a.LogProbs, times(1/math.Ln2)))
			}
		}},
		{"TopLogProbs: of the most probable", func(c *changed) {
			c.topLogProbs = func(a device.LogProbArgs) error {
				err := k.TopLogProbs(a)
				setNumber(a.Chosen, number(a.LogProbs, 0), 0)
				return err
			}
		}},
		{"MarkSeen: counted", func(c *changed) {
			c.markSeen = func(seen, ids *tensor) error {
				for _, id := range row(ids) {
					if id >= 0 && int(id) < seen.Shape[0] {
						setNumber(seen, number(seen, int(id))+1, int(id))
					}
				}
				return nil
			}
		}},
	}
}

// swapped exchanges the two elements of a tensor.
func swapped(t *tensor) *tensor {
	return edited(t, func(i int, _ float64) float64 { return number(t, 1-i) })
}

// laxThreshold conditions on the smallest score that was drawn.
func laxThreshold(a device.TopKArgs) error {
	err := kernels{}.SampleTopK(a)
	seed := [2]uint32{uint32(number(a.Draw.Seed, 0)), uint32(number(a.Draw.Seed, 1))}
	for _, index := range indices(a.Teams.Shape[:2]) {
		phi, drawn, logC := row(a.Phi, index...), row(a.Teams, index...), row(a.LogC, index...)
		last := int(drawn[len(drawn)-1])
		if last < 0 || logC[0] == 0 {
			continue
		}
		tau := phi[last] + device.TeamGumbel(seed, last, index[1], a.Draw.Layer, integer(a.Draw.Pos, index[0]))
		for j, team := range drawn {
			logC[j] = logInclusion(phi[int(team)] - tau)
		}
		setRow(a.LogC, logC, index...)
	}
	return err
}
