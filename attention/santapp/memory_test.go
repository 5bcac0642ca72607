package santapp

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/internal/attentiontest"
	"blitzen/kvcache"
	"blitzen/teams"
)

// meter counts bytes as device.Meter does, and the most that were held at once.
// It says that there are as many teams as there can be.
type meter struct {
	*device.Meter
	most  int32
	start int64
	peak  int64
}

func (m *meter) New(name string, t device.DType, shape ...int) (*device.Tensor, error) {
	x, err := m.Meter.New(name, t, shape...)
	m.peak = max(m.peak, m.Made()-m.start)
	return x, err
}

func (m *meter) Fetch(t *device.Tensor) device.Pending {
	if t.Name == "teams.numbers" { // how many teams there are
		return counts(m.most)
	}
	return m.Meter.Fetch(t)
}

type counts int32

func (c counts) Wait(dst []byte) error {
	for i := 0; i < len(dst); i += 4 {
		binary.LittleEndian.PutUint32(dst[i:], uint32(c))
	}
	return nil
}

// What is kept beside the rows of the cache, maps included, must be at most 15 %
// of them for grouped queries and 28 % for a latent; while teams are built, 3 %
// more.
func TestMemory(t *testing.T) {
	for name, c := range map[string]struct {
		spec  kvcache.Spec
		limit float64
	}{
		"128 wide": {kvcache.Spec{KVHeads: 4, KeyDim: 128, ValueDim: 128}, 0.15},
		"64 wide":  {kvcache.Spec{KVHeads: 2, KeyDim: 64, ValueDim: 64}, 0.15},
		"latent":   {kvcache.Spec{KVHeads: 1, KeyDim: 576, ValueDim: 512, ValueIsKeyPrefix: true, ClusterDim: 512}, 0.28},
	} {
		for _, parents := range []teams.Parents{teams.Contiguous, teams.Segmented, teams.KMeans} {
			t.Run(fmt.Sprintf("%s, %v", name, parents), func(t *testing.T) {
				const layers, rows = 3, 32768
				cfg := Config{Config: teams.Config{ParentSize: 16, Representatives: 4}, Budget: 512, Parents: parents}
				m := &meter{Meter: device.NewMeter(device.BF16), most: int32(cfg.Most(rows, parents))}
				cache, err := kvcache.New(m, slices.Repeat([]kvcache.Spec{c.spec}, layers), rows)
				attentiontest.Check(t, err)
				defer cache.Close()
				attentiontest.Check(t, cache.Freeze(rows))
				m.start, m.peak = int64(layers*rows*c.spec.RowWidth()*device.BF16.Size()), 0
				b, err := Build(context.Background(), m, cache, cfg, nil)
				attentiontest.Check(t, err)
				held, peak := m.Made()-m.start, m.peak
				if share := float64(held) / float64(m.start); share > c.limit || share < c.limit-0.04 {
					t.Errorf("%.2f %% of the rows' bytes are kept beside them", 100*share)
				}
				if share := float64(peak) / float64(m.start); share > c.limit+0.03 {
					t.Errorf("%.2f %% of the rows' bytes are held while building", 100*share)
				}
				b.Close()
				attentiontest.Check(t, cache.Thaw())
				attentiontest.Check(t, cache.Freeze(rows))
				cfg.RepsF8 = true
				b, err = Build(context.Background(), m, cache, cfg, nil)
				attentiontest.Check(t, err)
				half := int64(layers*c.spec.KVHeads*int(m.most)*c.spec.KeyDim) - int64(4*layers*c.spec.KVHeads) // less, and a factor a head
				if got := held - (m.Made() - m.start); got != half {
					t.Errorf("representatives as F8 take %d bytes less, want %d", got, half)
				}
				b.Close()
			})
		}
	}
}
