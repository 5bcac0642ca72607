package device

import "testing"

// Problems are named by their tensor and their place in it.
func TestRowSetsName(t *testing.T) {
	x := RowSets{NewTensor("cache.0.k", F32, nil, 2, 5, 3), NewTensor("cache.3.k", F32, nil, 2, 5, 3).Slice(1, 0, 4)}
	for p, want := range []string{"cache.0.k, head 0", "cache.0.k, head 1", "cache.3.k, head 0", "cache.3.k, head 1", "no head"} {
		if got := x.Name(p); got != want {
			t.Errorf("problem %d is %q, want %q", p, got, want)
		}
	}
}
