package diagnostics

import (
	"gonum.org/v1/gonum/stat"

	"blitzen/eval"
)

// Routing is what one grouping proposes for a prompt.
type Routing struct {
	Name   string
	Groups float64 // of a key head, on average
	Grid[Divergence]
}

// Prompt is all figures of one prompt.
type Prompt struct {
	Steps    int
	Routings []Routing
	Windows  Grid[float64]
	Compact  Grid[Compact]
	Jensen   Grid[JensenRatios]
}

// Diagnose takes all figures: divergences of every grouping; compactness and
// ratios of clusters, k-means clusters of size rows on average.
func (t *Trajectory) Diagnose(groupings []Grouping, clusters Grouping, size int) Prompt {
	p := Prompt{Steps: len(t.Queries), Windows: t.Windows(), Compact: t.Compact(clusters, size), Jensen: t.Jensen(clusters)}
	for i, d := range t.Divergences(groupings) {
		p.Routings = append(p.Routings, Routing{groupings[i].Name, groupings[i].Groups(), d})
	}
	return p
}

// Task is the prompts of a task, with the same routings. Figures are means over
// prompts.
type Task []Prompt

// intervalSeed is that of the bootstrap over prompts.
const intervalSeed = 1

// values is a figure of each prompt.
func (t Task) values(of func(Prompt) float64) [][]float64 {
	var v []float64
	for _, p := range t {
		v = append(v, of(p))
	}
	return [][]float64{v}
}

// Mean is the mean of a figure over the prompts, with its interval.
func (t Task) Mean(of func(Prompt) float64) eval.Interval {
	return eval.Mean(t.values(of), intervalSeed)
}

// KL is the mean divergence of routing i.
func (t Task) KL(i int) eval.Interval { return t.Mean(kl(i)) }

// Less is by how much routing i diverges less than routing j, on the same
// prompts.
func (t Task) Less(i, j int) eval.Interval {
	return eval.Difference(t.values(kl(j)), t.values(kl(i)), intervalSeed)
}

func kl(i int) func(Prompt) float64 {
	return func(p Prompt) float64 { return p.Routings[i].Mean(Divergence.KL) }
}

// Effective is the share of heads, over all layers, whose best windows hold at
// least so much of the best tokens' mass.
func (t Task) Effective(ratio float64) eval.Interval {
	return t.Mean(func(p Prompt) float64 {
		return p.Windows.Mean(func(w float64) float64 {
			if w >= ratio {
				return 1
			}
			return 0
		})
	})
}

// Over is a grid of means over the prompts.
func Over[T any](t Task, grid func(Prompt) Grid[T], of func(T) float64) Grid[float64] {
	first := grid(t[0])
	out := newGrid[float64](len(first), len(first[0]))
	for _, p := range t {
		for i, heads := range grid(p) {
			for h, x := range heads {
				out[i][h] += of(x) / float64(len(t))
			}
		}
	}
	return out
}

// Steps is the mean number of steps.
func (t Task) Steps() float64 {
	return stat.Mean(t.values(func(p Prompt) float64 { return float64(p.Steps) })[0], nil)
}
