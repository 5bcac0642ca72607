package modeltest

import (
	"math"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/attentiontest"
	"blitzen/internal/golden"
	"blitzen/kvcache"
)

// ShareError is how far a row's share of the weight may be off in float32,
// relative to it, in the step after the session's prompt of n rows: a share is
// exp(score − ln Σ exp). A score is off by less than (d+2)·2⁻²⁴·R, R its reach;
// the logarithm by as much, by 2⁻²⁴ for each of n exps and sums, and by its own
// rounding, where it is at most R + ln n.
func ShareError(t testing.TB, dev device.Device, s *decode.Session, heads int) float64 {
	t.Helper()
	var last *record.LastQueries
	Check(t, s.Probe(func(c *kvcache.Cache) (attention.Backend, error) {
		var err error
		last, err = record.NewLastQueries(dev, c.Specs(), heads, device.F32)
		return last, err
	}))
	defer last.Close()
	rows, reach := s.Cache().Frozen(), 0.0
	for i, l := range s.Cache().Layers {
		queries := vectors(t, dev, last.Queries.Index(0, i))
		for h := range l.KVHeads {
			keys := vectors(t, dev, l.K.Index(0, h).Slice(0, 0, rows))
			group := heads / l.KVHeads
			for _, q := range queries[h*group : (h+1)*group] {
				reach = max(reach, attentiontest.Reach(q, keys, float64(last.Scale)))
			}
		}
	}
	d, n := float64(s.Cache().Layers[0].KeyDim), float64(rows)
	return 0x1p-24 * (2*(d+2)*reach + 2*n + reach + math.Log(n))
}

// vectors reads the rows of a matrix.
func vectors(t testing.TB, dev device.Device, x *device.Tensor) [][]float64 {
	t.Helper()
	flat, err := device.ReadFloats(dev, x)
	Check(t, err)
	return slices.Collect(slices.Chunk(golden.Float64s(flat), x.Shape[1]))
}
