package decode_test

import (
	"testing"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"
	"blitzen/model"
)

// The queries kept must be those of the last tokens, in whatever chunks the
// prompt is read, and the last of them the query that the first decode step asks
// again. Other chunks add in another order.
func TestProbes(t *testing.T) {
	const n, probes = 60, 16
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 64)
	read := func(chunk int) [][]float32 {
		s := open(t, dev, m, n, n+2, decode.Options{Probes: probes, Chunk: chunk})
		var all [][]float32
		for _, l := range s.Cache().Layers {
			if l.Queries.Shape[0] != probes {
				t.Fatalf("%v: want %d queries", l.Queries, probes)
			}
			q, err := device.Read[float32](dev, l.Queries)
			modeltest.Check(t, err)
			all = append(all, q)
		}
		return all
	}
	want := read(64)
	for _, chunk := range []int{7, 25, 59} {
		for i, q := range read(chunk) {
			near(t, m, q, want[i])
		}
	}
	s := open(t, dev, m, n, n+2, decode.Options{})
	if s.Cache().Layers[0].Queries != nil {
		t.Error("queries are kept and nobody asked")
	}
	var last *record.LastQueries
	modeltest.Check(t, s.Probe(func(c *kvcache.Cache) (attention.Backend, error) {
		var err error
		last, err = record.NewLastQueries(dev, m.CacheSpec(), m.Config().Heads, device.F32)
		return last, err
	}))
	defer last.Close()
	for i := range want {
		got, err := device.ReadFloats(dev, last.Queries.Index(0, i))
		modeltest.Check(t, err)
		near(t, m, got, want[i][len(want[i])-len(got):])
	}
}

func near(t *testing.T, m model.Model, got, want []float32) {
	t.Helper()
	queries := golden.Float64s(want)
	golden.Near(t, "queries", golden.Float64s(got), queries, modeltest.Rounding(m, modeltest.Terms, queries))
}

// A prompt shorter than the probes keeps all its queries.
func TestProbesOfAShortPrompt(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 64)
	s := open(t, dev, m, 5, 8, decode.Options{Probes: 16})
	if n := s.Cache().Layers[0].Queries.Shape[0]; n != 5 {
		t.Errorf("%d queries of 5 tokens", n)
	}
}
