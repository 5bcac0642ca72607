package kmeans

import "gonum.org/v1/gonum/mathext/prng"

// mt19937 is numpy's RandomState(seed): the same words, and the same numbers
// made of them. A copy goes on like the original.
//
// Source: numpy/random/src/mt19937 and numpy/random/mtrand.pyx.
type mt19937 struct{ prng.MT19937 }

func newMT19937(seed uint32) *mt19937 {
	g := &mt19937{}
	g.Seed(uint64(seed))
	return g
}

// double is uniform in [0, 1) with 53 bits.
func (g *mt19937) double() float64 {
	a, b := g.Uint32()>>5, g.Uint32()>>6
	return (float64(a)*67108864 + float64(b)) / 9007199254740992
}

// interval is uniform in 0 … limit, by rejection.
func (g *mt19937) interval(limit uint32) uint32 {
	if limit == 0 {
		return 0
	}
	mask := limit
	for shift := 1; shift < 32; shift *= 2 {
		mask |= mask >> shift
	}
	for {
		if v := g.Uint32() & mask; v <= limit {
			return v
		}
	}
}

// permutation is a random order of 0 … n−1.
func (g *mt19937) permutation(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := g.interval(uint32(i))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// equalWeights is the cumulative distribution of n equal weights with the
// rounding of RandomState.choice: n float32 weights summed in float64.
type equalWeights []float64

func newEqualWeights(n int) equalWeights {
	cdf := make(equalWeights, n)
	p := float64(1 / float32(n))
	sum := 0.0
	for i := range cdf {
		sum += p
		cdf[i] = sum
	}
	for i := range cdf {
		cdf[i] /= sum
	}
	return cdf
}

func (cdf equalWeights) draw(g *mt19937) int32 { return cdf.find(g.double()) }

// find returns the first i with cdf[i] > u, 0 ≤ u < 1. It begins at ⌊u·n⌋,
// which is right but for rounding at the borders.
func (cdf equalWeights) find(u float64) int32 {
	i := min(int(u*float64(len(cdf))), len(cdf)-1)
	for cdf[i] <= u {
		i++
	}
	for i > 0 && cdf[i-1] > u {
		i--
	}
	return int32(i)
}
