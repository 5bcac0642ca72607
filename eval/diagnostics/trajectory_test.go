package diagnostics_test

import (
	"context"
	"math"
	"testing"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/attention/santapp"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/eval/diagnostics"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/internal/modeltest/checkpoint"
	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/teams"
)

const length, steps = 60, 3

// open reads a prompt into a tiny model of either kind.
func open(t *testing.T, dev device.Device, name string) (model.Model, *decode.Session, []int32) {
	t.Helper()
	dir := "../../testdata/models/" + name
	m := checkpoint.Open(t, dev, dir, 64)
	s := modeltest.Session(t, dev, m, length+steps)
	ids := golden.Open(t, dir+"/golden.safetensors").Int32s("p2.input_ids")[:length+steps]
	modeltest.Check(t, s.Prefill(context.Background(), ids[:length], nil))
	return m, s, ids[length:]
}

// Scores of a trajectory must give the attention that a backend which measures
// it on the device sees in the first step, when there is no suffix.
func TestTrajectory(t *testing.T) {
	for _, name := range []string{"qwen2_tied_gqa", "dsv2_lite"} {
		t.Run(name, func(t *testing.T) {
			dev := modeltest.Host(t)
			m, s, tokens := open(t, dev, name)
			heads, layers := m.Config().Heads, m.Config().Layers
			tr, err := diagnostics.Record(context.Background(), dev, s, heads, tokens)
			modeltest.Check(t, err)
			if len(tr.Queries) != steps || len(tr.Keys) != layers || tr.Rows != length {
				t.Fatalf("%d steps, %d layers, %d rows", len(tr.Queries), len(tr.Keys), tr.Rows)
			}
			var watch *record.Mass
			modeltest.Check(t, s.Probe(func(c *kvcache.Cache) (attention.Backend, error) {
				var err error
				watch, err = record.NewMass(dev, c, heads)
				return watch, err
			}))
			defer watch.Close()
			want := make([][]float64, layers)
			for i := range want {
				want[i] = make([]float64, length)
			}
			modeltest.Check(t, watch.Add(want))
			off := modeltest.ShareError(t, dev, s, heads)
			for layer := range layers {
				for row := range length {
					got := 0.0
					for h := range heads {
						got += share(tr, layer, h, row) / float64(heads)
					}
					if math.Abs(got-want[layer][row]) > off*got {
						t.Fatalf("layer %d gives row %d %v, want %v", layer, row, got, want[layer][row])
					}
				}
			}
		})
	}
}

// share is the weight of a row in the first step, by definition.
func share(tr *diagnostics.Trajectory, layer, head, row int) float64 {
	keys := tr.Keys[layer][head/(tr.Heads/len(tr.Keys[layer]))]
	q := tr.Queries[0][layer][head*tr.Dim : (head+1)*tr.Dim]
	sum, own := 0.0, 0.0
	for i := range tr.Rows {
		s := 0.0
		for j, k := range keys[i*tr.Dim : (i+1)*tr.Dim] {
			s += float64(q[j]) * float64(k)
		}
		w := math.Exp(tr.Scale * s)
		sum += w
		if i == row {
			own = w
		}
	}
	return own / sum
}

// rounding is what figures of this prompt may be off: sums of its rows in float64,
// of numbers up to 25, by less than 60·25·2⁻⁵³ = 1.7e-13.
const rounding = 1e-12

// Teams of one key each propose dense attention itself; any others are apart
// from it, and windows and ratios lie within their bounds.
func TestFigures(t *testing.T) {
	dev := modeltest.Host(t)
	m, s, tokens := open(t, dev, "qwen2_tied_gqa")
	tr, err := diagnostics.Record(context.Background(), dev, s, m.Config().Heads, tokens)
	modeltest.Check(t, err)
	group := func(name string, p, r int) diagnostics.Grouping {
		g, err := santapp.Group(context.Background(), dev, s.Cache(), santapp.Config{Config: teams.Config{ParentSize: p, Representatives: r}, Budget: p / r}, nil)
		modeltest.Check(t, err)
		defer g.Close()
		grouping, err := tr.Teams(name, g)
		modeltest.Check(t, err)
		return grouping
	}
	single, coarse := group("single", 1, 1), group("coarse", 16, 1)
	d := tr.Divergences([]diagnostics.Grouping{single, coarse})
	if kl := d[0].Mean(diagnostics.Divergence.KL); math.Abs(kl) > rounding {
		t.Errorf("a team for each key is %v nats apart", kl)
	}
	if kl := d[1].Mean(diagnostics.Divergence.KL); kl < 1e-3 {
		t.Errorf("teams of 16 are %v nats apart", kl)
	}
	if w := tr.Windows().Mean(func(x float64) float64 { return x }); math.Abs(w-1) > rounding {
		t.Errorf("all rows are in the best windows, the ratio is %v", w)
	}
	for _, layer := range tr.Jensen(coarse) {
		for _, j := range layer {
			if j.Median < 1-rounding || j.P90 < j.Median || j.Max < j.P99 || j.Weighted < 1-rounding {
				t.Errorf("%+v", j)
			}
		}
	}
	c := tr.Compact(coarse, 16)
	spans := c.Mean(func(c diagnostics.Compact) float64 { return c.Contiguous })
	if own := c.Mean(func(c diagnostics.Compact) float64 { return c.Clusters }); math.Abs(own-spans) > rounding {
		t.Errorf("contiguous parents are %v compact, spans of as many %v", own, spans)
	}
}
