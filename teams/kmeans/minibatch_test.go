package kmeans

import (
	"slices"
	"testing"
)

// TestReassignFew moves the one center that is far below the largest, to the
// row of the batch that the permutation names first.
func TestReassignFew(t *testing.T) {
	f := newFit([]float32{0, 1, 2, 3, 4, 5}, 6, 1, 3, []int32{0, 1, 2})
	copy(f.batch, []int32{5, 4, 3, 3, 4, 5})
	copy(f.counts, []float32{1000, 9, 10})
	f.reassign(newMT19937(0))
	first := newMT19937(0).permutation(6)[0]
	if want := []float32{0, f.x[f.batch[first]], 2}; !slices.Equal(f.centers, want) {
		t.Errorf("centers %v, want %v", f.centers, want)
	}
	if want := []float32{1000, 10, 10}; !slices.Equal(f.counts, want) {
		t.Errorf("counts %v, want %v", f.counts, want)
	}
}

// TestReassignMany moves no more centers than half the batch, the smallest.
func TestReassignMany(t *testing.T) {
	f := newFit([]float32{0, 1, 2, 3, 4}, 5, 1, 5, []int32{0, 1, 2, 3, 4})
	copy(f.batch, []int32{3, 3, 3, 3, 3})
	copy(f.counts, []float32{4, 1000, 0, 3, 1})
	f.reassign(newMT19937(0))
	if want := []float32{0, 1, 3, 3, 3}; !slices.Equal(f.centers, want) {
		t.Errorf("centers %v, want %v", f.centers, want)
	}
	if want := []float32{4, 1000, 3, 3, 3}; !slices.Equal(f.counts, want) {
		t.Errorf("counts %v, want %v", f.counts, want)
	}
}

// TestReassignNone draws nothing when every center has rows enough.
func TestReassignNone(t *testing.T) {
	f := newFit([]float32{0, 1}, 2, 1, 2, []int32{0, 1})
	copy(f.counts, []float32{100, 1}) // 1 % is enough
	g := newMT19937(0)
	f.reassign(g)
	if g.next != 624 || !slices.Equal(f.centers, []float32{0, 1}) {
		t.Errorf("centers %v, next word %d", f.centers, g.next)
	}
}

func TestConvergence(t *testing.T) {
	var c convergence
	for i, v := range []float64{5, 4, 3} {
		if c.after(v, 10, 10) {
			t.Fatalf("stopped while improving, batch %d", i)
		}
	}
	for i := range maxNoImprovement {
		if stop := c.after(3, 10, 10); stop != (i == maxNoImprovement-1) {
			t.Fatalf("after %d batches without a better one: stop = %v", i+1, stop)
		}
	}
	// Of n = 39 rows a batch of 10 weighs 2·10/40.
	c = convergence{}
	c.after(8, 10, 39)
	c.after(4, 10, 39)
	if c.mean != 6 || c.best != 6 {
		t.Errorf("mean %v, best %v, want 6", c.mean, c.best)
	}
}

// TestUpdate has means of all rows that a center ever got.
func TestUpdate(t *testing.T) {
	f := newFit([]float32{1, 3, 8}, 3, 1, 2, []int32{0, 2})
	copy(f.counts, []float32{2, 0}) // center 0, at 1, is the mean of two rows
	copy(f.batch, []int32{1, 2, 1})
	f.distinct, f.labels = []int32{1, 2}, []int32{0, 1}
	f.slot[1], f.slot[2] = 0, 1
	f.update()
	if want := []float32{2, 8}; !slices.Equal(f.centers, want) { // (1+1+3+3)/4
		t.Errorf("centers %v, want %v", f.centers, want)
	}
	if want := []float32{4, 1}; !slices.Equal(f.counts, want) {
		t.Errorf("counts %v, want %v", f.counts, want)
	}
}
