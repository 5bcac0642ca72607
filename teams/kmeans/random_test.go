package kmeans

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRandomKnown has values that are published: the 10,000th word after seed
// 5489 (ISO C++, [rand.predef]) and numpy's for seed 0.
func TestRandomKnown(t *testing.T) {
	g := newMT19937(5489)
	for range 9999 {
		g.Uint32()
	}
	if w := g.Uint32(); w != 4123659995 {
		t.Errorf("word 10,000 is %d", w)
	}
	g = newMT19937(0)
	for i, want := range []float64{0.5488135039273248, 0.7151893663724195, 0.6027633760716439} {
		if v := g.double(); v != want {
			t.Errorf("double %d is %v, want %v", i, v, want)
		}
	}
	if p, want := newMT19937(0).permutation(10), []int32{2, 8, 4, 9, 1, 6, 7, 3, 0, 5}; !slices.Equal(p, want) {
		t.Errorf("permutation %v, want %v", p, want)
	}
}

func TestInterval(t *testing.T) {
	g := newMT19937(1)
	if g.interval(0) != 0 || *g != *newMT19937(1) {
		t.Error("an interval of one number draws a word")
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Uint32().Draw(t, "limit")
		if v := g.interval(limit); v > limit {
			t.Fatalf("%d is above %d", v, limit)
		}
	})
}

// TestEqualWeightsFind compares with a search from the start, at the borders of
// the cells and at random.
func TestEqualWeightsFind(t *testing.T) {
	for _, n := range []int{1, 2, 3, 700, 4096, 5001} {
		cdf := newEqualWeights(n)
		if cdf[n-1] != 1 {
			t.Fatalf("n = %d: the distribution ends at %v", n, cdf[n-1])
		}
		g := newMT19937(7)
		for range 300 {
			border := cdf[g.interval(uint32(n-1))]
			for _, u := range []float64{g.double(), math.Nextafter(border, 0), border, math.Nextafter(border, 2), float64(g.interval(uint32(n-1))) / float64(n)} {
				want := slices.IndexFunc(cdf, func(c float64) bool { return c > u })
				if got := cdf.find(min(u, math.Nextafter(1, 0))); want >= 0 && int(got) != want {
					t.Fatalf("n = %d, u = %v: row %d, want %d", n, u, got, want)
				}
			}
		}
	}
}
