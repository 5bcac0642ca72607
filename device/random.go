package device

import (
	"math"
	"math/bits"
)

// TokenLayer is the layer number that the token sampler's random numbers are
// drawn under, so that they never meet those of attention.
const TokenLayer = math.MaxUint32

// Philox is the counter-based generator Philox4x32-10: four 32-bit words that
// depend on counter and key alone, so that every device draws the same
// integers in any order. Attention uses counter = (team/4, head, layer,
// position), word team mod 4; key = seed (low, high).
//
// Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011).
func Philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	const (
		m0, m1 = 0xD2511F53, 0xCD9E8D57
		w0, w1 = 0x9E3779B9, 0xBB67AE85
	)
	for range 10 {
		h0, l0 := bits.Mul32(m0, counter[0])
		h1, l1 := bits.Mul32(m1, counter[2])
		counter = [4]uint32{h1 ^ counter[1] ^ key[0], l1, h0 ^ counter[3] ^ key[1], l0}
		key[0] += w0
		key[1] += w1
	}
	return counter
}

// Uniform maps a word to (x + ½)·2⁻³², strictly between 0 and 1.
func Uniform(x uint32) float64 { return (float64(x) + 0.5) / (1 << 32) }

// Gumbel maps a word to a standard Gumbel variate, −ln(−ln(1 − v)) with
// v = Uniform(x). Small v are the winners of a maximum, and keep all 32 bits.
func Gumbel(x uint32) float64 { return -math.Log(-math.Log1p(-Uniform(x))) }

// TeamGumbel is the noise of one team for one query head, natural-log units.
func TeamGumbel(seed [2]uint32, team, head, layer, pos int) float64 {
	w := Philox([4]uint32{uint32(team) / 4, uint32(head), uint32(layer), uint32(pos)}, seed)
	return Gumbel(w[team%4])
}

// Double is a number in [0, 1) of 53 random bits, as numpy makes it of two
// words.
func Double(a, b uint32) float64 {
	return (float64(a>>5)*(1<<26) + float64(b>>6)) / (1 << 53)
}
