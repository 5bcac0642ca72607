package ruler

import (
	"fmt"
	"math"
	"math/bits"
)

// twister is MT19937 (Matsumoto and Nishimura, 1998), with the draws that
// Python's module random makes from it.
type twister struct {
	state [624]uint32
	next  int
}

// newTwister seeds as random.seed does: by the 32-bit digits of seed.
func newTwister(seed uint64) *twister {
	key := []uint32{uint32(seed)}
	if seed>>32 != 0 {
		key = append(key, uint32(seed>>32))
	}
	t := newPlainTwister(19650218)
	s := &t.state
	i, j := 1, 0
	wrap := func() {
		if i++; i >= len(s) {
			s[0], i = s[len(s)-1], 1
		}
	}
	for range max(len(s), len(key)) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		j = (j + 1) % len(key)
		wrap()
	}
	for range len(s) - 1 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		wrap()
	}
	s[0] = 1 << 31
	return t
}

// newPlainTwister seeds as numpy.random.seed does.
func newPlainTwister(seed uint32) *twister {
	t := &twister{next: len(twister{}.state)}
	t.state[0] = seed
	for i := 1; i < len(t.state); i++ {
		t.state[i] = 1812433253*(t.state[i-1]^t.state[i-1]>>30) + uint32(i)
	}
	return t
}

func (t *twister) uint32() uint32 {
	if t.next == len(t.state) {
		t.refill()
	}
	y := t.state[t.next]
	t.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (t *twister) refill() {
	s := &t.state
	n := len(s)
	for i := range s {
		y := s[i]&(1<<31) | s[(i+1)%n]&(1<<31-1)
		s[i] = s[(i+397)%n] ^ y>>1
		if y&1 != 0 {
			s[i] ^= 0x9908b0df
		}
	}
	t.next = 0
}

// float is random(): 53 bits in [0, 1).
func (t *twister) float() float64 {
	a, b := t.uint32()>>5, t.uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// below is _randbelow(n), n from 1 to 2³².
func (t *twister) below(n int) int {
	shift := 32 - bits.Len(uint(n))
	for {
		if v := int(t.uint32() >> shift); v < n {
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
		w[i] = t.uint32()
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
