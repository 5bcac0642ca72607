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

// mostFingerprints is how many bytes of fingerprints there are at a time, if one
// key head has no more.
const mostFingerprints = 256 << 20

// describeByProbes gives the fingerprints of some key heads of the sampled
// layers at a time: one, or as many as most bytes hold.
func describeByProbes(dev device.Device, cache *kvcache.Cache, dense sampled.LayerSet, most int) teams.Describe {
	type keyHead struct{ layer, head int }
	var all []keyHead
	for i, l := range cache.Layers {
		for h := 0; h < l.KVHeads && !dense.Has(i); h++ {
			all = append(all, keyHead{i, h})
		}
	}
	return func(from int) (device.RowSets, func(), error) {
		var sets device.RowSets
		done := func() {
			for _, x := range sets {
				dev.Free(x)
			}
		}
		bytes := 0
		for _, own := range all[from:] {
			x, err := fingerprints(dev, cache.Layers[own.layer], own.head, cache.Frozen())
			if err != nil {
				done()
				return nil, nil, fmt.Errorf("layer %d, key head %d: %w", own.layer, own.head, err)
			}
			sets = append(sets, x.Unflatten(0, 1, cache.Frozen()))
			if bytes += x.Bytes(); bytes+x.Bytes() > most {
				break
			}
		}
		return sets, done, nil
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
	means, deviations := make([]float64, dims), make([]float64, dims)
	for d := range dims {
		mean, variance := 0.0, 0.0
		own := products[d*rows : (d+1)*rows]
		for _, v := range own {
			mean += float64(v) / float64(rows)
		}
		for _, v := range own {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(rows)
		}
		means[d], deviations[d] = mean, math.Sqrt(variance)
		// A constant's mean may be rounded by an ulp, which is no deviation.
		if variance <= 1e-24*mean*mean {
			deviations[d] = math.Inf(1)
		}
	}
	const some = 16 // rows whose fingerprints stay in the processor's cache
	out := make([]float32, len(products))
	for from := 0; from < rows; from += some {
		for d := range dims {
			for i := from; i < min(from+some, rows); i++ {
				out[i*dims+d] = float32((float64(products[d*rows+i]) - means[d]) / deviations[d])
			}
		}
	}
	return out
}
