package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blitzen/device"
)

// BenchmarkTeamsStep is a layer of Qwen2.5-7B's decode step without attention,
// with exact attention and with AttendTeams: what attention costs where products
// lie around it. Each layer has weights and rows of its own.
func BenchmarkTeamsStep(b *testing.B) {
	const layers, drawn = 6, 32
	d := requireGPU(b, Options{DType: device.BF16})
	weights := newStepLayers(&made{b: b, d: d}, layers, qwen7B)
	for _, rows := range []int{512, 32704, 130000} {
		b.Run(fmt.Sprintf("%d rows", rows), func(b *testing.B) {
			sets := newStepTeams(newNoise(&made{b: b, d: d}), layers, rows, drawn)
			for _, kind := range []struct {
				name   string
				attend func(o *device.Ops, a device.TeamsArgs)
			}{
				{"none", func(*device.Ops, device.TeamsArgs) {}},
				{"dense", func(o *device.Ops, a device.TeamsArgs) {
					o.Attend(device.AttendArgs{Out: device.Partial{Out: a.Out}, Q: a.Q, K: a.K, V: a.V, Pos: a.Draw.Pos, Scale: a.Scale})
				}},
				{"teams", func(o *device.Ops, a device.TeamsArgs) { o.AttendTeams(a) }},
			} {
				b.Run(kind.name, func(b *testing.B) {
					measure(b, d, layers, scale{}, func(o *device.Ops) {
						for i, w := range weights {
							w.issue(o, sets[i], kind.attend)
						}
					})
				})
			}
		})
	}
}

// stepSize is what a layer of Qwen2.5 is as large as.
type stepSize struct{ hidden, inner, heads, keyHeads, d int }

var (
	qwen7B    = stepSize{3584, 18944, 28, 4, 128}
	qwenSmall = stepSize{896, 4864, 14, 2, 64} // 0.5B
)

// stepLayer is a layer without its rows.
type stepLayer struct {
	stepSize
	qkv, out, gateUp, down                  device.Weight
	norm                                    device.Norm
	x, h, rows, attention, inner, gateUpRow *device.Tensor
	freq                                    *device.Tensor
}

func newStepLayers(m *made, n int, s stepSize) (all []stepLayer) {
	hidden, inner, q, kv := s.hidden, s.inner, s.heads*s.d, s.keyHeads*s.d
	shared := stepLayer{
		stepSize: s, norm: device.Norm{Gamma: m.act(hidden), Eps: 1e-6}, x: m.tensor(device.F32, 1, hidden), h: m.act(1, hidden), rows: m.act(1, q+2*kv),
		attention: m.act(1, q), inner: m.act(1, inner), gateUpRow: m.act(1, 2*inner), freq: m.tensor(device.F32, s.d/2),
	}
	for range n {
		l := shared
		l.qkv = device.Weight{Parts: []*device.Tensor{m.act(q, hidden), m.act(kv, hidden), m.act(kv, hidden)}, Bias: []*device.Tensor{m.act(q), m.act(kv), m.act(kv)}}
		l.out = device.Weight{Parts: []*device.Tensor{m.act(hidden, q)}}
		l.gateUp = device.Weight{Parts: []*device.Tensor{m.act(inner, hidden), m.act(inner, hidden)}}
		l.down = device.Weight{Parts: []*device.Tensor{m.act(hidden, inner)}}
		all = append(all, l)
	}
	return all
}

// issue does all of a layer; the query of attention is that of a, whose logits
// deviate by about 1.
func (l stepLayer) issue(o *device.Ops, a device.TeamsArgs, attend func(*device.Ops, device.TeamsArgs)) {
	o.NormLinear(l.rows, l.h, l.x, l.norm, l.qkv)
	l.rotate(o, a.Draw.Pos, a.K, a.V)
	a.Out = l.attention.Unflatten(1, l.heads, l.d)
	attend(o, a)
	o.LinearAdd(l.x, l.attention, l.out)
	l.mlp(o)
}

// rotate makes queries, keys and values ready, and returns the queries.
func (l stepLayer) rotate(o *device.Ops, pos, k, v *device.Tensor) *device.Tensor {
	all := l.heads + 2*l.keyHeads
	rows := l.rows.Unflatten(1, all, l.d)
	q := rows.Slice(1, 0, l.heads)
	o.RotateAppend(device.RotateAppendArgs{
		Q: q, K: rows.Slice(1, l.heads, l.heads+l.keyHeads), V: rows.Slice(1, l.heads+l.keyHeads, all),
		Pos: pos, RoPE: device.RoPE{InvFreq: l.freq, Scale: 1}, Keys: k, Values: v,
	})
	return q
}

func (l stepLayer) mlp(o *device.Ops) {
	o.NormSwiGLU(l.inner, l.gateUpRow, l.h, l.x, l.norm, l.gateUp)
	o.LinearAdd(l.x, l.inner, l.down)
}

