package santapp

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/device"
	"blitzen/internal/attentiontest"
	"blitzen/internal/modeltest"
	"blitzen/teams"
)

// A fingerprint must be by definition: products with the queries of the group's
// heads, z-scored over the rows; a query of zeros gives a constant dimension,
// which becomes 0.
func TestFingerprints(t *testing.T) {
	const kvHeads, heads, width, rows, probes = 2, 6, 8, 37, 5
	rng := rand.New(rand.NewPCG(3, 4))
	vectors := func(n int) [][]float64 {
		v := make([][]float64, n)
		for i := range v {
			for range width {
				v[i] = append(v[i], float64(float32(rng.NormFloat64())))
			}
		}
		return v
	}
	keys := [][][]float64{vectors(rows), vectors(rows)}
	l := attentiontest.Fill(t, modeltest.Host(t), vectors(heads), keys, keys, rows, 1)
	q := vectors(probes * heads)
	clear(q[3*heads+4])
	attentiontest.Check(t, l.Cache.KeepQueries(probes+2, heads))
	l.Cache.HoldQueries(probes)
	var flat []float32
	for _, v := range q {
		for _, x := range v {
			flat = append(flat, float32(x))
		}
	}
	attentiontest.Check(t, device.Write(l.Dev, l.Cache.Layers[0].Queries, flat))
	for kv := range kvHeads {
		x, err := fingerprints(l.Dev, l.Cache.Layers[0], kv, rows)
		attentiontest.Check(t, err)
		got := attentiontest.Floats(t, l.Dev, x)
		l.Dev.Free(x)
		const dims = probes * heads / kvHeads
		for p := range probes {
			for g := range heads / kvHeads {
				own, reach := make([]float64, rows), 0.0
				for i, k := range keys[kv] {
					query, sum := q[p*heads+kv*heads/kvHeads+g], 0.0
					own[i] = sampled.Dot(query, k)
					for j := range k {
						sum += math.Abs(query[j] * k[j])
					}
					reach = max(reach, sum)
				}
				scores, deviation := zScores(own)
				for i, want := range scores {
					// A float32 product is off by less than e = d·2⁻²⁴·Σ|q·k|; so are the mean
					// and the deviation, which float64 makes of them. The score is rounded once.
					off := 0.0
					if deviation > 0 {
						off = 0x1p-24 * (width*reach*(2+math.Abs(want))/deviation + math.Abs(want))
					}
					if have := got[i*dims+p*heads/kvHeads+g]; math.Abs(have-want) > off {
						t.Errorf("key head %d, row %d, probe %d, head %d: %v, want %v", kv, i, p, g, have, want)
					}
				}
			}
		}
	}
}

// Key heads come in order, one at a time where more do not fit.
func TestDescribeByProbes(t *testing.T) {
	const kvHeads, rows = 3, 5
	keys := make([][][]float64, kvHeads)
	for h := range keys {
		for i := range rows {
			keys[h] = append(keys[h], []float64{float64(i * i), float64(h + i)})
		}
	}
	l := attentiontest.Fill(t, modeltest.Host(t), keys[0][:kvHeads], keys, keys, rows, 1)
	attentiontest.Check(t, l.Cache.KeepQueries(Probes, kvHeads))
	l.Cache.HoldQueries(2)
	queries := make([]float32, 2*kvHeads*2)
	for i := range queries {
		queries[i] = float32(i + 1)
	}
	attentiontest.Check(t, device.Write(l.Dev, l.Cache.Layers[0].Queries, queries))
	for most, want := range map[int][]int{0: {1, 1, 1}, 2 * rows * 2 * 4: {2, 1}, 1 << 20: {3}} {
		describe := describeByProbes(l.Dev, l.Cache, sampled.LayerSet{}, most)
		var sizes []int
		for from := 0; from < kvHeads; {
			sets, done, err := describe(from)
			attentiontest.Check(t, err)
			sizes = append(sizes, sets.Problems())
			for _, x := range sets {
				own, err := fingerprints(l.Dev, l.Cache.Layers[0], from, rows)
				attentiontest.Check(t, err)
				if got, want := attentiontest.Floats(t, l.Dev, x), attentiontest.Floats(t, l.Dev, own); !slices.Equal(got, want) {
					t.Errorf("%d bytes, key head %d: %v, want %v", most, from, got, want)
				}
				l.Dev.Free(own)
				from++
			}
			done()
		}
		if !slices.Equal(sizes, want) {
			t.Errorf("%d bytes: %v heads at a time, want %v", most, sizes, want)
		}
	}
}

// zScores also returns the deviation, 0 for a constant x, whose scores are 0.
func zScores(x []float64) (out []float64, deviation float64) {
	n, mean, square := float64(len(x)), 0.0, 0.0
	for _, v := range x {
		mean += v / n
		square += v * v / n
	}
	out = make([]float64, len(x))
	if square == mean*mean {
		return out, 0
	}
	deviation = math.Sqrt(square - mean*mean)
	for i, v := range x {
		out[i] = (v - mean) / deviation
	}
	return out, deviation
}

// Parents come from fingerprints, representatives and owners from keys; without
// queries there is an error that names the flag.
func TestProbeParents(t *testing.T) {
	l, _ := unbiasedCase(t)
	cfg := Config{Config: teams.Config{ParentSize: 8, Representatives: 2}, Budget: 24, Parents: teams.Probe}
	if _, err := Group(context.Background(), l.Dev, l.Cache, cfg, nil); err == nil || !strings.Contains(err.Error(), "--parents probe: the last queries of the prompt were not kept") {
		t.Fatal(err)
	}
	attentiontest.Check(t, l.Cache.KeepQueries(Probes, 1))
	l.Cache.HoldQueries(3)
	rows := make([]float32, l.Cache.Layers[0].Queries.Len())
	for i := range rows {
		rows[i] = float32(math.Sin(float64(i * i)))
	}
	attentiontest.Check(t, device.Write(l.Dev, l.Cache.Layers[0].Queries, rows))
	made, err := Group(context.Background(), l.Dev, l.Cache, cfg, nil)
	attentiontest.Check(t, err)
	x, err := fingerprints(l.Dev, l.Cache.Layers[0], 0, 96)
	attentiontest.Check(t, err)
	defer l.Dev.Free(x)
	keys, err := sampled.Keys(l.Cache, false, sampled.LayerSet{})
	attentiontest.Check(t, err)
	described := device.RowSets{x.Unflatten(0, 1, 96)}
	again, err := teams.Group(context.Background(), l.Dev, keys, func(int) (device.RowSets, func(), error) { return described, func() {}, nil }, teams.KMeans, cfg.Config, nil)
	attentiontest.Check(t, err)
	want, err := again.Partition(0)
	attentiontest.Check(t, err)
	got, err := made.Partition(0)
	attentiontest.Check(t, err)
	for row, g := range got.Team {
		if g != want.Team[row] {
			t.Fatalf("row %d is in team %d, want %d", row, g, want.Team[row])
		}
	}
}
