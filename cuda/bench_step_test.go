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
	weights := newStepLayers(&made{b: b, d: d}, layers)
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

// stepLayer is a layer without its rows.
type stepLayer struct {
	qkv, out, gateUp, down                  device.Weight
	norm                                    device.Norm
	x, h, rows, attention, inner, gateUpRow *device.Tensor
	freq                                    *device.Tensor
}

func newStepLayers(m *made, n int) (all []stepLayer) {
	const hidden, inner = 3584, 18944
	shared := stepLayer{
		norm: device.Norm{Gamma: m.act(hidden), Eps: 1e-6}, x: m.tensor(device.F32, 1, hidden), h: m.act(1, hidden), rows: m.act(1, 4608),
		attention: m.act(1, hidden), inner: m.act(1, inner), gateUpRow: m.act(1, 2*inner), freq: m.tensor(device.F32, 64),
	}
	for range n {
		l := shared
		l.qkv = device.Weight{Parts: []*device.Tensor{m.act(hidden, hidden), m.act(512, hidden), m.act(512, hidden)}, Bias: []*device.Tensor{m.act(hidden), m.act(512), m.act(512)}}
		l.out = device.Weight{Parts: []*device.Tensor{m.act(hidden, hidden)}}
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
	rows := l.rows.Unflatten(1, 36, 128)
	o.RotateAppend(device.RotateAppendArgs{Q: rows.Slice(1, 0, 28), K: rows.Slice(1, 28, 32), V: rows.Slice(1, 32, 36), Pos: a.Draw.Pos, RoPE: device.RoPE{InvFreq: l.freq, Scale: 1}, Keys: a.K, Values: a.V})
	a.Out = l.attention.Unflatten(1, 28, 128)
	attend(o, a)
	o.LinearAdd(l.x, l.attention, l.out)
	o.NormSwiGLU(l.inner, l.gateUpRow, l.h, l.x, l.norm, l.gateUp)
	o.LinearAdd(l.x, l.inner, l.down)
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
