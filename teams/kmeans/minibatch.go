package kmeans

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"blitzen/device"
)

// stream is the random numbers of the heads that have drawn alike so far: heads
// part when some have centers to reassign and others have not.
type stream struct {
	rng   mt19937
	batch []int32 // [bs] the rows drawn last, in order
	order []int32 // [bs] of them, for centers that are reassigned
}

// head is where one head's fit stands.
type head struct {
	stream *stream
	stop   convergence
	since  int  // rows since low centers were last looked for
	empty  bool // a center has no rows
	looks  bool // for low centers in this step
	done   bool
}

// trainer takes the minibatch steps of all heads.
type trainer struct {
	*fit
	of        []head
	cdf       equalWeights
	ids, next *device.Tensor // I32 [heads, bs]: the batches of this step and the next
	labels    *device.Tensor // I32 [heads, bs]
	live      *device.Tensor // I32 [heads]
	rows      []int32        // [heads, bs] for ids
}

// train takes minibatch steps until ten in a row bring no better inertia, at
// most 100 passes over the rows. Heads stop one by one.
func (f *fit) train(ctx context.Context, rng *mt19937) error {
	t := trainer{fit: f, of: make([]head, f.heads), cdf: newEqualWeights(f.n), rows: make([]int32, f.heads*f.bs)}
	first := &stream{rng: *rng, batch: make([]int32, f.bs)}
	for h := range t.of {
		t.of[h] = head{stream: first, empty: true}
	}
	t.ids = t.scratch.New("k-means batch", device.I32, f.heads, f.bs)
	t.next = t.scratch.New("k-means next batch", device.I32, f.heads, f.bs)
	t.labels = t.scratch.New("k-means batch labels", device.I32, f.heads, f.bs)
	if t.live = t.scratch.New("k-means live heads", device.I32, f.heads); t.scratch.Err() != nil {
		return t.scratch.Err()
	}
	f.result.Steps, f.result.Iterations = make([]int, f.heads), make([]int, f.heads)
	if err := t.draw(); err != nil {
		return err
	}
	for step := 1; slices.ContainsFunc(t.of, func(h head) bool { return !h.done }); step++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.step(step); err != nil {
			return err
		}
		f.report(f.k, step)
	}
	return nil
}

// step takes a step with the batches that were drawn, and draws the next ones:
// while the device works if no head may need words of its stream for anything
// else.
func (t *trainer) step(step int) error {
	if err := t.give(); err != nil {
		return err
	}
	err := t.dev.Run(func(o *device.Ops) {
		o.Nearest(device.NearestArgs{Labels: t.labels, Inertia: t.inertia, X: t.x, IDs: t.ids, Centers: t.centers, Live: t.live})
		o.MoveCenters(device.MoveArgs{Centers: t.centers, Counts: t.counts, X: t.x, IDs: t.ids, Labels: t.labels, Live: t.live})
	})
	if err != nil {
		return err
	}
	pending := t.dev.Fetch(t.inertia)
	looking := slices.ContainsFunc(t.of, func(h head) bool { return !h.done && h.looks })
	if !looking {
		if err := t.draw(); err != nil {
			return err
		}
	}
	inertia := make([]float32, t.heads)
	if err := device.Collect(pending, inertia); err != nil {
		return err
	}
	if err := t.finite(inertia); err != nil {
		return err
	}
	if looking {
		if err := t.reassign(); err != nil {
			return err
		}
		if err := t.draw(); err != nil {
			return err
		}
	}
	for h := range t.of {
		if head := &t.of[h]; !head.done {
			mean := float64(inertia[h]) / float64(t.bs)
			head.done = step == maxIter*t.n/t.bs || step > 1 && head.stop.after(mean, t.bs, t.n)
			t.result.Steps[h], t.result.Iterations[h] = step, (step*t.bs+t.n-1)/t.n
		}
	}
	return nil
}

// draw draws a batch of bs rows, with replacement, from every stream in use, and
// tells the device the next batches.
func (t *trainer) draw() error {
	drawn := map[*stream]bool{}
	var streams sync.WaitGroup
	for _, head := range t.of {
		s := head.stream
		if head.done || drawn[s] {
			continue
		}
		drawn[s] = true
		streams.Go(func() {
			for i := range s.batch {
				s.batch[i] = t.cdf.draw(&s.rng)
			}
		})
	}
	streams.Wait()
	for h, head := range t.of {
		if !head.done {
			copy(t.rows[h*t.bs:], head.stream.batch)
		}
	}
	return device.Write(t.dev, t.next, t.rows)
}

// give makes the next batches those of this step, and tells the device which
// heads go on.
func (t *trainer) give() error {
	live := make([]int32, t.heads)
	for h := range t.of {
		head := &t.of[h]
		if head.done {
			continue
		}
		live[h] = 1
		head.since += t.bs
		if head.looks = head.empty || head.since >= 10*t.k; head.looks {
			head.since = 0
		}
	}
	t.ids, t.next = t.next, t.ids
	return device.Write(t.dev, t.live, live)
}

// reassign moves the low centers of the heads that look for them to random rows
// of their batch.
func (t *trainer) reassign() error {
	counts, err := device.Read[float32](t.dev, t.counts)
	if err != nil {
		return err
	}
	after := slices.Clone(counts)
	moved := slices.Repeat([]int32{-1}, t.heads*t.bs)
	parted := map[*stream]*stream{}
	for h := range t.of {
		head, mine := &t.of[h], after[h*t.k:][:t.k]
		if head.done || !head.looks {
			continue
		}
		low, others := lowCenters(mine, t.bs)
		if len(low) > 0 {
			s := head.stream
			if parted[s] == nil {
				parted[s] = &stream{rng: s.rng, batch: slices.Clone(s.batch)}
				parted[s].order = parted[s].rng.permutation(t.bs)
			}
			head.stream = parted[s]
		}
		for i, c := range low {
			t.rows[h*t.bs+i], moved[h*t.bs+i] = head.stream.batch[head.stream.order[i]], c
			counts[h*t.k+int(c)], mine[c] = 0, others
		}
		head.empty = slices.Contains(mine, 0)
	}
	if len(parted) == 0 {
		return nil
	}
	return t.replace(moved, counts, after)
}

// replace makes rows the centers that they are for, [heads, bs], −1 for none.
// before has counts of 0 there, after those to go on with.
func (t *trainer) replace(centers []int32, before, after []float32) error {
	for _, err := range []error{
		device.Write(t.dev, t.ids, t.rows),
		device.Write(t.dev, t.labels, centers),
		device.Write(t.dev, t.counts, before),
		t.dev.Run(func(o *device.Ops) {
			o.MoveCenters(device.MoveArgs{Centers: t.centers, Counts: t.counts, X: t.x, IDs: t.ids, Labels: t.labels})
		}),
		device.Write(t.dev, t.counts, after),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// lowCenters are those that got less than 1 % of what the largest got, at most
// half a batch, and the count that they go on with: the smallest of the others.
func lowCenters(counts []float32, bs int) (low []int32, others float32) {
	most := slices.Max(counts)
	limit := reassignmentRatio * most
	others = most
	for c, count := range counts {
		if count < limit {
			low = append(low, int32(c))
		} else {
			others = min(others, count)
		}
	}
	if 2*len(low) > bs {
		slices.SortStableFunc(low, func(a, b int32) int { return cmp.Compare(counts[a], counts[b]) })
		others = min(others, counts[low[bs/2]])
		low = low[:bs/2]
		slices.Sort(low)
	}
	return low, others
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
