package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blitzen/device"
)

// TestSampleWays compares the chunks, bins and lists of kernels/sample.cuh with
// one block that looks at every token: weights are integers, so that the tokens
// must be the same, wherever filters end.
func TestSampleWays(t *testing.T) {
	d := requireGPU(t, Options{DType: device.F32})
	rng := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func(i int) float64{
		"normal":    func(int) float64 { return 3 * rng.NormFloat64() },
		"flat":      func(int) float64 { return 0.2 * rng.NormFloat64() },
		"peaked":    func(i int) float64 { return 40 * math.Exp(-float64(i%977)/3) },
		"constant":  func(int) float64 { return 1.5 },
		"few":       func(i int) float64 { return map[bool]float64{true: float64(i % 7), false: math.Inf(-1)}[i%1021 == 3] },
		"ties":      func(int) float64 { return math.Round(4 * rng.NormFloat64()) },
		"far apart": func(int) float64 { return 100 * rng.NormFloat64() },
	}
	settings := [][]float32{
		{0, 0, 1, 0, 1.2}, {1, 0, 1, 0, 1}, {0.7, 20, 0.8, 0, 1.05}, {1, 0, 0.9, 0, 1}, {1, 0, 0.5, 0.02, 1}, {1.5, 0, 1, 0.1, 1}, {1, 1, 1, 0, 1},
		{1, 3000, 1, 0, 1}, {1, 3000, 0.6, 0.001, 1.1}, {1, 0, 1e-6, 0, 1}, {1, 50, 0.999999, 0, 1}, {2, 0, 0.99, 0, 1}, {1, 1 << 30, 0.95, 0, 1},
	}
	for _, vocab := range []int{1, 17, 1024, 1025, 5000, 151936, 1<<20 + 77} {
		for name, logit := range shapes {
			logits, seen := make([]float32, vocab), make([]int32, vocab)
			for i := range logits {
				logits[i], seen[i] = float32(logit(i)), rng.Int32N(2)
			}
			if slices.Max(logits) < -1e30 {
				logits[0] = 1
			}
			for _, set := range settings {
				if fast, plain := sampleBoth(t, d, logits, seen, set); !slices.Equal(fast, plain) {
					t.Errorf("%s of %d, settings %v: tokens %v, by one block %v", name, vocab, set, fast, plain)
				}
			}
		}
	}
}

// sampleBoth draws at 6 positions.
func sampleBoth(t *testing.T, d *gpu, logits []float32, seen []int32, settings []float32) (fast, plain []int32) {
	t.Helper()
	var made []*device.Tensor
	tensor := func(ty device.DType, n int) *device.Tensor {
		x, err := d.New("x", ty, n)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, x)
		return x
	}
	write := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	const draws = 6
	vocab := len(logits)
	a := device.SampleArgs{Logits: tensor(device.F32, vocab), Seen: tensor(device.I32, vocab), Settings: tensor(device.F32, device.NumSettings), Seed: tensor(device.U32, 2)}
	pos, ids := tensor(device.I32, draws), tensor(device.I32, 2*draws)
	write(device.Write(d, a.Logits, logits))
	write(device.Write(d, a.Seen, seen))
	write(device.Write(d, a.Settings, settings))
	write(device.Write(d, a.Seed, []uint32{5, 6}))
	write(device.Write(d, pos, []int32{0, 1, 2, 3, 4, 5}))
	write(d.Run(func(o *device.Ops) {
		for i := range 2 * draws {
			a.ID, a.Pos = ids.Slice(0, i, i+1), pos.Slice(0, i%draws, i%draws+1)
			if err := d.kernels.sample(a, i >= draws); err != nil {
				o.Fail(fmt.Errorf("draw %d: %w", i, err))
			}
		}
	}))
	got, err := device.Read[int32](d, ids)
	write(err)
	for _, x := range made {
		d.Free(x)
	}
	return got[:draws], got[draws:]
}
