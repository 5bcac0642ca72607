package record

import (
	"errors"
	"math"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/device"
	"blitzen/kvcache"
)

// Deviations say how far the scores of one layer's prompt rows lie apart, for
// each of the two parts of a latent cache's key: the standard deviation over rows
// of scale·q·k, averaged over query heads. Groups made from the latent alone mix
// rows that differ in their rotary part; where that part spreads more, the
// partition says little about the scores.
type Deviations struct{ Latent, Rotary float64 }

// Spread is exact attention that also keeps the scores of the last step by
// either part of the key, to say how far they spread. Only for a cache in token
// order.
type Spread struct {
	*dense.Backend
	dev    device.Device
	spec   kvcache.Spec
	prompt int
	scores [][2]*device.Tensor // [layers] F32 [1, heads, rows]: latent, rotary
	bias   *device.Tensor      // F32 [1, rows] of zeros
	owned  device.Owner
}

// NewSpread measures over the frozen rows of a latent cache under so many query
// heads.
func NewSpread(dev device.Device, cache *kvcache.Cache, heads int) (*Spread, error) {
	specs := cache.Specs()
	if specs[0].ClusterDim == 0 {
		return nil, errors.New("the keys have one part: the cache is not latent")
	}
	d, err := dense.New(dev, specs)
	if err != nil {
		return nil, err
	}
	s := &Spread{Backend: d, dev: dev, spec: specs[0], prompt: cache.Frozen(), scores: make([][2]*device.Tensor, len(specs)), owned: device.Owner{Dev: dev}}
	for i := range s.scores {
		for j := range s.scores[i] {
			s.scores[i][j] = s.owned.New("spread.scores", device.F32, 1, heads, s.prompt)
		}
	}
	s.bias = s.owned.New("spread.bias", device.F32, 1, s.prompt)
	if err := s.owned.Err(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Exact is false: a model's own cache rows are to be attended.
func (s *Spread) Exact() bool { return false }

// Attend scores the frozen rows of a single token's queries by either part of the
// key, then attends.
func (s *Spread) Attend(ops *device.Ops, in attention.Input) {
	rows, split, width := in.K.Slice(1, 0, s.prompt), s.spec.ClusterDim, s.spec.KeyDim
	for j, part := range [][2]int{{0, split}, {split, width}} {
		ops.Route(device.RouteArgs{
			Phi: s.scores[in.Layer][j], Bias: s.bias, Scale: in.Scale,
			Q: in.Q.Slice(2, part[0], part[1]), Reps: rows.Slice(2, part[0], part[1]),
		})
	}
	s.Backend.Attend(ops, in)
}

// Deviations are those of the last step, one a layer.
func (s *Spread) Deviations() ([]Deviations, error) {
	out := make([]Deviations, len(s.scores))
	for i, pair := range s.scores {
		var part [2]float64
		for j, t := range pair {
			scores, err := device.Read[float32](s.dev, t)
			if err != nil {
				return nil, err
			}
			part[j] = meanDeviation(scores, s.prompt)
		}
		out[i] = Deviations{Latent: part[0], Rotary: part[1]}
	}
	return out, nil
}

// meanDeviation is the standard deviation within each run of n scores,
// averaged over the runs.
func meanDeviation(scores []float32, n int) float64 {
	sum := 0.0
	for run := scores; len(run) > 0; run = run[n:] {
		mean, square := 0.0, 0.0
		for _, x := range run[:n] {
			mean += float64(x) / float64(n)
		}
		for _, x := range run[:n] {
			square += (float64(x) - mean) * (float64(x) - mean) / float64(n)
		}
		sum += math.Sqrt(square)
	}
	return sum / float64(len(scores)/n)
}

// Close frees the scores.
func (s *Spread) Close() {
	s.owned.Free()
	s.Backend.Close()
}
