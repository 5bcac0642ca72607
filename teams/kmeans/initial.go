package kmeans

import (
	"context"
	"math"
	"slices"

	"blitzen/device"
)

// initial chooses k rows of every head as first centers by greedy k-means++:
// each next center is the best of 2 + ⌊ln k⌋ candidates drawn in proportion to
// their squared distance from the nearest center so far. Of more than 12,288
// rows a sample takes part. Which words are drawn does not depend on the rows,
// so all heads share them.
func (f *fit) initial(ctx context.Context, rng *mt19937) error {
	sample := f.sample(rng)
	m, trials := len(sample), 2+int(math.Log(float64(f.k)))
	first := newEqualWeights(m).draw(rng)
	words := make([]uint32, f.k*trials*2)
	for i := range words[trials*2:] { // center 0 is drawn already
		words[trials*2+i] = rng.Uint32()
	}
	a := device.SpreadArgs{X: f.x, First: int(first)}
	var err error
	if a.IDs, err = scratchOf(f, "k-means sample", device.I32, sample, m); err != nil {
		return err
	}
	if a.Words, err = scratchOf(f, "k-means words", device.U32, words, f.k, trials, 2); err != nil {
		return err
	}
	a.Chosen, a.Near = f.scratch.New("k-means chosen", device.I32, f.heads, f.k), f.scratch.New("k-means near", device.F32, f.heads, m)
	if a.Pot = f.scratch.New("k-means pot", device.F32, f.heads); f.scratch.Err() != nil {
		return f.scratch.Err()
	}
	if err := f.spread(ctx, a); err != nil {
		return err
	}
	chosen, err := device.Read[int32](f.dev, a.Chosen)
	if err != nil {
		return err
	}
	for i := range chosen {
		chosen[i] = sample[chosen[i]]
	}
	for h := range f.heads {
		f.result.InitIndices = append(f.result.InitIndices, chosen[h*f.k:][:f.k])
	}
	return f.place(chosen)
}

// sample is the rows that take part in k-means++.
func (f *fit) sample(rng *mt19937) []int32 {
	size := 3 * f.bs
	if size < f.k {
		size = 3 * f.k
	}
	size = min(size, f.n)
	for range size { // scikit-learn's validation rows: without use when n_init = 1
		rng.interval(uint32(f.n - 1))
	}
	sample := make([]int32, size)
	for i := range sample {
		sample[i] = int32(i)
		if size < f.n {
			sample[i] = int32(rng.interval(uint32(f.n - 1)))
		}
	}
	return sample
}

// spread chooses the centers, a bounded amount of work at a time.
func (f *fit) spread(ctx context.Context, a device.SpreadArgs) error {
	work := 2e9
	if f.dev.Queued() { // a GPU
		work = 1e12
	}
	each := 2 * float64(f.heads) * float64(a.IDs.Shape[0]) * float64(f.d) * float64(a.Words.Shape[1])
	atOnce := max(1, int(work/each))
	for a.From < f.k {
		if err := ctx.Err(); err != nil {
			return err
		}
		a.To = min(a.From+atOnce, f.k)
		if err := f.dev.Run(func(o *device.Ops) { o.SpreadCenters(a) }); err != nil {
			return err
		}
		pot, err := device.Read[float32](f.dev, a.Pot)
		if err != nil {
			return err
		}
		if err := f.finite(pot); err != nil {
			return err
		}
		a.From = a.To
		f.report(a.To, 0)
	}
	return nil
}

// place makes rows, [heads, k], the centers.
func (f *fit) place(rows []int32) error {
	ids, err := scratchOf(f, "k-means first centers", device.I32, rows, f.heads, f.k)
	if err != nil {
		return err
	}
	every := make([]int32, f.k)
	for c := range every {
		every[c] = int32(c)
	}
	labels, err := scratchOf(f, "k-means places", device.I32, slices.Repeat(every, f.heads), f.heads, f.k)
	if err != nil {
		return err
	}
	err = f.dev.Run(func(o *device.Ops) {
		o.MoveCenters(device.MoveArgs{Centers: f.centers, Counts: f.counts, X: f.x, IDs: ids, Labels: labels})
	})
	if err != nil {
		return err
	}
	return device.Write(f.dev, f.counts, make([]float32, f.heads*f.k))
}
