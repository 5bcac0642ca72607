package kmeans

import (
	"cmp"
	"context"
	"slices"
)

// fit is the state of the minibatch steps. Products of float32 are converted
// before they are added, which forbids fusing the two: results are the same on
// every processor.
type fit struct {
	x           []float32 // [n, d]
	n, d, k, bs int
	centers     []float32 // [k, d]
	counts      []float32 // [k] rows that made each center, over all steps
	added       []float32 // [k] rows of this batch
	since       int       // rows since empty centers were last looked for

	cdf      equalWeights
	batch    []int32   // [bs] the rows drawn, in order
	distinct []int32   // the same rows, each once
	slot     []int32   // [n] place of a row in distinct, −1 elsewhere
	far      []float32 // squared distances of the distinct rows
	labels   []int32   // of the distinct rows
}

func newFit(x []float32, n, d, k int, first []int32) *fit {
	bs := min(batchSize, n)
	f := &fit{
		x: x, n: n, d: d, k: k, bs: bs,
		centers: make([]float32, k*d), counts: make([]float32, k), added: make([]float32, k),
		cdf: newEqualWeights(n), batch: make([]int32, bs), distinct: make([]int32, 0, bs),
		slot: make([]int32, n), far: make([]float32, bs),
	}
	for c, row := range first {
		copy(f.center(int32(c)), f.row(int(row)))
	}
	for i := range f.slot {
		f.slot[i] = -1
	}
	return f
}

func (f *fit) row(i int) []float32      { return f.x[i*f.d : (i+1)*f.d] }
func (f *fit) center(c int32) []float32 { return f.centers[int(c)*f.d : (int(c)+1)*f.d] }

// train takes minibatch steps until ten in a row bring no better inertia, at
// most 100 passes over the rows, and returns their number.
func (f *fit) train(ctx context.Context, l *labeller, rng *mt19937) (int, error) {
	var stop convergence
	limit := maxIter * f.n / f.bs
	for step := 1; ; step++ {
		if err := ctx.Err(); err != nil {
			return step, err
		}
		f.draw(rng)
		f.since += f.bs
		reassign := slices.Contains(f.counts, 0) || f.since >= 10*f.k
		if reassign {
			f.since = 0
		}
		var err error
		if f.labels, err = l.of(f.distinct, f.centers); err != nil {
			return step, err
		}
		inertia := f.inertia()
		f.update()
		if reassign {
			f.reassign(rng)
		}
		if step == limit || step > 1 && stop.after(inertia, f.bs, f.n) {
			return step, nil
		}
	}
}

// draw fills batch with bs rows, with replacement. A row that comes up again
// is labelled once.
func (f *fit) draw(rng *mt19937) {
	for _, row := range f.distinct {
		f.slot[row] = -1
	}
	f.distinct = f.distinct[:0]
	for i := range f.batch {
		row := f.cdf.draw(rng)
		f.batch[i] = row
		if f.slot[row] < 0 {
			f.slot[row] = int32(len(f.distinct))
			f.distinct = append(f.distinct, row)
		}
	}
}

// inertia is the mean squared distance of the batch from its centers.
func (f *fit) inertia() float64 {
	for i, row := range f.distinct {
		f.far[i] = f.distance(int(row), f.labels[i])
	}
	var sum float32
	for _, row := range f.batch {
		sum += f.far[f.slot[row]]
	}
	return float64(sum) / float64(f.bs)
}

// distance is the squared distance of row i from center c, four features at a
// time.
func (f *fit) distance(i int, c int32) float32 {
	a := f.row(i)
	b := f.center(c)[:len(a)]
	var s float32
	j := 0
	for ; j+4 <= len(a); j += 4 {
		d0, d1, d2, d3 := a[j]-b[j], a[j+1]-b[j+1], a[j+2]-b[j+2], a[j+3]-b[j+3]
		s += float32(d0*d0) + float32(d1*d1) + float32(d2*d2) + float32(d3*d3)
	}
	for ; j < len(a); j++ {
		d0 := a[j] - b[j]
		s += float32(d0 * d0)
	}
	return s
}

// update moves every center to the mean of all rows it ever got.
func (f *fit) update() {
	clear(f.added)
	for _, row := range f.batch {
		c := f.labels[f.slot[row]]
		sum := f.center(c)
		if f.added[c] == 0 {
			scale(sum, f.counts[c])
		}
		f.added[c]++
		x := f.row(int(row))
		for j := range sum {
			sum[j] += x[j]
		}
	}
	for c, added := range f.added {
		if added > 0 {
			f.counts[c] += added
			scale(f.center(int32(c)), 1/f.counts[c])
		}
	}
}

func scale(v []float32, by float32) {
	for j := range v {
		v[j] *= by
	}
}

// reassign moves the centers that got less than 1 % of what the largest got to
// random rows of the batch.
func (f *fit) reassign(rng *mt19937) {
	limit := reassignmentRatio * slices.Max(f.counts)
	low := make([]int32, 0, f.k)
	others := slices.Max(f.counts) // the smallest count that stays
	for c, count := range f.counts {
		if count < limit {
			low = append(low, int32(c))
		} else {
			others = min(others, count)
		}
	}
	if len(low) == 0 {
		return
	}
	if 2*len(low) > f.bs {
		slices.SortStableFunc(low, func(a, b int32) int { return cmp.Compare(f.counts[a], f.counts[b]) })
		others = min(others, f.counts[low[f.bs/2]])
		low = low[:f.bs/2]
		slices.Sort(low)
	}
	for i, j := range rng.permutation(f.bs)[:len(low)] {
		copy(f.center(low[i]), f.row(int(f.batch[j])))
		f.counts[low[i]] = others
	}
}

// convergence watches the exponentially weighted mean of the batches' inertia.
type convergence struct {
	mean, best float64
	seen       bool
	worse      int // batches in a row without a new best
}

// after takes the inertia of one more batch and reports whether to stop.
func (c *convergence) after(inertia float64, bs, n int) bool {
	if !c.seen {
		c.seen, c.mean, c.best = true, inertia, inertia
		return false
	}
	a := min(1, 2*float64(bs)/float64(n+1))
	c.mean = float64(c.mean*(1-a)) + float64(inertia*a)
	if c.mean < c.best {
		c.best, c.worse = c.mean, 0
	} else {
		c.worse++
	}
	return c.worse >= maxNoImprovement
}