// BenchmarkSmallStep is a layer of Qwen2.5-0.5B's decode step, which is shorter than
// what its kernels wait for each other, whole and without some of them, and the head.
// Each layer has weights and rows of its own.
func BenchmarkSmallStep(b *testing.B) {
	const layers, vocab = 16, 151936
	d := requireGPU(b, Options{DType: device.BF16})
	m := &made{b: b, d: d}
	weights := newStepLayers(m, layers, qwenSmall)
	each := func(b *testing.B, issue func(o *device.Ops, i int, l stepLayer)) {
		measure(b, d, layers, scale{}, func(o *device.Ops) {
			for i, l := range weights {
				issue(o, i, l)
			}
		})
	}
	for _, rows := range []int{512, 4096, 32704} {
		b.Run(fmt.Sprintf("%d rows", rows), func(b *testing.B) {
			m, s := newNoise(&made{b: b, d: d}), qwenSmall
			pos := m.ints(int32(rows + 31))
			var keys, values []*device.Tensor
			for range layers {
				keys, values = append(keys, m.normal(s.keyHeads, rows+64, s.d)), append(values, m.normal(s.keyHeads, rows+64, s.d))
			}
			attend := func(o *device.Ops, i int, l stepLayer, rotate bool, most int) {
				q := l.rows.Unflatten(1, l.heads+2*l.keyHeads, l.d).Slice(1, 0, l.heads)
				if rotate {
					q = l.rotate(o, pos, keys[i], values[i])
				}
				out := device.Partial{Out: l.attention.Unflatten(1, l.heads, l.d)}
				o.Attend(device.AttendArgs{Out: out, Q: q, K: keys[i], V: values[i], Pos: pos, Scale: 1 / 8., Most: most})
			}
			layer := func(o *device.Ops, i int, l stepLayer, most int) {
				o.NormLinear(l.rows, l.h, l.x, l.norm, l.qkv)
				attend(o, i, l, true, most)
				o.LinearAdd(l.x, l.attention, l.out)
				l.mlp(o)
			}
			b.Run("layer", func(b *testing.B) {
				each(b, func(o *device.Ops, i int, l stepLayer) { layer(o, i, l, 0) })
			})
			if rows < smallMost {
				b.Run("layer of few rows", func(b *testing.B) {
					each(b, func(o *device.Ops, i int, l stepLayer) { layer(o, i, l, smallMost) })
				})
			}
			b.Run("attention", func(b *testing.B) {
				each(b, func(o *device.Ops, i int, l stepLayer) { attend(o, i, l, true, 0) })
			})
			b.Run("attention, rotated before", func(b *testing.B) {
				each(b, func(o *device.Ops, i int, l stepLayer) { attend(o, i, l, false, 0) })
			})
		})
	}
	for name, issue := range map[string]func(o *device.Ops, i int, l stepLayer){
		"qkv, o": func(o *device.Ops, _ int, l stepLayer) {
			o.NormLinear(l.rows, l.h, l.x, l.norm, l.qkv)
			o.LinearAdd(l.x, l.attention, l.out)
		},
		"gate-up, down": func(o *device.Ops, _ int, l stepLayer) { l.mlp(o) },
		"products": func(o *device.Ops, _ int, l stepLayer) {
			o.NormLinear(l.rows, l.h, l.x, l.norm, l.qkv)
			o.LinearAdd(l.x, l.attention, l.out)
			l.mlp(o)
		},
	} {
		b.Run(name, func(b *testing.B) { each(b, issue) })
	}
	b.Run("head", func(b *testing.B) {
		l, w, logits := weights[0], device.Weight{Parts: []*device.Tensor{m.act(vocab, qwenSmall.hidden)}}, m.tensor(device.F32, 1, vocab)
		measure(b, d, 10, scale{bytes: 2 * vocab * 896}, func(o *device.Ops) {
			for range 10 {
				o.NormLinear(logits, l.h, l.x, l.norm, w)
			}
		})
	})
}

// newStepTeams makes the arguments of layers. Teams are as those of made-up
// weights: one of a parent has most of its rows, the others one.
func newStepTeams(m *noise, n, rows, drawn int) (sets []device.TeamsArgs) {
	b, d := m.b, m.d
	teams := rows / 4
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := make([]int, teams)
	for i := range sizes {
		sizes[i] = 1
	}
	for left := rows - teams; left > 0; {
		g := rng.IntN(teams/4) * 4
		for {
			sizes[g]++
			left--
			if left == 0 || rng.Float64() > 0.9 {
				break
			}
		}
	}
	var offsets []int32
	var logN []float32
	for range 4 {
		at := int32(0)
		offsets = append(offsets, at)
		for _, n := range sizes {
			at += int32(n)
			offsets = append(offsets, at)
			logN = append(logN, float32(math.Log(float64(n))))
		}
	}
	q := m.normal(1, 28, 128)
	pos, from, seed := m.ints(int32(rows+31)), m.ints(int32(rows)), m.tensor(device.U32, 2)
	counts := m.tensor(device.I64, 3)
	for i := range n {
		a := device.TeamsArgs{
			Q: q, K: m.normal(4, rows+64, 128), V: m.normal(4, rows+64, 128), Reps: m.normal(4, teams, 128), Bias: m.tensor(device.F32, 4, teams),
			Offsets: m.tensor(device.I32, 4, teams+1), From: from, Scale: float32(1 / math.Sqrt(128)), Drawn: drawn,
			Draw: device.Draw{Seed: seed, Pos: pos, Layer: i}, Routed: counts.Slice(0, 0, 1), Rows: counts.Slice(0, 1, 2), Suffix: counts.Slice(0, 2, 3),
		}
		for _, err := range []error{device.Write(d, a.Bias, logN), device.Write(d, a.Offsets, offsets)} {
			if err != nil {
				b.Fatal(err)
			}
		}
		sets = append(sets, a)
	}
	return sets
}
