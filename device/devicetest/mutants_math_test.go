package devicetest

import (
	"blitzen/device"
)

func mathMutants() []mutant {
	var k kernels
	return []mutant{
		{"Embed: the row before", func(c *changed) {
			c.embed = func(dst, table, ids *tensor) error {
				return k.Embed(dst, table, edited(ids, func(_ int, v float64) float64 { return max(v-1, 0) }))
			}
		}},
		{"RMSNorm: no eps", func(c *changed) {
			c.rmsNorm = func(dst, x, gamma *tensor, _ float32) error { return k.RMSNorm(dst, x, gamma, 0) }
		}},
		{"RMSNorm: rows without gaps", func(c *changed) {
			c.rmsNorm = func(dst, x, gamma *tensor, eps float32) error { return k.RMSNorm(dst, gapless(x), gamma, eps) }
		}},
		{"Rotate: one pairing", func(c *changed) {
			c.rotate = func(x, pos *tensor, r device.RoPE) error {
				r.Pairing = device.Interleaved
				return k.Rotate(x, pos, r)
			}
		}},
		{"Rotate: no scale", func(c *changed) {
			c.rotate = func(x, pos *tensor, r device.RoPE) error {
				r.Scale = 1
				return k.Rotate(x, pos, r)
			}
		}},
		{"Rotate: the angle one rounding off", func(c *changed) {
			c.rotate = func(x, pos *tensor, r device.RoPE) error {
				r.InvFreq = edited(r.InvFreq, times(1+0x1p-23))
				return k.Rotate(x, pos, r)
			}
		}},
		{"SwiGLU: gate and up exchanged", func(c *changed) {
			c.swiGLU = func(dst, gateUp *tensor) error {
				n := dst.Shape[1]
				return k.SwiGLU(dst, edited(gateUp, func(i int, _ float64) float64 { return row(gateUp, i/(2*n))[(i+n)%(2*n)] }))
			}
		}},
		{"Copy: integers through float32", func(c *changed) {
			c.copy = func(dst, src *tensor) error {
				return k.Copy(dst, edited(src, func(_ int, v float64) float64 { return float64(float32(v)) }))
			}
		}},
		{"Increment: the first alone", func(c *changed) {
			c.increment = func(t *tensor) error { return k.Increment(t.Slice(0, 0, 1)) }
		}},
	}
}

func productMutants() []mutant {
	var k kernels
	return []mutant{
		{"Linear: not added", func(c *changed) {
			c.linear = func(dst, x *tensor, w device.Weight, _ bool) error { return k.Linear(dst, x, w, false) }
		}},
		{"Linear: no bias", func(c *changed) {
			c.linear = func(dst, x *tensor, w device.Weight, add bool) error {
				return k.Linear(dst, x, device.Weight{Parts: w.Parts}, add)
			}
		}},
		{"Linear: inputs rounded to BF16", func(c *changed) {
			c.linear = func(dst, x *tensor, w device.Weight, add bool) error { return k.Linear(dst, edited(x, toBF16), w, add) }
		}},
		{"Linear: one element too many", func(c *changed) {
			c.linear = func(dst, x *tensor, w device.Weight, add bool) error {
				err := k.Linear(dst, x, w, add)
				setNumber(dst, 0, dst.Shape[0]-1, dst.Shape[1])
				return err
			}
		}},
		{"Linear: one factor for all rows", func(c *changed) {
			c.linear = func(dst, x *tensor, w device.Weight, add bool) error {
				var parts []*tensor
				for _, p := range w.Parts {
					parts = append(parts, firstFactor(p))
				}
				return k.Linear(dst, x, device.Weight{Parts: parts, Bias: w.Bias}, add)
			}
		}},
		{"HeadLinear: factors from the first row on", func(c *changed) {
			c.headLinear = func(dst, x, w *tensor, transpose bool) error {
				v := *w
				if w.Scale != nil {
					s := *w.Scale
					s.Offset -= s.Offset % s.Stride[0]
					v.Scale = &s
				}
				return k.HeadLinear(dst, x, &v, transpose)
			}
		}},
		{"Experts: one factor for all rows", func(c *changed) {
			c.experts = func(a device.ExpertsArgs) error {
				for i, e := range a.Experts {
					a.Experts[i].Down.Parts = []*tensor{firstFactor(e.Down.Parts[0])}
				}
				return k.Experts(a)
			}
		}},
		{"HeadLinear: a weight without gaps", func(c *changed) {
			c.headLinear = func(dst, x, w *tensor, transpose bool) error { return k.HeadLinear(dst, x, gapless(w), transpose) }
		}},
		{"Router: normalised, then scaled", func(c *changed) {
			c.router = func(a device.RouterArgs) error {
				err := k.Router(a)
				if a.Normalize {
					err = setEdited(a.Weights, times(float64(a.Scale)))
				}
				return err
			}
		}},
		{"Router: no groups", func(c *changed) {
			c.router = func(a device.RouterArgs) error {
				a.Groups, a.TopGroups = 1, 1
				return k.Router(a)
			}
		}},
		{"Experts: not added", func(c *changed) {
			c.experts = func(a device.ExpertsArgs) error {
				setEdited(a.Dst, times(0))
				return k.Experts(a)
			}
		}},
		{"Experts: the first choice alone", func(c *changed) {
			c.experts = func(a device.ExpertsArgs) error {
				a.IDs = a.IDs.Slice(1, 0, 1)
				return k.Experts(a)
			}
		}},
	}
}

// firstFactor has the factor of the first row everywhere.
func firstFactor(w *tensor) *tensor {
	v := *w
	if w.Scale != nil {
		v.Scale = w.Scale.Index(0, 0).Repeat(0, w.Shape[0])
	}
	return &v
}
