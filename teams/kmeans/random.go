package kmeans

// mt19937 is numpy's RandomState(seed): the same words, and the same numbers
// made of them.
//
// Source: Matsumoto and Nishimura (1998); numpy/random/src/mt19937 and
// numpy/random/mtrand.pyx.
type mt19937 struct {
	key  [624]uint32
	next int
}

func newMT19937(seed uint32) *mt19937 {
	g := &mt19937{next: 624}
	g.key[0] = seed
	for i := 1; i < len(g.key); i++ {
		g.key[i] = 1812433253*(g.key[i-1]^g.key[i-1]>>30) + uint32(i)
	}
	return g
}

func (g *mt19937) word() uint32 {
	if g.next == len(g.key) {
		g.twist()
	}
	y := g.key[g.next]
	g.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (g *mt19937) twist() {
	const n, m = 624, 397
	for i := range g.key {
		y := g.key[i]&0x80000000 | g.key[(i+1)%n]&0x7fffffff
		g.key[i] = g.key[(i+m)%n] ^ y>>1 ^ -(y&1)&0x9908b0df
	}
	g.next = 0
}

// double is uniform in [0, 1) with 53 bits.
func (g *mt19937) double() float64 {
	a, b := g.word()>>5, g.word()>>6
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
		if v := g.word() & mask; v <= limit {
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
