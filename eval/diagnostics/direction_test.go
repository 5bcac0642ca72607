package diagnostics

import (
	"context"
	"math/rand/v2"
	"testing"

	"blitzen/device"
	"blitzen/internal/modeltest"
	"blitzen/teams"
)

// What the paper says of mean keys must show where it holds: a key that one query
// wants, alone among others, is averaged away in the mean of its 16 and is a team
// by itself. Where logits within a group are even noise, the mean is the better
// score of the same group.
func TestWhatMeansHide(t *testing.T) {
	const rows, dim, parent = 512, 8, 16
	made := func(wanted float64) (*Trajectory, []Grouping) {
		rng := rand.New(rand.NewPCG(1, 2))
		tr := &Trajectory{Rows: rows, Heads: 1, Dim: dim, Scale: 1, Keys: [][][]float32{{nil}}, Queries: [][][]float32{{make([]float32, dim)}}}
		tr.Queries[0][0][0] = 1
		for i := range rows {
			for j := range dim {
				k := rng.NormFloat64() / 2
				if j == 0 && wanted > 0 && i%64 == 9 {
					k = wanted * (0.8 + 0.2*rng.Float64())
				}
				tr.Keys[0][0] = append(tr.Keys[0][0], float32(k))
			}
		}
		dev := modeltest.Host(t)
		x, err := dev.New("keys", device.F32, 1, rows, dim)
		modeltest.Check(t, err)
		modeltest.Check(t, device.Write(dev, x, tr.Keys[0][0]))
		parted, err := teams.Group(context.Background(), dev, device.RowSets{x}, nil, teams.Contiguous, teams.Config{ParentSize: parent, Representatives: 4}, nil)
		modeltest.Check(t, err)
		defer parted.Close()
		p, err := parted.Partition(0)
		modeltest.Check(t, err)
		own := grouped{group: p.Team, sizes: p.N}
		for _, row := range p.Reps {
			own.keys = append(own.keys, tr.Keys[0][0][int(row)*dim:int(row+1)*dim]...)
		}
		whole := grouped{group: spans(rows, parent), sizes: make([]int32, rows/parent)}
		for i := range whole.sizes {
			whole.sizes[i] = parent
		}
		whole.keys = tr.means(0, 0, whole)
		byMeans := grouped{own.group, own.sizes, tr.means(0, 0, own)}
		return tr, []Grouping{{"teams", [][]grouped{{own}}}, {"means of 16", [][]grouped{{whole}}}, {"teams by means", [][]grouped{{byMeans}}}}
	}
	tr, g := made(10)
	d := tr.Divergences(g)
	if own, mean := d[0].Mean(Divergence.KL), d[1].Mean(Divergence.KL); own > mean/3 {
		t.Errorf("wanted keys: teams are %v nats apart, means of 16 %v", own, mean)
	}
	if j := tr.Jensen(g[1])[0][0]; j.Weighted < 100 {
		t.Errorf("wanted keys: means of 16 miss a factor of %v", j.Weighted)
	}
	tr, g = made(0)
	d = tr.Divergences(g)
	scores := func(d Divergence) float64 { return d.Scores }
	if own, mean := d[0].Mean(scores), d[2].Mean(scores); mean > own/2 {
		t.Errorf("even noise: representatives are %v nats apart, means of the same teams %v", own, mean)
	}
}
