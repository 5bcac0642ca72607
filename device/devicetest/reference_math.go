package devicetest

import (
	"math"

	"blitzen/device"
)

// kernels are the operations as their doc comments in package device read.
type kernels struct{}

func (kernels) Embed(dst, table, ids *device.Tensor) error {
	return kernels{}.gather(dst, table, ids)
}

// gather writes dst[i] = src[ids[i]].
func (kernels) gather(dst, src, ids *device.Tensor) error {
	for i := range dst.Shape[0] {
		id, err := rowNumber(ids, src.Shape[0], i)
		if err != nil {
			return err
		}
		move(dst, []int{i}, src, []int{id})
	}
	return nil
}

func (kernels) RMSNorm(dst, x, gamma *device.Tensor, eps float32) error {
	g := row(gamma)
	for t := range x.Shape[0] {
		v := row(x, t)
		root := math.Sqrt(dot(v, v)/float64(len(v)) + float64(eps))
		for i := range v {
			v[i] = v[i] / root * g[i]
		}
		setRow(dst, v, t)
	}
	return nil
}

func (kernels) Linear(dst, x *device.Tensor, w device.Weight, add bool) error {
	for t, out := range product(w, rows(x)) {
		if add {
			for o, before := range row(dst, t) {
				out[o] += before
			}
		}
		setRow(dst, out, t)
	}
	return nil
}

// product is w·x + bias for every x, the parts' outputs side by side.
func product(w device.Weight, xs [][]float64) [][]float64 {
	out := make([][]float64, len(xs))
	for p, part := range w.Parts {
		for o, weights := range rows(part) {
			bias := 0.0
			if len(w.Bias) > 0 {
				bias = number(w.Bias[p], o)
			}
			for t, x := range xs {
				out[t] = append(out[t], dot(weights, x)+bias)
			}
		}
	}
	return out
}

func (kernels) HeadLinear(dst, x, w *device.Tensor, transpose bool) error {
	for h := range x.Shape[1] {
		matrix := rows(w, h)
		for t := range x.Shape[0] {
			in, out := row(x, t, h), make([]float64, dst.Shape[2])
			for o := range out {
				for i := range in {
					if transpose {
						out[o] += in[i] * matrix[i][o]
					} else {
						out[o] += in[i] * matrix[o][i]
					}
				}
			}
			setRow(dst, out, t, h)
		}
	}
	return nil
}

func (kernels) Rotate(x, pos *device.Tensor, r device.RoPE) error {
	half := x.Shape[2] / 2
	for t := range x.Shape[0] {
		for h := range x.Shape[1] {
			v := row(x, t, h)
			for i := range half {
				a, b := i, i+half
				if r.Pairing == device.Interleaved {
					a, b = 2*i, 2*i+1
				}
				angle := float32(number(pos, t)) * float32(number(r.InvFreq, i))
				sin, cos := math.Sincos(float64(angle))
				va, vb, s := v[a], v[b], float64(r.Scale)
				v[a] = s * (va*cos - vb*sin)
				v[b] = s * (vb*cos + va*sin)
			}
			setRow(x, v, t, h)
		}
	}
	return nil
}

func (kernels) SwiGLU(dst, gateUp *device.Tensor) error {
	for t := range dst.Shape[0] {
		setRow(dst, swiGLU(row(gateUp, t)), t)
	}
	return nil
}

// swiGLU is silu(g)·u of g‖u.
func swiGLU(gateUp []float64) []float64 {
	n := len(gateUp) / 2
	out := make([]float64, n)
	for i := range out {
		g, u := gateUp[i], gateUp[n+i]
		out[i] = g / (1 + math.Exp(-g)) * u
	}
	return out
}

func (kernels) Copy(dst, src *device.Tensor) error {
	if dst.Rank() == 0 {
		setNumber(dst, number(src))
		return nil
	}
	for _, index := range indices(dst.Shape[:dst.Rank()-1]) {
		move(dst, index, src, index)
	}
	return nil
}

func (kernels) Increment(t *device.Tensor) error {
	for i := range t.Shape[0] {
		setNumber(t, number(t, i)+1, i)
	}
	return nil
}
