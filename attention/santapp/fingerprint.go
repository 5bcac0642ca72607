package santapp

import (
	"errors"
	"fmt"
	"math"

	"blitzen/attention/sampled"
	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/teams"
)

// Probes is how many last prompt queries describe a key in its fingerprint.
const Probes = 64

// describeByProbes gives the fingerprints of one key head of the sampled layers
// at a time.
func describeByProbes(dev device.Device, cache *kvcache.Cache, dense sampled.LayerSet) teams.Describe {
	return func(from int) (device.RowSets, func(), error) {
		for i, l := range cache.Layers {
			switch {
			case dense.Has(i):
			case from >= l.KVHeads:
				from -= l.KVHeads
			default:
				x, err := fingerprints(dev, l, from, cache.Frozen())
				if err != nil {
					return nil, nil, fmt.Errorf("layer %d, key head %d: %w", i, from, err)
				}
				return device.RowSets{x.Unflatten(0, 1, cache.Frozen())}, func() { dev.Free(x) }, nil
			}
		}
		return nil, nil, fmt.Errorf("there is no head %d", from)
	}
}

// fingerprints describe the prompt rows of one key head by their products with
// the last prompt queries of the query heads that share it, z-scored over the
// rows: F32 [rows, probes · group], the caller's to free.
//
// Source: SANTA++, Appendix B.5.
func fingerprints(dev device.Device, l *kvcache.Layer, head, rows int) (*device.Tensor, error) {
	if l.Queries == nil {
		return nil, errors.New("--parents probe: the last queries of the prompt were not kept")
	}
	tokens, group := l.Queries.Shape[0], l.Queries.Shape[1]/l.KVHeads
	o := device.Owner{Dev: dev}
	defer o.Free()
	products := o.New("fingerprints.products", device.F32, tokens, group, rows)
	bias := o.New("fingerprints.bias", device.F32, 1, rows)
	if err := o.Err(); err != nil {
		return nil, err
	}
	err := dev.Run(func(ops *device.Ops) {
		ops.Route(device.RouteArgs{
			Phi: products, Q: l.Queries.Slice(1, head*group, (head+1)*group), Reps: l.K.Slice(0, head, head+1).Slice(1, 0, rows), Bias: bias, Scale: 1,
		})
	})
	if err != nil {
		return nil, err
	}
	p, err := device.Read[float32](dev, products)
	if err != nil {
		return nil, err
	}
	x, err := dev.New("fingerprints", device.F32, rows, tokens*group)
	if err != nil {
		return nil, err
	}
	if err := device.Write(dev, x, standardised(p, rows)); err != nil {
		dev.Free(x)
		return nil, err
	}
	return x, nil
}

// standardised turns products [dimensions, rows] into [rows, dimensions], of
// mean 0 and variance 1 over the rows. A constant dimension becomes 0.
func standardised(products []float32, rows int) []float32 {
	dims := len(products) / rows
	out := make([]float32, len(products))
	for d := range dims {
		own := products[d*rows : (d+1)*rows]
		mean, variance := 0.0, 0.0
		for _, v := range own {
			mean += float64(v) / float64(rows)
		}
		for _, v := range own {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(rows)
		}
		// A constant's mean may be rounded by an ulp, which is no deviation.
		if variance <= 1e-24*mean*mean {
			continue
		}
		for i, v := range own {
			out[i*dims+d] = float32((float64(v) - mean) / math.Sqrt(variance))
		}
	}
	return out
}
