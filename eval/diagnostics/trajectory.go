package diagnostics

import (
	"context"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/kvcache"
)

// Trajectory is what dense decoding asked of a prompt: its keys and the queries
// of every step.
type Trajectory struct {
	Rows    int           // of the prompt
	Heads   int           // query heads
	Dim     int           // of a key
	Scale   float64       // softmax scale
	Keys    [][][]float32 // [layers][kv heads][rows · dim], as cached after prefill
	Queries [][][]float32 // [steps][layers][heads · dim]; the first step asks for the last prompt token
}

// Record follows tokens after the session's prompt with exact attention. The
// cache is left at the end of the prompt.
func Record(ctx context.Context, dev device.Device, s *decode.Session, heads int, tokens []int32) (*Trajectory, error) {
	t := &Trajectory{Heads: heads}
	var last *record.LastQueries
	err := s.Build(func(c *kvcache.Cache) (attention.Backend, error) {
		if err := t.readKeys(dev, c); err != nil {
			return nil, err
		}
		var err error
		last, err = record.NewLastQueries(dev, c.Specs(), heads, device.F32)
		return last, err
	})
	if err != nil {
		return nil, err
	}
	err = s.Follow(ctx, tokens, func(int, []float32) error {
		q, err := device.Read[float32](dev, last.Queries)
		if err != nil {
			return err
		}
		layers := make([][]float32, len(t.Keys))
		for i := range layers {
			layers[i] = q[i*heads*t.Dim : (i+1)*heads*t.Dim]
		}
		t.Queries = append(t.Queries, layers)
		return nil
	})
	t.Scale = float64(last.Scale)
	return t, err
}

// readKeys copies the frozen keys of all layers.
func (t *Trajectory) readKeys(dev device.Device, c *kvcache.Cache) error {
	t.Rows, t.Dim = c.Frozen(), c.Layers[0].KeyDim
	for _, l := range c.Layers {
		var heads [][]float32
		for h := range l.KVHeads {
			keys, err := device.ReadFloats(dev, l.K.Index(0, h).Slice(0, 0, t.Rows))
			if err != nil {
				return err
			}
			heads = append(heads, keys)
		}
		t.Keys = append(t.Keys, heads)
	}
	return nil
}

// logits are scale·q·k of one query head over the prompt rows.
func (t *Trajectory) logits(step, layer, head int) []float64 {
	return t.scores(step, layer, head, t.Keys[layer][t.keyHead(layer, head)])
}

// scores are scale·q·k over keys [n · dim].
func (t *Trajectory) scores(step, layer, head int, keys []float32) []float64 {
	q := t.Queries[step][layer][head*t.Dim : (head+1)*t.Dim]
	out := make([]float64, len(keys)/t.Dim)
	for i := range out {
		sum := 0.0
		for j, k := range keys[i*t.Dim : (i+1)*t.Dim] {
			sum += float64(q[j]) * float64(k)
		}
		out[i] = t.Scale * sum
	}
	return out
}
