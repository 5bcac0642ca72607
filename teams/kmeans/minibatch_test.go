package kmeans

import (
	"slices"
	"testing"
)

func TestLowCenters(t *testing.T) {
	for _, c := range []struct {
		counts []float32
		bs     int
		low    []int32
		others float32
	}{
		{[]float32{1000, 9, 10}, 6, []int32{1}, 10},
		{[]float32{100, 1}, 6, nil, 1},                     // 1 % is enough
		{[]float32{4, 1000, 0, 3, 1}, 5, []int32{2, 4}, 3}, // half a batch at most, the smallest
		{[]float32{0, 0, 0, 7}, 4, []int32{0, 1}, 0},       // one stays empty
		{[]float32{500, 1, 500, 2, 500, 3}, 100, []int32{1, 3, 5}, 500},
	} {
		low, others := lowCenters(c.counts, c.bs)
		if !slices.Equal(low, c.low) || others != c.others {
			t.Errorf("counts %v, batch %d: %v and %v, want %v and %v", c.counts, c.bs, low, others, c.low, c.others)
		}
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
