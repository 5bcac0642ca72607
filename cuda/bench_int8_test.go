package cuda

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// bytes is a matrix of random signed bytes.
func (m *made) bytes(rows, n int) *device.Tensor {
	m.b.Helper()
	v := m.tensor(device.I8, rows, n)
	piece := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(uint64(m.n), 1))
	for i := range piece {
		piece[i] = byte(int8(min(127, max(-127, 30*rng.NormFloat64()))))
	}
	m.n++
	b := v.Buffer.(*buffer)
	for at := 0; at < b.size; at += len(piece) {
		if err := m.d.sendAll(b.at+driver.Address(at), piece[:min(len(piece), b.size-at)]); err != nil {
			m.b.Fatal(err)
		}
	}
	v.Scale = m.tensor(device.F32, rows)
	return v
}

// BenchmarkLinearInt8 times all ways to share out outputs, and the one that is
// chosen.
func BenchmarkLinearInt8(b *testing.B) {
	d := requireGPU(b, Options{DType: device.BF16})
	for _, s := range []struct {
		name     string
		rows, in int
		outs     []int
	}{
		{"7B qkv", 1, 3584, []int{3584, 512, 512}}, {"7B o", 1, 3584, []int{3584}}, {"7B gate-up", 1, 3584, []int{18944, 18944}},
		{"7B down", 1, 18944, []int{3584}}, {"7B head", 1, 3584, []int{152064}}, {"V2-Lite qkv", 1, 2048, []int{3072, 576}},
		{"V2-Lite o", 1, 2048, []int{2048}}, {"V2-Lite shared gate-up", 1, 2048, []int{2816, 2816}}, {"V2-Lite shared down", 1, 2816, []int{2048}},
		{"7B gate-up, 4 rows", 4, 3584, []int{18944, 18944}}, {"7B gate-up, 4096 rows", 4096, 3584, []int{18944, 18944}},
	} {
		m := &made{b: b, d: d}
		total := 0
		for _, o := range s.outs {
			total += o
		}
		bytes := float64(total) * float64(s.in)
		sets := cold(bytes)
		var ws []device.Weight
		for range sets {
			var w device.Weight
			for _, o := range s.outs {
				w.Parts = append(w.Parts, m.bytes(o, s.in))
			}
			ws = append(ws, w)
		}
		x, dst := m.act(s.rows, s.in), m.act(s.rows, total)
		b.Run(fmt.Sprintf("%s/chosen %v", s.name, d.kernels.fullest(gemvInt8Shapes, total, s.in, 16)), func(b *testing.B) {
			measure(b, d, sets, scale{bytes: bytes, flops: 2 * bytes * float64(s.rows)}, func(o *device.Ops) {
				for _, w := range ws {
					o.Linear(dst, x, w)
				}
			})
		})
		if s.rows > 1 {
			continue
		}
		o := normedRow{
			dst: dst, x: m.tensor(device.F32, 1, s.in), h: m.tensor(device.BF16, 1, s.in),
			norm: device.Norm{Gamma: m.tensor(device.BF16, s.in), Eps: 1e-6},
		}
		if len(s.outs) == 2 && s.outs[0] == s.outs[1] {
			o.dst, o.gateUp = m.tensor(device.BF16, 1, s.outs[0]), dst
		}
		for _, shape := range []oneShape{{12, 4, 3, 4}, {8, 4, 4, 4}} {
			if o.gateUp != nil && shape.warps/shape.split%2 != 0 {
				continue
			}
			b.Run(fmt.Sprintf("%s/norm, SwiGLU %v, %v", s.name, o.gateUp != nil, shape), func(b *testing.B) {
				measure(b, d, sets, scale{bytes: bytes}, func(*device.Ops) {
					for _, o.w = range ws {
						if err := d.kernels.gemvInt8One(o, shape); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// BenchmarkExpertsInt8 is a layer of V2-Lite.
func BenchmarkExpertsInt8(b *testing.B) {
	d := requireGPU(b, Options{DType: device.BF16})
	const hidden, width, experts, k = 2048, 1408, 64, 6
	m := &made{b: b, d: d}
	const bytes = 3 * hidden * width * k
	rng := rand.New(rand.NewPCG(1, 1))
	var sets []device.ExpertsArgs
	x, dst := m.act(1, hidden), m.tensor(device.F32, 1, hidden)
	weights := m.tensor(device.F32, 1, k)
	for range 2 {
		var all []device.Expert
		for range experts {
			all = append(all, device.Expert{
				GateUp: device.Weight{Parts: []*device.Tensor{m.bytes(width, hidden), m.bytes(width, hidden)}},
				Down:   device.Weight{Parts: []*device.Tensor{m.bytes(hidden, width)}},
			})
		}
		order := rng.Perm(experts)
		for at := 0; at+k <= experts; at += k { // no expert twice: all reads are cold
			ids := make([]int32, k)
			for i := range ids {
				ids[i] = int32(order[at+i])
			}
			sets = append(sets, device.ExpertsArgs{Dst: dst, X: x, IDs: m.ints(ids...).Unflatten(0, 1, k), Weights: weights, Experts: all})
		}
	}
	measure(b, d, len(sets), scale{bytes: bytes}, func(o *device.Ops) {
		for _, a := range sets {
			o.Experts(a)
		}
	})
}

// BenchmarkLinearInt8Prompt widens more or fewer weights at once: few stay in the
// second-level cache.
func BenchmarkLinearInt8Prompt(b *testing.B) {
	d := requireGPU(b, Options{DType: device.BF16})
	defer func(was int) { d.kernels.widenMost = was }(d.kernels.widenMost)
	m := &made{b: b, d: d}
	const in, out = 3584, 18944
	var ws []device.Weight
	for range cold(in * out) {
		ws = append(ws, device.Weight{Parts: []*device.Tensor{m.bytes(out, in)}})
	}
	for _, rows := range []int{512} {
		x, dst := m.act(rows, in), m.act(rows, out)
		for _, most := range []int{17 << 20, 34 << 20, widenMost} {
			b.Run(fmt.Sprintf("%d rows, %d M", rows, most>>20), func(b *testing.B) {
				d.kernels.widenMost = most
				measure(b, d, len(ws), scale{flops: 2 * float64(rows) * in * out}, func(o *device.Ops) {
					for _, w := range ws {
						o.Linear(dst, x, w)
					}
				})
			})
		}
	}
}
