package decode_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"blitzen/attention"
	sampling "blitzen/attention/sampled"
	"blitzen/attention/santapp"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/teams"
)

const (
	needle      = "../models/needle-qwen2"
	needleTerms = 1024 // of its longest sums, those of an MLP
)

func floatBits(v float32) uint32 { return math.Float32bits(v) }

// reader is a session over the trained checkpoint with a prompt read.
func reader(t *testing.T, dev device.Device, m model.Model) *decode.Session {
	t.Helper()
	ids := golden.Open(t, "../testdata/needle-qwen2/golden.safetensors").Int32s("0.input_ids")[:300]
	s := modeltest.Session(t, dev, m, 320)
	modeltest.Check(t, s.Prefill(context.Background(), ids, nil))
	return s
}

// logits are those of 16 steps, along given tokens or, without, greedy ones.
func logits(t *testing.T, s *decode.Session, b func(*kvcache.Cache) (attention.Backend, error), along []int32) (all [][]float32, ids []int32) {
	t.Helper()
	modeltest.Check(t, s.Build(b))
	for i := range 16 {
		id := next(t, s, 1)[0]
		l, err := s.Logits()
		modeltest.Check(t, err)
		all = append(all, l)
		if along != nil {
			id = along[i]
			modeltest.Check(t, s.Force(id))
		}
		ids = append(ids, id)
	}
	return all, ids
}

// A budget that covers every team is exact attention, bit for bit. Drawn all
// the same (K = M, every c = 1) it is the same sum in another order.
func TestBudgetCoversAll(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, needle, 512)
	s := reader(t, dev, m)
	dense, ids := logits(t, s, modeltest.Dense(dev, m), nil)
	exact := s.Access()
	for _, parents := range []teams.Parents{teams.Contiguous, teams.KMeans, teams.Segmented} {
		cfg := santapp.Config{Config: teams.Config{ParentSize: 16, Representatives: 4}, Budget: 4 * 300, Parents: parents, Seed: 3}
		covered, same := logits(t, s, build(dev, m, cfg), nil)
		for i := range dense {
			for j := range dense[i] {
				if floatBits(dense[i][j]) != floatBits(covered[i][j]) {
					t.Fatalf("%v: step %d, logit %d is %v, dense %v", parents, i, j, covered[i][j], dense[i][j])
				}
			}
			if same[i] != ids[i] {
				t.Errorf("%v: token %d is %d, dense %d", parents, i, same[i], ids[i])
			}
		}
		if s.Access() != exact {
			t.Errorf("%v: access %+v, dense %+v", parents, s.Access(), exact)
		}
		cfg.SampleAlways = true
		drawn, _ := logits(t, s, build(dev, m, cfg), ids)
		for i := range dense {
			want := golden.Float64s(dense[i])
			golden.Near(t, fmt.Sprintf("%v: step %d with all teams drawn", parents, i), golden.Float64s(drawn[i]), want, modeltest.Rounding(m, needleTerms, want))
		}
		if a := s.Access(); a.Rows+a.Suffix != a.Dense || a.Dense != exact.Dense || a.Routed == 0 {
			t.Errorf("%v: access %+v with all teams drawn, dense %+v", parents, a, exact)
		}
	}
}

// What goes beyond the paper: a prompt below MinContext is exact attention, bit
// for bit, and no teams are built; DenseLayers are read in full, the others
// sampled.
func TestBeyondPaper(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, needle, 512)
	s := reader(t, dev, m)
	dense, ids := logits(t, s, modeltest.Dense(dev, m), nil)
	exact := s.Access()
	cfg := santapp.Config{Config: teams.Config{ParentSize: 16, Representatives: 4}, Budget: 16, Parents: teams.KMeans, Seed: 3}
	short := cfg
	short.MinContext = len(s.Tokens()) + 1
	got, _ := logits(t, s, func(c *kvcache.Cache) (attention.Backend, error) {
		return santapp.Build(context.Background(), dev, c, short, func(int, int) { t.Error("teams are built") })
	}, nil)
	for i := range dense {
		if !slices.EqualFunc(got[i], dense[i], func(a, b float32) bool { return floatBits(a) == floatBits(b) }) {
			t.Errorf("step %d: other logits than dense below the minimal context", i)
		}
	}
	layers := len(m.CacheSpec())
	var err error
	cfg.DenseLayers, err = sampling.ParseLayers(fmt.Sprintf("0-%d", layers-2))
	modeltest.Check(t, err)
	logits(t, s, build(dev, m, cfg), ids)
	a, one := s.Access(), exact.Dense/int64(layers)
	if a.Dense != exact.Dense || a.Rows+a.Suffix <= one*int64(layers-1) || a.Rows+a.Suffix >= exact.Dense || a.Routed == 0 {
		t.Errorf("access %+v with all layers dense but one, %+v with all", a, exact)
	}
	for list, want := range map[string]string{fmt.Sprintf("0-%d", layers-1): "leaves no layer to sample", strconv.Itoa(layers): "the model has layers 0 to"} {
		cfg.DenseLayers, err = sampling.ParseLayers(list)
		modeltest.Check(t, err)
		if err := s.Build(build(dev, m, cfg)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--dense-layers %s: %v, want %q", list, err, want)
		}
	}
}
