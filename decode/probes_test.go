package decode_test

import (
	"math"
	"testing"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"
)

// lastQueries records what a decode step asks.
type lastQueries struct {
	*dense.Backend
	q []*device.Tensor // [layers]
}

func (l *lastQueries) Exact() bool { return false }

func (l *lastQueries) Attend(ops *device.Ops, in attention.Input) {
	ops.Copy(l.q[in.Layer], in.Q)
	l.Backend.Attend(ops, in)
}

// The queries kept must be those of the last tokens, in whatever chunks the
// prompt is read, and the last of them the query that the first decode step asks
// again: 1e-4 is what other chunks round differently in queries of about 1.
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
			near(t, q, want[i])
		}
	}
	s := open(t, dev, m, n, n+2, decode.Options{})
	if s.Cache().Layers[0].Queries != nil {
		t.Error("queries are kept and nobody asked")
	}
	last := &lastQueries{}
	modeltest.Check(t, s.Probe(func(c *kvcache.Cache) (attention.Backend, error) {
		var err error
		last.Backend, err = dense.New(dev, m.CacheSpec())
		for range c.Layers {
			q, err := dev.New("q", device.F32, 1, m.Config().Heads, c.Layers[0].KeyDim)
			modeltest.Check(t, err)
			last.q = append(last.q, q)
		}
		return last, err
	}))
	for i, q := range last.q {
		got, err := device.Read[float32](dev, q)
		modeltest.Check(t, err)
		near(t, got, want[i][len(want[i])-len(got):])
	}
}

func near(t *testing.T, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-4 {
			t.Fatalf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
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
