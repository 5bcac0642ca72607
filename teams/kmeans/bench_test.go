package kmeans

import (
	"math"
	"testing"
)

// BenchmarkFit is one head of a small model at 4,096 tokens with P = 16: keys
// of width 64 that drift from token to token, with outliers in a few columns.
func BenchmarkFit(b *testing.B) {
	const n, d, k = 4096, 64, 256
	dev := openHost(b)
	rng := newMT19937(1)
	keys := make([]float32, n*d)
	for i := range keys {
		row, column := i/d, i%d
		angle := float64(row) / math.Pow(1000, float64(column%32)/32)
		keys[i] = float32(2*math.Sin(angle+float64(column)) + rng.double() + float64(10*(column%31/30)))
	}
	x := upload(b, dev, keys, n, d)
	steps := 0
	for b.Loop() {
		r, err := fitOne(dev, x, k)
		if err != nil {
			b.Fatal(err)
		}
		steps = r.Steps
	}
	b.ReportMetric(float64(steps), "steps")
}
