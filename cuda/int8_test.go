package cuda

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

// Where memory is for few of the experts' widened weights, or few of a matrix's
// rows, the result is the same.
func TestInt8InPieces(t *testing.T) {
	d := requireGPU(t, Options{DType: device.BF16})
	rng := rand.New(rand.NewPCG(1, 2))
	normal := func(n int, scale float64) []byte {
		v := make([]float64, n)
		for i := range v {
			v[i] = scale * rng.NormFloat64()
		}
		return devicetest.Encode(device.BF16, v)
	}
	must := func(v *device.Tensor, err error) *device.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	matrix := func(rows, n int) *device.Tensor {
		return must(d.ImportInt8("w", device.BF16, []int{rows, n}, normal(rows*n, 1/math.Sqrt(float64(n)))))
	}
	const tokens, hidden, width, experts, k = 300, 128, 72, 7, 2
	a := device.ExpertsArgs{X: must(d.New("x", device.BF16, tokens, hidden)), IDs: must(d.New("ids", device.I32, tokens, k)), Weights: must(d.New("weights", device.F32, tokens, k))}
	ids, weights := make([]int32, tokens*k), make([]float32, tokens*k)
	for i := range ids {
		ids[i], weights[i] = int32(rng.IntN(experts/k)*k+i%k), rng.Float32() // expert 6 has none
	}
	for range experts {
		a.Experts = append(a.Experts, device.Expert{
			GateUp: device.Weight{Parts: []*device.Tensor{matrix(width, hidden), matrix(width, hidden)}},
			Down:   device.Weight{Parts: []*device.Tensor{matrix(hidden, width)}},
		})
	}
	w := device.Weight{Parts: []*device.Tensor{matrix(200, hidden), matrix(56, hidden)}}
	for _, err := range []error{d.Upload(a.X, normal(tokens*hidden, 1)), device.Write(d, a.IDs, ids), device.Write(d, a.Weights, weights)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(most int) (experts, linear []float32) {
		d.kernels.widenMost = most
		a.Dst = must(d.New("dst", device.F32, tokens, hidden))
		dst := must(d.New("dst", device.F32, tokens, 256))
		if err := d.Run(func(o *device.Ops) { o.Experts(a); o.Linear(dst, a.X, w) }); err != nil {
			t.Fatal(err)
		}
		var err error
		if experts, err = device.Read[float32](d, a.Dst); err != nil {
			t.Fatal(err)
		}
		if linear, err = device.Read[float32](d, dst); err != nil {
			t.Fatal(err)
		}
		return experts, linear
	}
	atOnce, product := run(0)
	for _, most := range []int{1, 3 * width * hidden * 2, 3 * width * hidden * 3} {
		pieces, productOfPieces := run(most)
		if !slices.Equal(atOnce, pieces) {
			t.Errorf("%d weights at once: experts give other numbers", most)
		}
		for i := range product {
			// cuBLASLt may sum in another order: by devicetest/tolerance.go each sum is within
			// 8·2⁻²⁴·|x|·|w| of the exact one. Of 128 normal numbers |x| is below 1.3·√128, and
			// |w| below 1.3.
			const off = 2 * 8 * 0x1p-24 * 1.3 * 11.4 * 1.3 // 1.8e-5
			if math.Abs(float64(product[i]-productOfPieces[i])) > off {
				t.Fatalf("%d weights at once: product %d is %v, want %v", most, i, productOfPieces[i], product[i])
			}
		}
	}
}
