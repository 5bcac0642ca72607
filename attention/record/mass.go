package record

import (
	"math"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/device"
	"blitzen/kvcache"
)

// Mass is exact attention that also keeps its scores, to say what share of the
// weight each prompt row has. Only for a cache in token order.
type Mass struct {
	*dense.Backend
	dev   device.Device
	heads int
	rows  int              // of the prompt
	phi   []*device.Tensor // [layers] F32 [1, heads, rows]
	lse   []*device.Tensor // [layers] F32 [1, heads]: over prompt and suffix
	bias  *device.Tensor   // F32 [kv heads, rows] of zeros
	owned device.Owner
}

// NewMass watches the frozen rows of cache under so many query heads.
func NewMass(dev device.Device, cache *kvcache.Cache, heads int) (*Mass, error) {
	specs := cache.Specs()
	d, err := dense.New(dev, specs)
	if err != nil {
		return nil, err
	}
	m := &Mass{Backend: d, dev: dev, heads: heads, rows: cache.Frozen(), owned: device.Owner{Dev: dev}}
	for range specs {
		m.phi = append(m.phi, m.owned.New("mass.scores", device.F32, 1, heads, m.rows))
		m.lse = append(m.lse, m.owned.New("mass.lse", device.F32, 1, heads))
	}
	m.bias = m.owned.New("mass.bias", device.F32, specs[0].KVHeads, m.rows)
	if err := m.owned.Err(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Exact is false: a model's own cache rows are to be attended.
func (m *Mass) Exact() bool { return false }

// Attend scores the prompt rows of a single token's queries, then attends.
func (m *Mass) Attend(ops *device.Ops, in attention.Input) {
	ops.Route(device.RouteArgs{Phi: m.phi[in.Layer], Q: in.Q, Reps: in.K.Slice(1, 0, m.rows), Bias: m.bias, Scale: in.Scale})
	exact := in.Exactly(m.Counters().Slice(0, in.Layer, in.Layer+1))
	exact.Out.LSE = m.lse[in.Layer]
	ops.Attend(exact)
}

// Add adds to mass[layer][row] the weight of each prompt row in the last step,
// averaged over the query heads. Over all rows a layer gets 1, less what the
// suffix has.
func (m *Mass) Add(mass [][]float64) error {
	for i := range m.phi {
		phi, err := device.Read[float32](m.dev, m.phi[i])
		if err != nil {
			return err
		}
		lse, err := device.Read[float32](m.dev, m.lse[i])
		if err != nil {
			return err
		}
		for h, all := range lse {
			for row, score := range phi[h*m.rows:][:m.rows] {
				mass[i][row] += math.Exp(float64(score)-float64(all)) / float64(m.heads)
			}
		}
	}
	return nil
}

// Close frees the scores.
func (m *Mass) Close() {
	m.owned.Free()
	m.Backend.Close()
}
