package eval

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Resamples is the number of resamples behind an interval.
const Resamples = 10_000

// Interval is a figure with its 95 % percentile bootstrap interval: the 2.5th
// and 97.5th percentiles of the same figure over [Resamples] resamples (Efron
// and Tibshirani, An Introduction to the Bootstrap, chapter 13). All are NaN
// where the figure means nothing, and the ends where there is nothing to draw
// from: one prompt a task.
type Interval struct{ Mean, Low, High float64 }

// Known reports whether the ends say something of the figure. Resamples that are
// all alike do where every prompt went the same way entirely, by the rule of
// three; of a score in between they do not.
func (i Interval) Known() bool {
	whole := i.Mean == 0 || math.Abs(i.Mean) == 1
	return i.Low < i.High || i.Low == i.High && whole
}

// Mean is the equal-weight mean over tasks of the mean of a task's values, one
// a prompt. Prompts are drawn with replacement within their task. Repeats of a
// prompt belong into one value, their mean, since they are not independent. The
// same values and seed give the same interval.
func Mean(tasks [][]float64, seed uint64) Interval {
	return resample(tasks, seed, func(means []float64) float64 { return means[0] }, tasks)
}

// Ratio is the mean of a over the mean of b, values of the same prompts: each
// resample draws the same prompts of both. NaN where b is 0 in a resample.
func Ratio(a, b [][]float64, seed uint64) Interval {
	return resample(a, seed, func(means []float64) float64 { return means[0] / means[1] }, a, b)
}

// Difference is the mean of a less that of b, values of the same prompts.
func Difference(a, b [][]float64, seed uint64) Interval {
	return resample(a, seed, func(means []float64) float64 { return means[0] - means[1] }, a, b)
}

// resample is the figure of the means of sets, as they are and over resamples.
// All sets have the shape of like.
func resample(like [][]float64, seed uint64, figure func(means []float64) float64, sets ...[][]float64) Interval {
	nan := math.NaN()
	for _, task := range like {
		if len(task) == 0 {
			return Interval{nan, nan, nan}
		}
	}
	if len(like) == 0 {
		return Interval{nan, nan, nan}
	}
	means := make([]float64, len(sets))
	for s, set := range sets {
		for _, task := range set {
			means[s] += stat.Mean(task, nil) / float64(len(set))
		}
	}
	out := Interval{figure(means), nan, nan}
	if !slices.ContainsFunc(like, func(task []float64) bool { return len(task) > 1 }) {
		return out
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	figures := make([]float64, Resamples)
	sums := make([]float64, len(sets))
	for i := range figures {
		clear(means)
		for t, task := range like {
			clear(sums)
			for range task {
				n := rng.IntN(len(task))
				for s, set := range sets {
					sums[s] += set[t][n]
				}
			}
			for s, sum := range sums {
				means[s] += sum / float64(len(task)) / float64(len(like))
			}
		}
		figures[i] = figure(means)
	}
	if slices.ContainsFunc(figures, math.IsNaN) || slices.ContainsFunc(figures, func(f float64) bool { return math.IsInf(f, 0) }) {
		return out
	}
	slices.Sort(figures)
	out.Low, out.High = stat.Quantile(0.025, stat.LinInterp, figures, nil), stat.Quantile(0.975, stat.LinInterp, figures, nil)
	return out
}
