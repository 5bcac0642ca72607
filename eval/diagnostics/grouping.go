package diagnostics

import (
	"math/rand/v2"

	"blitzen/attention/centroid"
	"blitzen/attention/santapp"
	"blitzen/teams"
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
func (t *Trajectory) Teams(name string, made santapp.Teams) Grouping {
	return t.grouping(name, func(layer, head int) grouped {
		p := made.Partition(layer, head)
		g := grouped{group: p.Team, sizes: p.N}
		for _, row := range p.Reps {
			g.keys = append(g.keys, t.Keys[layer][head][int(row)*t.Dim:(int(row)+1)*t.Dim]...)
		}
		return g
	})
}

// Clusters are those of centroid-guided sampling, scored by their mean keys.
func (t *Trajectory) Clusters(name string, made centroid.Clusters) Grouping {
	return t.grouping(name, func(layer, head int) grouped {
		l := made.Groups()[layer][head]
		g := grouped{group: labels(l), sizes: make([]int32, len(l.LogN)), keys: made.Means(layer, head)}
		for i := range g.sizes {
			g.sizes[i] = l.Offsets[i+1] - l.Offsets[i]
		}
		return g
	})
}

// ByMeans are the same groups, scored by the mean of their keys: what a
// representative makes of a group, apart from the grouping.
func (t *Trajectory) ByMeans(name string, g Grouping) Grouping {
	return t.grouping(name, func(layer, head int) grouped {
		own := g.heads[layer][head]
		return grouped{own.group, own.sizes, t.means(layer, head, own)}
	})
}

// ByCentralKeys are the same groups, scored by the member nearest their mean:
// an actual key in the place of the mean.
func (t *Trajectory) ByCentralKeys(name string, g Grouping) (Grouping, error) {
	var failed error
	out := t.grouping(name, func(layer, head int) grouped {
		own := g.heads[layer][head]
		keys := t.Keys[layer][head]
		p, err := teams.Divide(keys, t.Dim, own.group, 1)
		if err != nil {
			failed = err
			return own
		}
		central := make([]float32, len(own.keys))
		for _, row := range p.Reps {
			copy(central[int(own.group[row])*t.Dim:], keys[int(row)*t.Dim:(int(row)+1)*t.Dim])
		}
		return grouped{own.group, own.sizes, central}
	})
	return out, failed
}

func (t *Trajectory) grouping(name string, of func(layer, head int) grouped) Grouping {
	g := Grouping{Name: name}
	for i, heads := range t.Keys {
		var own []grouped
		for h := range heads {
			own = append(own, of(i, h))
		}
		g.heads = append(g.heads, own)
	}
	return g
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

// labels is the group of each row.
func labels(l teams.Layout) []int32 {
	group := make([]int32, len(l.Order))
	for g := range l.LogN {
		for _, row := range l.Order[l.Offsets[g]:l.Offsets[g+1]] {
			group[row] = int32(g)
		}
	}
	return group
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
