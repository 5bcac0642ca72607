// Package diagnostics looks at what decides how well sampled attention works,
// before anything is sampled: on the queries and keys of dense decoding.
//
//	Record       dense decoding of one prompt: its keys, and the queries of all steps
//	Divergences  KL of dense attention from what a routing proposes (Eq. 11)
//	Windows      what the best windows hold of the best tokens' mass (WER, Eq. 12)
//	Compact      distances of keys to the means of their groups (Appendix B.3)
//	JensenRatios exact over mean-key mass of groups (Eq. 2)
//
// All is computed in float64 from float32 keys and queries. Figures are kept for
// each layer and head; their mean over a prompt's steps, layers and heads alike
// is the prompt's, and the mean over prompts a task's.
//
// Source: SANTA++, sections 2.1 and 3 and Appendix B.
package diagnostics

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// Grid is a figure for each layer and head.
type Grid[T any] [][]T

func newGrid[T any](layers, heads int) Grid[T] {
	g := make(Grid[T], layers)
	for i := range g {
		g[i] = make([]T, heads)
	}
	return g
}

// Mean is the mean over layers and heads of a part of each figure.
func (g Grid[T]) Mean(of func(T) float64) float64 {
	var layers []float64
	for i := range g {
		layers = append(layers, g.Layer(i, of))
	}
	return stat.Mean(layers, nil)
}

// Layer is the mean over the heads of a layer.
func (g Grid[T]) Layer(i int, of func(T) float64) float64 {
	sum := 0.0
	for _, x := range g[i] {
		sum += of(x) / float64(len(g[i]))
	}
	return sum
}

// each fills a grid of layers and query heads, layers side by side.
func each[T any](t *Trajectory, heads int, figure func(layer, head int) T) Grid[T] {
	g := newGrid[T](len(t.Keys), heads)
	var wg sync.WaitGroup
	for i := range g {
		wg.Go(func() {
			for h := range g[i] {
				g[i][h] = figure(i, h)
			}
		})
	}
	wg.Wait()
	return g
}

// Divergences are those of every grouping, averaged over the steps: a grid of
// layers and query heads each.
func (t *Trajectory) Divergences(groupings []Grouping) []Grid[Divergence] {
	all := each(t, t.Heads, func(layer, head int) []Divergence {
		sums := make([]Divergence, len(groupings))
		for step := range t.Queries {
			logits := t.logits(step, layer, head)
			for i, g := range groupings {
				own := g.heads[layer][t.keyHead(layer, head)]
				phi := t.scores(step, layer, head, own.keys)
				for j, n := range own.sizes {
					phi[j] += math.Log(float64(n))
				}
				d := Diverge(logits, own.group, phi)
				sums[i].Scores += d.Scores / float64(len(t.Queries))
				sums[i].Grouping += d.Grouping / float64(len(t.Queries))
			}
		}
		return sums
	})
	out := make([]Grid[Divergence], len(groupings))
	for i := range out {
		out[i] = newGrid[Divergence](len(all), t.Heads)
		for l, heads := range all {
			for h, d := range heads {
				out[i][l][h] = d[i]
			}
		}
	}
	return out
}

// Groups is how many groups a key head has on average.
func (g Grouping) Groups() float64 {
	n, heads := 0, 0
	for _, layer := range g.heads {
		for _, own := range layer {
			n += len(own.sizes)
			heads++
		}
	}
	return float64(n) / float64(heads)
}

// The paper's windows.
const (
	windowTokens = 16
	windows      = 32
)

// Windows is the window effectiveness ratio of the last prompt token's query,
// the best 32 windows of 16 tokens over the best 512 tokens, for each layer and
// query head.
func (t *Trajectory) Windows() Grid[float64] {
	return each(t, t.Heads, func(layer, head int) float64 {
		weights := t.logits(0, layer, head)
		lse := floats.LogSumExp(weights)
		for i := range weights {
			weights[i] = math.Exp(weights[i] - lse)
		}
		return WER(weights, windowTokens, windows)
	})
}

// Compact are mean distances of keys to the means of their groups.
type Compact struct{ Clusters, Contiguous, Random float64 }

// Compact compares the groups of a grouping with as many consecutive tokens and
// with random ones, size rows each: a grid of layers and key heads.
func (t *Trajectory) Compact(g Grouping, size int) Grid[Compact] {
	consecutive, random := spans(t.Rows, size), shuffled(t.Rows, size)
	return each(t, len(t.Keys[0]), func(layer, head int) Compact {
		keys := t.Keys[layer][head]
		return Compact{
			Clusters:   Compactness(keys, t.Dim, g.heads[layer][head].group),
			Contiguous: Compactness(keys, t.Dim, consecutive),
			Random:     Compactness(keys, t.Dim, random),
		}
	})
}

// JensenRatios describes the ratios of exact to mean-key mass of the groups
// under one query: percentiles over groups, and their geometric mean weighted
// with the exact mass, which says what the queries' own keys suffer.
type JensenRatios struct{ Median, P90, P99, Max, Weighted float64 }

// Jensen is that of the last prompt token's query, for each layer and query
// head.
func (t *Trajectory) Jensen(g Grouping) Grid[JensenRatios] {
	return each(t, t.Heads, func(layer, head int) JensenRatios {
		logits := t.logits(0, layer, head)
		own := g.heads[layer][t.keyHead(layer, head)]
		members := make([][]float64, len(own.sizes))
		for i, to := range own.group {
			members[to] = append(members[to], logits[i])
		}
		var ratios []float64
		lse, weighted := floats.LogSumExp(logits), 0.0
		for _, m := range members {
			j := JensenOf(m)
			ratios = append(ratios, j.Ratio())
			weighted += math.Exp(j.Exact-lse) * (j.Exact - j.Surrogate)
		}
		slices.Sort(ratios)
		at := func(p float64) float64 { return stat.Quantile(p, stat.Empirical, ratios, nil) }
		return JensenRatios{Median: at(0.5), P90: at(0.9), P99: at(0.99), Max: ratios[len(ratios)-1], Weighted: math.Exp(weighted)}
	})
}

// keyHead is the key head of a query head.
func (t *Trajectory) keyHead(layer, head int) int { return head / (t.Heads / len(t.Keys[layer])) }
