package ruler

import (
	"fmt"
	"math"
	"math/bits"

	"gonum.org/v1/gonum/mathext/prng"
)

// twister is MT19937 with the draws that Python's module random makes from it.
type twister struct{ prng.MT19937 }

// newTwister seeds as random.seed does: by the 32-bit digits of seed.
func newTwister(seed uint64) *twister {
	key := []uint32{uint32(seed)}
	if seed>>32 != 0 {
		key = append(key, uint32(seed>>32))
	}
	t := &twister{}
	t.SeedFromKeys(key)
	return t
}

// newPlainTwister seeds as numpy.random.seed does.
func newPlainTwister(seed uint32) *twister {
	t := &twister{}
	t.Seed(uint64(seed))
	return t
}

// float is random(): 53 bits in [0, 1).
func (t *twister) float() float64 {
	a, b := t.Uint32()>>5, t.Uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// below is _randbelow(n), n from 1 to 2³².
func (t *twister) below(n int) int {
	shift := 32 - bits.Len(uint(n))
	for {
		if v := int(t.Uint32() >> shift); v < n {
			return v
		}
	}
}

// between is randint(low, high).
func (t *twister) between(low, high int) int { return low + t.below(high-low+1) }

// letters is choices(alphabet, k=n), joined.
func (t *twister) letters(alphabet string, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[int(t.float()*float64(len(alphabet)))]
	}
	return string(out)
}

// uuid is UUID(int=getrandbits(128), version=4).
func (t *twister) uuid() string {
	var w [4]uint32 // the number's digits, lowest first
	for i := range w {
		w[i] = t.Uint32()
	}
	w[2] = w[2]&^0xf000 | 0x4000
	w[1] = w[1]&^(3<<30) | 2<<30
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%04x%08x", w[3], w[2]>>16, w[2]&0xffff, w[1]>>16, w[1]&0xffff, w[0])
}

// sample is sample(range(n), k), k at most n.
func (t *twister) sample(n, k int) []int {
	small := 21
	if k > 5 {
		small += 1 << (2 * int(math.Ceil(math.Log(float64(3*k))/math.Log(4))))
	}
	out := make([]int, k)
	if n <= small {
		pool := make([]int, n)
		for i := range pool {
			pool[i] = i
		}
		for i := range out {
			j := t.below(n - i)
			out[i], pool[j] = pool[j], pool[n-i-1]
		}
		return out
	}
	taken := make(map[int]bool, k)
	for i := range out {
		j := t.below(n)
		for taken[j] {
			j = t.below(n)
		}
		taken[j], out[i] = true, j
	}
	return out
}

// shuffle is shuffle(x).
func shuffle[T any](t *twister, x []T) {
	for i := len(x) - 1; i > 0; i-- {
		j := t.below(i + 1)
		x[i], x[j] = x[j], x[i]
	}
}
