package diagnostics

import (
	"fmt"
	"math"
	"math/rand/v2"

	"blitzen/attention/centroid"
	"blitzen/attention/santapp"
)

// Grouping is a way to group the rows of a prompt and to score the groups.
type Grouping struct {
	Name  string
	heads [][]grouped // [layers][kv heads]
}

// grouped are the groups of one key head.
type grouped struct {
	group []int32   // [rows] numbers from 0 to the last
	sizes []int32   // [groups]
	keys  []float32 // [groups · dim] that groups are scored by
}

// Teams are SANTA++'s, scored by their representatives.
func (t *Trajectory) Teams(name string, made santapp.Teams) (Grouping, error) {
	return t.grouping(name, func(layer, head int) (grouped, error) {
		p, err := made.Partition(layer*len(t.Keys[layer]) + head)
		g := grouped{group: p.Team, sizes: p.N}
		for _, row := range p.Reps {
			g.keys = append(g.keys, t.Keys[layer][head][int(row)*t.Dim:(int(row)+1)*t.Dim]...)
		}
		return g, err
	})
}

// Clusters are those of centroid-guided sampling, scored by their mean keys.
func (t *Trajectory) Clusters(name string, made centroid.Clusters) (Grouping, error) {
	return t.grouping(name, func(layer, head int) (grouped, error) {
		i := layer*len(t.Keys[layer]) + head
		p, err := made.Partition(i)
		return grouped{p.Team, p.N, made.Means(i)}, err
	})
}

// ByMeans are the same groups, scored by the mean of their keys: what a
// representative makes of a group, apart from the grouping.
func (t *Trajectory) ByMeans(name string, g Grouping) (Grouping, error) {
	return t.grouping(name, func(layer, head int) (grouped, error) {
		own := g.heads[layer][head]
		return grouped{own.group, own.sizes, t.means(layer, head, own)}, nil
	})
}

// ByCentralKeys are the same groups, scored by the member nearest their mean,
// the lower among equals: an actual key in the place of the mean.
func (t *Trajectory) ByCentralKeys(name string, g Grouping) (Grouping, error) {
	return t.grouping(name, func(layer, head int) (grouped, error) {
		own := g.heads[layer][head]
		keys, means := t.Keys[layer][head], t.means(layer, head, own)
		central, least := make([]float32, len(means)), make([]float64, len(own.sizes))
		for i := range least {
			least[i] = math.Inf(1)
		}
		for row, to := range own.group {
			key, far := keys[row*t.Dim:(row+1)*t.Dim], 0.0
			for j, m := range means[int(to)*t.Dim:][:t.Dim] {
				diff := float64(key[j]) - float64(m)
				far += diff * diff
			}
			if far < least[to] {
				least[to] = far
				copy(central[int(to)*t.Dim:], key)
			}
		}
		return grouped{own.group, own.sizes, central}, nil
	})
}

func (t *Trajectory) grouping(name string, of func(layer, head int) (grouped, error)) (Grouping, error) {
	g := Grouping{Name: name}
	for i, heads := range t.Keys {
		var all []grouped
		for h := range heads {
			own, err := of(i, h)
			if err != nil {
				return g, fmt.Errorf("%s: layer %d, key head %d: %w", name, i, h, err)
			}
			all = append(all, own)
		}
		g.heads = append(g.heads, all)
	}
	return g, nil
}

// means are the mean keys of groups, in float64 rounded once.
func (t *Trajectory) means(layer, head int, g grouped) []float32 {
	sum := make([]float64, len(g.sizes)*t.Dim)
	for i, to := range g.group {
		for j, k := range t.Keys[layer][head][i*t.Dim : (i+1)*t.Dim] {
			sum[int(to)*t.Dim+j] += float64(k)
		}
	}
	out := make([]float32, len(sum))
	for i := range out {
		out[i] = float32(sum[i] / float64(g.sizes[i/t.Dim]))
	}
	return out
}

// shuffleSeed is that of the one shuffle behind random groups.
const shuffleSeed = 0

// spans are groups of size consecutive rows, shuffled ones of size rows in the
// order of one fixed shuffle: what k-means is compared with (Appendix B.3).
func spans(rows, size int) []int32 {
	group := make([]int32, rows)
	for i := range group {
		group[i] = int32(i / size)
	}
	return group
}

func shuffled(rows, size int) []int32 {
	group := make([]int32, rows)
	for i, row := range rand.New(rand.NewPCG(shuffleSeed, 0)).Perm(rows) {
		group[row] = int32(i / size)
	}
	return group
}
