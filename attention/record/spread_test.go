package record_test

import (
	"math"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/device"
	"blitzen/internal/attentiontest"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"

	"gonum.org/v1/gonum/stat"
)

// Deviations are those of scale·q·k by definition, on the queries and keys that
// another recorder has. A score of d products is off by less than (d+2)·2⁻²⁴ of
// its reach, and so is the deviation of such scores.
func TestSpread(t *testing.T) {
	dev := modeltest.Host(t)
	m, shape, s := prompted(t, dev, "dsv2_lite")
	var spread *record.Spread
	modeltest.Check(t, s.Probe(func(c *kvcache.Cache) (attention.Backend, error) {
		var err error
		spread, err = record.NewSpread(dev, c, shape.Heads)
		return spread, err
	}))
	defer spread.Close()
	got, err := spread.Deviations()
	modeltest.Check(t, err)
	var last *record.LastQueries
	modeltest.Check(t, s.Probe(func(c *kvcache.Cache) (attention.Backend, error) {
		var err error
		last, err = record.NewLastQueries(dev, c.Specs(), shape.Heads, device.F32)
		return last, err
	}))
	defer last.Close()
	split, width := m.CacheSpec()[0].ClusterDim, m.CacheSpec()[0].KeyDim
	for layer, d := range got {
		for part, have := range map[[2]int]float64{{0, split}: d.Latent, {split, width}: d.Rotary} {
			columns := func(x *device.Tensor) [][]float64 {
				flat, err := device.ReadFloats(dev, x.Slice(1, part[0], part[1]))
				modeltest.Check(t, err)
				return slices.Collect(slices.Chunk(golden.Float64s(flat), part[1]-part[0]))
			}
			keys := columns(s.Cache().Layers[layer].K.Index(0, 0).Slice(0, 0, length))
			want, reach := 0.0, 0.0
			for _, q := range columns(last.Queries.Index(0, layer)) {
				scores := make([]float64, length)
				for i, k := range keys {
					for j := range k {
						scores[i] += float64(last.Scale) * q[j] * k[j]
					}
				}
				want += stat.PopStdDev(scores, nil) / float64(shape.Heads)
				reach = max(reach, attentiontest.Reach(q, keys, float64(last.Scale)))
			}
			if off := float64(part[1]-part[0]+2) * 0x1p-24 * reach; math.Abs(have-want) > off || want == 0 {
				t.Errorf("layer %d, columns %v: the scores deviate by %v, want %v within %v", layer, part, have, want, off)
			}
		}
	}
}

// Keys of one part have nothing to compare.
func TestSpreadRefuses(t *testing.T) {
	dev := modeltest.Host(t)
	_, shape, s := prompted(t, dev, "qwen2_tied_gqa")
	if _, err := record.NewSpread(dev, s.Cache(), shape.Heads); err == nil {
		t.Error("a cache without a latent was taken")
	}
}
