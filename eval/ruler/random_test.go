package ruler

import (
	"slices"
	"testing"
)

// Draws of Python 3.11's module random, one after another from seed 42.
func TestTwister(t *testing.T) {
	r := newTwister(42)
	if a, b := r.float(), r.float(); a != 0.6394267984578837 || b != 0.025010755222666936 {
		t.Errorf("random: %v, %v", a, b)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("randint", r.between(1_000_000, 9_999_999), 5614226)
	if got := r.sample(10, 3); !slices.Equal(got, []int{3, 9, 2}) {
		t.Errorf("sample from a pool: %v", got)
	}
	if got := r.sample(1000, 7); !slices.Equal(got, []int{754, 104, 692, 758, 913, 558, 89}) {
		t.Errorf("sample from a set: %v", got)
	}
	check("choices", r.letters("abcdefghijklmnopqrstuvwxyz", 6), "pacgpo")
	check("uuid", r.uuid(), "8b8148f6-b38a-488c-a65e-d389b74d0fb1")
	x := []int{0, 1, 2, 3, 4, 5, 6, 7}
	if shuffle(r, x); !slices.Equal(x, []int{7, 5, 0, 2, 4, 3, 1, 6}) {
		t.Errorf("shuffle: %v", x)
	}
	wide := newTwister(5<<32 | 7)
	check("a seed of two words", [3]uint32{wide.Uint32(), wide.Uint32(), wide.Uint32()}, [3]uint32{334492092, 130243341, 731690660})
	// numpy.random.seed(42) and its first 32-bit word.
	check("the plain seed", newPlainTwister(42).Uint32(), uint32(1608637542))
}
