package host

import (
	"math"
	"testing"

	"blitzen/device"
)

// TestEngines compares the engines on row counts around GoMLX's pieces. Both
// sum in float32, so a dot product of n terms near 1 differs by at most
// 2·n·2⁻²⁴ times the sum of their sizes; that sum is below n·E|x|·E|w|·2 =
// n·1.3.
func TestEngines(t *testing.T) {
	for _, s := range []struct{ rows, in, out int }{{16, 5, 3}, {17, 64, 33}, {100, 40, 520}, {129, 96, 7}, {300, 31, 64}} {
		var first []float32
		for _, products := range engines {
			d := open(t, Options{Threads: 2, Products: products})
			rand := normals(t, d)
			x, y := rand(1, s.rows, s.in+2).Slice(1, 1, s.in+1), rand(1, s.rows, s.out+4)
			w := device.Weight{Parts: []*device.Tensor{rand(1, s.out, s.in), rand(1, 4, s.in)}, Bias: []*device.Tensor{rand(1, s.out), rand(1, 4)}}
			check(t, d.Run(func(o *device.Ops) { o.LinearAdd(y, x, w) }))
			got, err := device.Read[float32](d, y)
			check(t, err)
			if first == nil {
				first = got
			}
			bound := 2 * float64(s.in) * math.Pow(2, -24) * 1.3 * float64(s.in+2)
			for i := range got {
				if diff := math.Abs(float64(got[i] - first[i])); !(diff <= bound) {
					t.Fatalf("%v: output %d is %v with one engine, %v with another: more than %g apart", s, i, first[i], got[i], bound)
				}
			}
		}
	}
}
