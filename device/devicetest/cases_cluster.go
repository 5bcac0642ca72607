package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

func clusterCases() []testCase {
	var cs []testCase
	for _, s := range []struct{ n, points, d int }{{1, 1, 1}, {17, 2, 17}, {111, 9, 64}, {65, 7, 128}, {300, 63, 8}} {
		cs = append(cs,
			testCase{fmt.Sprintf("Distances/%d to %d, %d wide", s.n, s.points, s.d), func(b *bench) { distances(b, s.n, s.points, s.d) }},
			testCase{fmt.Sprintf("Nearest/%d of %d, %d wide", s.n, s.points, s.d), func(b *bench) { nearest(b, s.n, s.points, s.d) }})
	}
	return append(cs, testCase{"Nearest/ties", nearestTies})
}

// distances include those of rows to themselves, where the formula cancels.
func distances(b *bench, n, points, d int) {
	x := b.normal(n*d, 3)
	p := append(x[:min(n, points/2)*d:min(n, points/2)*d], b.normal((points-min(n, points/2))*d, 3)...)
	dst := b.blank("dst", device.F32, points, n)
	// Terms of up to (|x|+|p|)² are summed in float64, u = 2⁻⁵³, and the result
	// is rounded once.
	norm := maxNorm(x, d) + maxNorm(p, d)
	b.want("dst", dst, tolerance{round: unit(device.F32), abs: safety * 0x1p-53 * norm * norm})
	xs, ps := b.tensor("x", device.F32, x, n, d), b.tensor("points", device.F32, p, points, d)
	b.run(func(o *device.Ops) { o.Distances(dst, xs, ps) })
}

// nearest leaves out rows whose two nearest centers differ by less than the
// error of float32 products.
func nearest(b *bench, n, k, d int) {
	x, centers := b.normal(n*d, 1), b.normal(k*d, 1)
	norm := maxNorm(centers, d)
	e := f32Error(norm*norm + 2*norm*maxNorm(x, d))
	skip := make([]bool, n)
	for i := range skip {
		score := make([]float64, k)
		for j := range score {
			c := centers[j*d:][:d]
			score[j] = 2*dot(x[i*d:][:d], c) - dot(c, c)
		}
		skip[i] = gapAfter(score, 1) <= 2*e
	}
	b.decided(skip, 0.1)
	labels := b.blank("labels", device.I32, n)
	b.wantBut("labels", labels, tolerance{}, skip)
	xs, cs := b.tensor("x", device.F32, x, n, d), b.tensor("centers", device.F32, centers, k, d)
	b.run(func(o *device.Ops) { o.Nearest(labels, xs, cs) })
}

// nearestTies uses small integers, whose sums are exact in any order: every
// center occurs three times, and some rows lie halfway between two.
func nearestTies(b *bench) {
	const n, k, d = 65, 51, 17
	centers := make([]float64, k*d)
	for j := range k / 3 {
		for i := range d {
			v := float64(b.rng.IntN(7) - 3)
			for _, copied := range []int{j, j + k/3, j + 2*k/3} {
				centers[copied*d+i] = v
			}
		}
	}
	x := make([]float64, n*d)
	for i := range x {
		x[i] = math.Trunc(b.rng.NormFloat64() * 2)
	}
	labels := b.blank("labels", device.I32, n)
	b.want("labels", labels, tolerance{})
	xs, cs := b.tensor("x", device.F32, x, n, d), b.tensor("centers", device.F32, centers, k, d)
	b.run(func(o *device.Ops) { o.Nearest(labels, xs, cs) })
}
