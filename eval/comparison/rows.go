package comparison

import (
	"context"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/kvcache"
)

// Mass is the weight that exact attention puts on each prompt row along tokens,
// [layers][rows], averaged over steps and query heads. A layer's sum is below 1
// by what generated tokens have.
func (p Prompt) Mass(ctx context.Context, tokens []int32) ([][]float64, error) {
	var m *record.Mass
	err := p.Session.Build(func(c *kvcache.Cache) (attention.Backend, error) {
		var err error
		m, err = record.NewMass(p.Device, c, p.Model.Config().Heads)
		return m, err
	})
	if err != nil {
		return nil, err
	}
	mass := p.rows()
	if err := p.Session.Follow(ctx, tokens, func(int, []float32) error { return m.Add(mass) }); err != nil {
		return nil, err
	}
	return scaled(mass, len(tokens)), nil
}

// Reads is how often a method reads each prompt row along tokens, [layers][rows]:
// the share of steps and key heads. ok is false for a method that cannot say.
func (p Prompt) Reads(ctx context.Context, build Build, tokens []int32) (reads [][]float64, ok bool, err error) {
	var b attention.Selecting
	err = p.Session.Build(func(c *kvcache.Cache) (attention.Backend, error) {
		inner, err := build(c)
		if err != nil {
			return nil, err
		}
		if b, ok = inner.(attention.Selecting); !ok {
			return inner, nil
		}
		if err := b.Observe(c, p.Model.Config().Heads); err != nil {
			b.Close()
			return nil, err
		}
		return b, nil
	})
	if err != nil || !ok {
		return nil, ok, err
	}
	reads = p.rows()
	err = p.Session.Follow(ctx, tokens, func(int, []float32) error {
		for layer := range reads {
			heads, err := b.RowsRead(layer)
			if err != nil {
				return err
			}
			for _, rows := range heads {
				for _, row := range rows {
					reads[layer][row] += 1 / float64(len(heads))
				}
			}
		}
		return nil
	})
	return scaled(reads, len(tokens)), true, err
}

// rows is a number for each layer and prompt row.
func (p Prompt) rows() [][]float64 {
	rows := make([][]float64, p.Model.Config().Layers)
	for i := range rows {
		rows[i] = make([]float64, p.Session.Cache().Frozen())
	}
	return rows
}

// scaled divides all numbers by n.
func scaled(rows [][]float64, n int) [][]float64 {
	for _, row := range rows {
		for i := range row {
			row[i] /= float64(max(n, 1))
		}
	}
	return rows
}
