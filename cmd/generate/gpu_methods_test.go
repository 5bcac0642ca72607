package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"blitzen/cuda"
	"blitzen/device"
)

// Every method on a GPU in float32 against the CPU. Contiguous teams do not turn
// on the last bits of the keys: each seed reads the same rows on both and its
// outputs are as far from exact attention's. An output is off by a few dozen
// units of 2⁻²⁴ on either device, a ratio of two by twice that, so 1e-4 is far
// above that and far below what one other row would change.
//
// Clusters may turn on those bits (of the same keys both devices make the same
// teams; package cuda tests that), and of the thousands of draws by a running sum
// of weights, SANTA's, one may lie within them of a border. There the means over
// the seeds agree, within 4.5 standard errors of their difference.
func TestGPUMethods(t *testing.T) {
	openTestGPU(t, cuda.Options{DType: device.F32})
	ids := idList(longPrompt(150))
	for _, model := range []string{"qwen2_tied_gqa", "dsv2_lite"} {
		for _, method := range []string{
			"santapp", "santapp --parents probe", "santapp --parents contiguous", "centroid --block 4", "centroid --block 16",
			"uniform", "oracle", "santa", "santa --draw systematic",
		} {
			t.Run(model+" "+method, func(t *testing.T) {
				exact := strings.Contains(method, "contiguous")
				seeds := 8
				if exact {
					seeds = 2
				}
				args := append([]string{tiny + model, "--prompt-ids", ids, "-n", "8", "--ignore-eos", "--dtype", "f32", "--control=false",
					"--seeds", strconv.Itoa(seeds), "--budget", "32", "--b"}, strings.Fields(method)...)
				host, gpu := compare(t, append(args, "--device", "cpu")...), compare(t, append(args, "--device", "cuda")...)
				same := 0
				for i, want := range host.Seeds {
					got := gpu.Seeds[i]
					if want.Access == 100 || slices.Max(want.OutputErrors) < 1e-3 {
						t.Errorf("seed %d samples nothing: %v %% read, errors %v", i, want.Access, want.OutputErrors)
					}
					if got.Access == want.Access && closest(got.OutputErrors, want.OutputErrors) <= 1e-4 {
						same++
					} else if exact {
						t.Errorf("seed %d: %v %% read, %v on the CPU; errors %v, %v on the CPU", i, got.Access, want.Access, got.OutputErrors, want.OutputErrors)
					}
				}
				t.Logf("%d of %d seeds are the same", same, seeds)
				if exact {
					return
				}
				var there, here []float64
				for layer := -1; layer < len(host.Seeds[0].OutputErrors); layer++ {
					there, here = there[:0], here[:0]
					for i, want := range host.Seeds {
						if layer < 0 {
							there, here = append(there, gpu.Seeds[i].Access), append(here, want.Access)
						} else {
							there, here = append(there, gpu.Seeds[i].OutputErrors[layer]), append(here, want.OutputErrors[layer])
						}
					}
					agree(t, layer, there, here)
				}
			})
		}
	}
}

// closest is the largest difference between two lists.
func closest(a, b []float64) float64 {
	d := 0.0
	for i, x := range a {
		d = max(d, math.Abs(x-b[i]))
	}
	return d
}

// agree holds the means of two devices within 4.5 standard errors: of the
// output error of a layer, or of the access for layer -1.
func agree(t *testing.T, layer int, gpu, host []float64) {
	t.Helper()
	moments := func(values []float64) (mean, variance float64) {
		n := float64(len(values))
		for _, x := range values {
			mean += x / n
		}
		for _, x := range values {
			variance += (x - mean) * (x - mean) / (n - 1) / n
		}
		return mean, variance
	}
	a, va := moments(gpu)
	b, vb := moments(host)
	if s := math.Sqrt(va + vb); math.Abs(a-b) > 4.5*s+1e-4 {
		t.Errorf("layer %d: %v, %v on the CPU: %.1f standard errors apart", layer, a, b, (a-b)/s)
	}
}

// longPrompt are n ids of a small vocabulary, none of them special, in no order.
func longPrompt(n int) []int32 {
	ids := make([]int32, n)
	x := uint32(1)
	for i := range ids {
		x = 1664525*x + 1013904223 // numbers of a linear congruential generator
		ids[i] = int32(3 + x>>16%200)
	}
	return ids
}
