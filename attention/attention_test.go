package attention

import (
	"math"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/kvcache"
)

// Counts of the diagnostics goldens, as a backend would have summed them.
func TestPercent(t *testing.T) {
	var all struct {
		Access []struct {
			Calls []struct {
				N int64 `json:"N_c"`
				E int64 `json:"e_c"`
				M int64 `json:"m_c"`
				U int64 `json:"u_c"`
			}
			Percent float64
			Without float64 `json:"percent_without_routing"`
		}
		MLA []struct {
			Calls []struct {
				D     int64 `json:"d_c"`
				R     int64 `json:"r_c"`
				Union int64
			}
			Percent float64
		} `json:"access_mla"`
		SANTA struct {
			N       int64
			Drawn   [][]int `json:"sampled_value_rows_by_head"`
			Percent float64
		} `json:"access_santa"`
		Together struct {
			Pooled float64 `json:"pooled_percent"`
		} `json:"access_aggregation"`
	}
	golden.JSON(t, "../testdata/diagnostics/diagnostics.json", &all)
	var pooled Access
	for _, g := range all.Access {
		a := NewAccess(kvcache.Spec{KVHeads: 1, KeyDim: 8, ValueDim: 8}, device.F32)
		for _, c := range g.Calls {
			a = a.Add(Access{Routed: c.M, Rows: c.U, Suffix: c.E, Dense: c.N})
		}
		near(t, "percent", a.Percent(), g.Percent)
		near(t, "selected percent", a.SelectedPercent(), g.Without)
		pooled = pooled.Add(a)
	}
	near(t, "percent of summed counts", pooled.Percent(), all.Together.Pooled)
	for _, g := range all.MLA {
		a := NewAccess(kvcache.Spec{KVHeads: 1, KeyDim: 40, ValueDim: 32, ValueIsKeyPrefix: true}, device.F32)
		for _, c := range g.Calls {
			a = a.Add(Access{Routed: c.R, Rows: c.Union, Dense: c.D})
		}
		near(t, "MLA percent", a.Percent(), g.Percent)
	}
	distinct := map[int]bool{}
	for _, row := range slices.Concat(all.SANTA.Drawn...) {
		distinct[row] = true
	}
	a := NewAccess(kvcache.Spec{KVHeads: 1, KeyDim: 8, ValueDim: 8}, device.F32)
	a.Routed, a.Values, a.Dense = all.SANTA.N, int64(len(distinct)), all.SANTA.N
	near(t, "SANTA percent", a.Percent(), all.SANTA.Percent)
}

// A routed row is a key; a row is key and value, or one latent for both.
func TestBytes(t *testing.T) {
	a := NewAccess(kvcache.Spec{KVHeads: 2, KeyDim: 160, ValueDim: 128}, device.F32)
	a.Routed, a.Rows, a.Suffix, a.Dense = 3, 5, 1, 10
	if got := a.Bytes(); got != 3*640+6*(640+512) {
		t.Errorf("%d bytes", got)
	}
	l := NewAccess(kvcache.Spec{KVHeads: 1, KeyDim: 160, ValueDim: 128, ValueIsKeyPrefix: true}, device.BF16)
	l.Routed, l.Rows, l.Dense = 3, 5, 10
	if got := l.Bytes(); got != 8*320 {
		t.Errorf("%d bytes of a latent", got)
	}
	near(t, "bytes percent", l.BytesPercent(), 80)
}

// Every count that Add adds Sub takes away, and what a row weighs stays.
func TestSub(t *testing.T) {
	before := Access{Routed: 1, Rows: 2, Suffix: 3, Values: 4, Dense: 5, RoutedBytes: 6, RowBytes: 7, ValueBytes: 8, Vectors: 2}
	more := Access{Routed: 10, Rows: 20, Suffix: 30, Values: 40, Dense: 50, RoutedBytes: 6, RowBytes: 7, ValueBytes: 8, Vectors: 2}
	if got := before.Add(more).Sub(before); got != more {
		t.Errorf("%+v, want %+v", got, more)
	}
}

func TestEmpty(t *testing.T) {
	if p := (Access{}).Percent(); p != 0 {
		t.Errorf("access before the first step is %v", p)
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestAllRows(t *testing.T) {
	got := AllRows(2, 3)
	if len(got) != 2 || !slices.Equal(got[0], []int32{0, 1, 2}) || !slices.Equal(got[1], got[0]) {
		t.Errorf("%v", got)
	}
	got[0][0] = 7
	if got[1][0] != 0 {
		t.Error("heads share memory")
	}
}
