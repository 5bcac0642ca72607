package santapp

import (
	"math"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/device"
	"blitzen/kvcache"
)

// Spread says how far the scores of one layer's prompt rows lie apart, for each
// of the two parts of a latent cache's key: the standard deviation over rows of
// scale·q·k, averaged over query heads. Teams made from the latent alone mix
// rows that differ in their rotary part; where that part spreads more, the
// partition says little about the scores.
type Spread struct{ Latent, Rotary float64 }

// SpreadProbe is exact attention that also measures the spread of the scores
// of the one query it is given. Use it for a single unrecorded step.
type SpreadProbe struct {
	*dense.Backend
	dev    device.Device
	spec   kvcache.Spec
	prompt int
	scores [][2]*device.Tensor // [layers] F32 [1, heads, rows]: latent, rotary
	bias   *device.Tensor      // F32 [1, rows] of zeros
	owned  device.Owner
}

// NewSpreadProbe measures over the frozen rows of a latent cache.
func NewSpreadProbe(dev device.Device, cache *kvcache.Cache, heads int) (*SpreadProbe, error) {
	specs := cache.Specs()
	d, err := dense.New(dev, specs)
	if err != nil {
		return nil, err
	}
	p := &SpreadProbe{Backend: d, dev: dev, spec: specs[0], prompt: cache.Frozen(), scores: make([][2]*device.Tensor, len(specs)), owned: device.Owner{Dev: dev}}
	for i := range p.scores {
		for j := range p.scores[i] {
			p.scores[i][j] = p.owned.New("spread.scores", device.F32, 1, heads, p.prompt)
		}
	}
	p.bias = p.owned.New("spread.bias", device.F32, 1, p.prompt)
	if err := p.owned.Err(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Attend scores the frozen rows by either part of the key, then attends.
func (p *SpreadProbe) Attend(ops *device.Ops, in attention.Input) {
	rows, split, width := in.K.Slice(1, 0, p.prompt), p.spec.ClusterDim, p.spec.KeyDim
	for j, part := range [][2]int{{0, split}, {split, width}} {
		ops.Route(device.RouteArgs{
			Phi: p.scores[in.Layer][j], Bias: p.bias, Scale: in.Scale,
			Q: in.Q.Slice(2, part[0], part[1]), Reps: rows.Slice(2, part[0], part[1]),
		})
	}
	p.Backend.Attend(ops, in)
}

// Spreads are the results, one a layer.
func (p *SpreadProbe) Spreads() ([]Spread, error) {
	out := make([]Spread, len(p.scores))
	for i, pair := range p.scores {
		var part [2]float64
		for j, t := range pair {
			scores, err := device.Read[float32](p.dev, t)
			if err != nil {
				return nil, err
			}
			part[j] = meanDeviation(scores, p.prompt)
		}
		out[i] = Spread{Latent: part[0], Rotary: part[1]}
	}
	return out, nil
}

// meanDeviation is the standard deviation within each run of n scores,
// averaged over the runs.
func meanDeviation(scores []float32, n int) float64 {
	sum := 0.0
	for run := scores; len(run) > 0; run = run[n:] {
		mean, square := 0.0, 0.0
		for _, s := range run[:n] {
			mean += float64(s) / float64(n)
		}
		for _, s := range run[:n] {
			square += (float64(s) - mean) * (float64(s) - mean) / float64(n)
		}
		sum += math.Sqrt(square)
	}
	return sum / float64(len(scores)/n)
}

// Close frees the probe's tensors.
func (p *SpreadProbe) Close() {
	p.owned.Free()
	p.Backend.Close()
}
