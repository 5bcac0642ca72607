package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blitzen/cuda/driver"
	"blitzen/device"
	"blitzen/device/devicetest"
)

// teamsBench is the shape of a SANTA++ step: rows of the prompt, teams drawn.
type teamsBench struct {
	name                    string
	heads, keyHeads, dk, dv int
	rows, drawn             int
}

// BenchmarkTeams is AttendTeams, fused and by the operations that it fuses, on
// normal queries and keys, 4.14 rows a team (sizes 1 + geometric), 64 rows after
// the prompt. The logits' deviation is about 1.
func BenchmarkTeams(b *testing.B) {
	d := requireGPU(b, Options{DType: device.BF16})
	for _, s := range []teamsBench{
		{"7B", 28, 4, 128, 128, 8192, 31}, {"7B", 28, 4, 128, 128, 32768, 31}, {"7B", 28, 4, 128, 128, 32768, 64},
		{"7B", 28, 4, 128, 128, 32768, 128}, {"7B", 28, 4, 128, 128, 32768, 512}, {"7B", 28, 4, 128, 128, 131072, 31},
		{"7B", 28, 4, 128, 128, 131072, 128}, {"0.5B", 14, 2, 64, 64, 32768, 31}, {"MLA", 16, 1, 576, 512, 32768, 31}, {"MLA", 16, 1, 576, 512, 32768, 128},
	} {
		b.Run(fmt.Sprintf("%s %d rows, %d drawn", s.name, s.rows, s.drawn), func(b *testing.B) { benchTeams(b, d, s) })
	}
}

func benchTeams(b *testing.B, d *gpu, s teamsBench) {
	m := newNoise(&made{b: b, d: d})
	teams := int(float64(s.rows) / 4.14)
	offsets, logN := teamSizes(s, teams)
	routed := float64(2 * s.keyHeads * teams * s.dk)
	var sets []device.TeamsArgs
	q, out := m.normal(1, s.heads, s.dk), m.act(1, s.heads, s.dv)
	pos, from, seed := m.ints(int32(s.rows+63)), m.ints(int32(s.rows)), m.tensor(device.U32, 2)
	counts := m.tensor(device.I64, 3)
	for range max(3, min(40, int(1.5e8/routed))) {
		k := m.normal(s.keyHeads, s.rows+64, s.dk)
		v := k.Slice(2, 0, s.dv)
		if s.dk == s.dv {
			v = m.normal(s.keyHeads, s.rows+64, s.dv)
		}
		a := device.TeamsArgs{
			Out: out, Q: q, K: k, V: v, Reps: m.normal(s.keyHeads, teams, s.dk), Bias: m.tensor(device.F32, s.keyHeads, teams),
			Offsets: m.tensor(device.I32, s.keyHeads, teams+1), From: from, Scale: float32(1 / math.Sqrt(float64(s.dk))), Drawn: s.drawn,
			Draw: device.Draw{Seed: seed, Pos: pos}, Routed: counts.Slice(0, 0, 1), Rows: counts.Slice(0, 1, 2), Suffix: counts.Slice(0, 2, 3),
		}
		for _, err := range []error{device.Write(d, a.Bias, logN), device.Write(d, a.Offsets, offsets)} {
			if err != nil {
				b.Fatal(err)
			}
		}
		sets = append(sets, a)
	}
	b.Run("fused", func(b *testing.B) {
		measure(b, d, len(sets), scale{}, func(o *device.Ops) {
			for _, a := range sets {
				o.AttendTeams(a)
			}
		})
		n, err := device.Read[int64](d, counts)
		if err != nil {
			b.Fatal(err)
		}
		steps := float64(n[0]) / float64(s.keyHeads*teams)
		b.ReportMetric(float64(n[1])/steps/float64(s.keyHeads), "rows/keyhead")
	})
	b.Run("steps", func(b *testing.B) {
		measure(b, d, len(sets), scale{}, func(o *device.Ops) {
			for _, a := range sets {
				if err := d.kernels.attendTeamsBySteps(a); err != nil {
					o.Fail(err)
				}
			}
		})
	})
}

// teamSizes are where teams begin and the logs of their sizes, the same for
// every key head.
func teamSizes(s teamsBench, teams int) (offsets []int32, logN []float32) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := make([]int, teams)
	for left := s.rows; left > 0; left-- {
		if i := s.rows - left; i < teams {
			sizes[i]++
			continue
		}
		g := rng.IntN(teams)
		for rng.Float64() < 0.76 && left > 1 { // one team grows by several rows
			sizes[g]++
			left--
		}
		sizes[g]++
	}
	for range s.keyHeads {
		at := int32(0)
		offsets = append(offsets, at)
		for _, n := range sizes {
			at += int32(n)
			offsets = append(offsets, at)
			logN = append(logN, float32(math.Log(float64(n))))
		}
	}
	return offsets, logN
}

// noise is 8 MiB of normal numbers, which tensors repeat, each from another
// place on.
type noise struct {
	*made
	bytes []byte
}

func newNoise(m *made) *noise {
	rng := rand.New(rand.NewPCG(3, 4))
	values := make([]float64, 4<<20)
	for i := range values {
		values[i] = rng.NormFloat64()
	}
	return &noise{m, devicetest.Encode(m.d.DType(), values)}
}

func (n *noise) normal(shape ...int) *device.Tensor {
	n.b.Helper()
	v := n.tensor(n.d.DType(), shape...)
	n.n++
	to, skip := address(v.Buffer.(*buffer), v), n.n*4096%len(n.bytes)
	for left := v.Bytes(); left > 0; skip = 0 {
		piece := n.bytes[skip:]
		piece = piece[:min(len(piece), left)]
		if err := n.d.sendAll(to, piece); err != nil {
			n.b.Fatal(err)
		}
		to, left = to+driver.Address(len(piece)), left-len(piece)
	}
	return v
}
