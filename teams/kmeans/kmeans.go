// Package kmeans is scikit-learn's MiniBatchKMeans, with its random stream and
// its control flow, over a device's products:
//
//	greedy k-means++   device.Distances, once a center
//	minibatch steps    device.Nearest, once a step
//	labels             device.Nearest over all rows
//
// It is MiniBatchKMeans(n_clusters=k, batch_size=4096, n_init=1, max_iter=100,
// max_no_improvement=10, reassignment_ratio=0.01, tol=0, random_state=0),
// version 1.9.1, for float32 rows of equal weight. Everything but the two
// products runs on the host, in the type and order of scikit-learn's loops.
//
// # What is promised
//
// The same rows on the same device give the same result, a valid partition
// into at most k parts. The labels are scikit-learn's own wherever rounding
// does not decide them. It decides in three places, where scikit-learn differs
// from machine to machine too:
//
//   - The sums that k-means++ draws its candidates by are float32 sums in the
//     order of a BLAS, here float64 sums rounded once. A relative difference of
//     1e-7 moves a candidate with a chance of rows·1e-7 a draw, and one moved
//     candidate leads to other centers and labels of equal quality: about 1 % of
//     runs at 700 rows, 20 % at 3,000.
//   - Labels come from a float32 product, here from a float64 product rounded
//     once (float32 on a GPU). A row equally far from two centers may flip.
//   - Equal rows put several centers on one point, and each tie between them is
//     decided by rounding: the partition is nearly the same, labels and the
//     number of steps need not be.
//
// Source: sklearn/cluster/_kmeans.py and _k_means_minibatch.pyx.
package kmeans

import (
	"context"
	"fmt"
	"math"

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

// Result is a fitted clustering.
type Result struct {
	Labels      []int32   // [n] nearest center of every row; a center may have none
	Centers     []float32 // [k, d] after the last step
	Inertia     float64   // Σ of squared distances to the nearest center, summed in float32
	Steps       int       // minibatches used (n_steps_)
	Iterations  int       // the same in passes over the rows, rounded up (n_iter_)
	InitIndices []int32   // [k] the rows that k-means++ chose
}

// Fit clusters the rows of x, F32 or BF16 [n, d], into k parts, 1 ≤ k ≤ n. x
// may be a strided view and is only read. Beyond copies of x on the host and,
// where n > 12,288, of 12,288 or 3k of its rows on the device, memory is
// bounded by the minibatch of 4,096 rows and by k. A NaN, an infinity or a
// value so large that squared distances overflow float32 is an error. When ctx
// ends, so does Fit, within one trip to the device.
func Fit(ctx context.Context, dev device.Device, x *device.Tensor, k int) (Result, error) {
	host, err := fetchRows(dev, x)
	if err != nil {
		return Result{}, fmt.Errorf("k-means: %w", err)
	}
	n, d := x.Shape[0], x.Shape[1]
	if k < 1 || k > n {
		return Result{}, fmt.Errorf("k-means: %d clusters of %d rows (%v): want 1 to the number of rows", k, n, x)
	}
	if err := checkRange(host, n, d); err != nil {
		return Result{}, fmt.Errorf("k-means: %v: %w", x, err)
	}
	rng := newMT19937(randomState)
	first, err := initialRows(ctx, dev, x, k, rng)
	if err != nil {
		return Result{}, fmt.Errorf("k-means: initial centers: %w", err)
	}
	l, err := newLabeller(dev, x, k)
	if err != nil {
		return Result{}, fmt.Errorf("k-means: %w", err)
	}
	defer l.Free()
	f := newFit(host, n, d, k, first)
	steps, err := f.train(ctx, l, rng)
	if err != nil {
		return Result{}, fmt.Errorf("k-means: %w", err)
	}
	r := Result{Centers: f.centers, Steps: steps, Iterations: (steps*f.bs + n - 1) / n, InitIndices: first}
	if r.Labels, err = l.all(f.centers); err != nil {
		return Result{}, fmt.Errorf("k-means: labels: %w", err)
	}
	var inertia float32
	for i, label := range r.Labels {
		inertia += f.distance(i, label)
	}
	r.Inertia = float64(inertia)
	return r, nil
}

// fetchRows fetches x, F32 or BF16 [n, d], row by row as float32. x may be a
// strided view.
func fetchRows(dev device.Device, x *device.Tensor) ([]float32, error) {
	switch {
	case x == nil:
		return nil, fmt.Errorf("no rows: the tensor is nil")
	case x.Err() != nil:
		return nil, x.Err()
	case x.Rank() != 2 || x.DType != device.F32 && x.DType != device.BF16:
		return nil, fmt.Errorf("%v: want F32 or BF16 [rows, width]", x)
	case x.Len() == 0 || x.DType == device.F32 && x.Contiguous():
		return device.Read[float32](dev, x)
	}
	n, d := x.Shape[0], x.Shape[1]
	s := device.Owner{Dev: dev}
	defer s.Free()
	packed := s.New("k-means rows", device.F32, min(n, batchSize), d)
	if s.Err() != nil {
		return nil, s.Err()
	}
	rows := make([]float32, n*d)
	for from := 0; from < n; from += batchSize {
		to := min(from+batchSize, n)
		part := packed.Slice(0, 0, to-from)
		if err := dev.Run(func(o *device.Ops) { o.Copy(part, x.Slice(0, from, to)) }); err != nil {
			return nil, err
		}
		if err := device.Collect(dev.Fetch(part), rows[from*d:to*d]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// checkRange refuses rows whose distances, or sums of n of them, are not finite
// in float32: |a − b|² ≤ 4·d·max², n of which must stay below the largest.
func checkRange(x []float32, n, d int) error {
	limit := float32(math.Sqrt(math.MaxFloat32 / (4 * float64(n) * float64(d))))
	for i, v := range x {
		if v >= -limit && v <= limit { // false for a NaN
			continue
		}
		if v-v != 0 {
			return fmt.Errorf("row %d, column %d is %v: the checkpoint is damaged or its numbers overflow", i/d, i%d, v)
		}
		return fmt.Errorf("row %d, column %d is %v: beyond ±%.3g squared distances overflow", i/d, i%d, v, limit)
	}
	return nil
}
