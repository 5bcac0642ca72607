// Package kmeans is scikit-learn's MiniBatchKMeans, with its random stream and
// its control flow, for many heads side by side on a device:
//
//	greedy k-means++   device.SpreadCenters
//	minibatch steps    device.Nearest and device.MoveCenters, once each a step
//	labels             device.Nearest over all rows
//
// It is MiniBatchKMeans(n_clusters=k, batch_size=4096, n_init=1, max_iter=100,
// max_no_improvement=10, reassignment_ratio=0.01, tol=0, random_state=0),
// version 1.9.1, for float32 rows of equal weight. The rows, the centers and all
// arithmetic on them stay on the device. The host draws the random numbers,
// watches the inertia, and chooses which centers are reassigned.
//
// # What is promised
//
// The same rows give the same result, a valid partition into at most k parts, on
// every device but for ties that the last bit of a float64 sum decides. The
// labels are scikit-learn's own wherever rounding does not decide them. It
// decides in three places, where scikit-learn differs from machine to machine
// too:
//
//   - The sums that k-means++ draws its candidates by are float32 sums in the
//     order of a BLAS, here float64 sums rounded once. A relative difference of
//     1e-7 moves a candidate with a chance of rows·1e-7 a draw, and one moved
//     candidate leads to other centers and labels of equal quality: about 1 % of
//     runs at 700 rows, 20 % at 3,000.
//   - Labels come from a float32 product, here from a float64 product rounded
//     once. A row equally far from two centers may flip.
//   - Equal rows put several centers on one point, and each tie between them is
//     decided by rounding: the partition is nearly the same, labels and the
//     number of steps need not be.
//
// Source: sklearn/cluster/_kmeans.py and _k_means_minibatch.pyx.
package kmeans

import (
	"context"
	"fmt"

	"blitzen/device"
)

// The parameters of the fit, by scikit-learn's names.
const (
	batchSize         = 4096
	maxIter           = 100
	maxNoImprovement  = 10
	reassignmentRatio = float32(0.01)
	randomState       = 0
)

// Result is a fitted clustering of every head.
type Result struct {
	Centers     *device.Tensor // F32 [heads, k, d] after the last step; Close frees it
	Inertia     []float32      // [heads] Σ of squared distances to the nearest center
	Steps       []int          // [heads] minibatches used (n_steps_)
	Iterations  []int          // [heads] the same in passes over the rows, rounded up (n_iter_)
	InitIndices [][]int32      // [heads][k] the rows that k-means++ chose
	owned       device.Owner
}

// Close frees the centers.
func (r *Result) Close() { r.owned.Free() }

// Fit clusters the rows of every head, x [heads, n, d], into k parts, 1 ≤ k ≤
// n, and writes the nearest center of each row to labels, I32 [heads, n]; a
// center may have none. x is only read. Beside it the device needs memory for
// the centers and for 12,288 (or 3k) distances a head. Rows that are not finite,
// or so large that squared distances overflow float32, are an error, when the
// fit meets one. progress, if not nil, is told how much is done. When ctx ends,
// so does Fit, within one trip to the device.
func Fit(ctx context.Context, dev device.Device, x device.RowSets, k int, labels *device.Tensor, progress func(done, of int)) (*Result, error) {
	heads := x.Problems()
	if heads == 0 {
		return nil, fmt.Errorf("k-means: there are no rows")
	}
	n, d := x[0].Shape[1], x[0].Shape[2]
	if k < 1 || k > n {
		return nil, fmt.Errorf("k-means: %d clusters of %d rows (%v): want 1 to the number of rows", k, n, x[0])
	}
	f := &fit{dev: dev, x: x, heads: heads, n: n, d: d, k: k, bs: min(batchSize, n), progress: progress}
	f.result.owned.Dev, f.scratch.Dev = dev, dev
	defer f.scratch.Free()
	if err := f.run(ctx, labels); err != nil {
		f.result.Close()
		return nil, fmt.Errorf("k-means: %w", err)
	}
	return &f.result, nil
}

// fit is one fit of all heads.
type fit struct {
	dev            device.Device
	x              device.RowSets
	heads, n, d, k int
	bs             int // rows of a minibatch
	progress       func(done, of int)
	result         Result
	scratch        device.Owner

	centers, counts *device.Tensor // F32 [heads, k, d], [heads, k]
	inertia         *device.Tensor // F32 [heads]
}

func (f *fit) run(ctx context.Context, labels *device.Tensor) error {
	f.result.Centers = f.result.owned.New("k-means centers", device.F32, f.heads, f.k, f.d)
	f.counts = f.scratch.New("k-means counts", device.F32, f.heads, f.k)
	f.inertia = f.scratch.New("k-means inertia", device.F32, f.heads)
	f.centers = f.result.Centers
	for _, o := range []*device.Owner{&f.result.owned, &f.scratch} {
		if err := o.Err(); err != nil {
			return err
		}
	}
	rng := newMT19937(randomState)
	if err := f.initial(ctx, rng); err != nil {
		return fmt.Errorf("initial centers: %w", err)
	}
	if err := f.train(ctx, rng); err != nil {
		return err
	}
	err := f.dev.Run(func(o *device.Ops) {
		o.Nearest(device.NearestArgs{Labels: labels, Inertia: f.inertia, X: f.x, Centers: f.centers})
	})
	if err == nil {
		f.result.Inertia, err = device.Read[float32](f.dev, f.inertia)
	}
	if err != nil {
		return fmt.Errorf("labels: %w", err)
	}
	return f.finite(f.result.Inertia)
}

// finite refuses sums of distances that are not, which means that rows are not.
func (f *fit) finite(sums []float32) error {
	for h, v := range sums {
		if v-v != 0 {
			return fmt.Errorf("%s: squared distances sum to %v: %w", f.x.Name(h), v, device.ErrNotFinite)
		}
	}
	return nil
}

// report tells how much is done. First centers and minibatches take about as
// long.
func (f *fit) report(centers, steps int) {
	const usual = 40 // minibatches
	if f.progress != nil {
		f.progress(centers+min(steps, usual-1)*f.k/usual, 2*f.k)
	}
}

// scratchOf makes a tensor of scratch memory with the given contents.
func scratchOf[T device.Element](f *fit, name string, t device.DType, values []T, shape ...int) (*device.Tensor, error) {
	v := f.scratch.New(name, t, shape...)
	if err := f.scratch.Err(); err != nil {
		return nil, err
	}
	return v, device.Write(f.dev, v, values)
}
