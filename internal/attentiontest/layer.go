// Package attentiontest runs attention backends on a single layer of given
// queries, keys and values, and over many seeds.
package attentiontest

import (
	"math"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/kvcache"
)

// Layer is one attention layer on a device, filled with the arrays of a case.
type Layer struct {
	Dev       device.Device
	Cache     *kvcache.Cache
	Q, Pos    *device.Tensor // [1, heads, d], I32 [1]: the last row
	Out       *device.Tensor // F32 [1, heads, dv]
	Heads, DV int
	Scale     float32
}

// Fill makes a cache of n prompt rows and the suffix after them. q [heads][d];
// keys, values [kv heads][rows][…].
func Fill(t testing.TB, dev device.Device, q [][]float64, keys, values [][][]float64, n int, scale float64) *Layer {
	t.Helper()
	d, dv := len(q[0]), len(values[0][0])
	l := newLayer(t, dev, kvcache.Spec{KVHeads: len(keys), KeyDim: d, ValueDim: dv}, q, scale, len(keys[0]))
	rows := len(keys[0])
	k, v := Tensor(t, dev, tokenMajor(keys), rows, len(keys), d), Tensor(t, dev, tokenMajor(values), rows, len(keys), dv)
	l.freeze(t, k, v, n)
	return l
}

// FillLatent is Fill for rows whose value is the first latent numbers of the
// key, in one key head. keys [rows][d].
func FillLatent(t testing.TB, dev device.Device, q, keys [][]float64, latent, n int, scale float64) *Layer {
	t.Helper()
	spec := kvcache.Spec{KVHeads: 1, KeyDim: len(keys[0]), ValueDim: latent, ValueIsKeyPrefix: true, ClusterDim: latent}
	l := newLayer(t, dev, spec, q, scale, len(keys))
	l.freeze(t, Tensor(t, dev, slices.Concat(keys...), len(keys), 1, len(keys[0])), nil, n)
	return l
}

func newLayer(t testing.TB, dev device.Device, spec kvcache.Spec, q [][]float64, scale float64, rows int) *Layer {
	t.Helper()
	cache, err := kvcache.New(dev, []kvcache.Spec{spec}, rows+3)
	Check(t, err)
	t.Cleanup(cache.Close)
	return &Layer{
		Dev: dev, Cache: cache, Heads: len(q), DV: spec.ValueDim, Scale: float32(scale),
		Q: Tensor(t, dev, slices.Concat(q...), 1, len(q), spec.KeyDim), Pos: Ints(t, dev, int32(rows-1)),
		Out: Tensor(t, dev, make([]float64, len(q)*spec.ValueDim), 1, len(q), spec.ValueDim),
	}
}

func (l *Layer) freeze(t testing.TB, k, v *device.Tensor, n int) {
	t.Helper()
	at := make([]int32, k.Shape[0])
	for i := range at {
		at[i] = int32(i)
	}
	pos := Ints(t, l.Dev, at...)
	Check(t, l.Dev.Run(func(ops *device.Ops) { l.Cache.Layers[0].Append(ops, k, v, pos) }))
	Check(t, l.Cache.Freeze(n))
}

// Input is the call of a step.
func (l *Layer) Input() attention.Input {
	c := l.Cache.Layers[0]
	return attention.Input{Q: l.Q, K: c.K, V: c.V, Pos: l.Pos, Out: l.Out, Scale: l.Scale}
}

// Counts are the backend's counters.
func (l *Layer) Counts(t testing.TB, b attention.Backend) []int64 {
	t.Helper()
	counts, err := device.Read[int64](l.Dev, b.Counters())
	Check(t, err)
	return counts
}

// Clear sets the backend's counters to 0.
func (l *Layer) Clear(t testing.TB, b attention.Backend) {
	t.Helper()
	Check(t, device.Write(l.Dev, b.Counters(), make([]int64, b.Counters().Len())))
}

// CheckThen compares a product that Attend does with the same one by itself, bit for bit.
func (l *Layer) CheckThen(t testing.TB, b attention.Backend) {
	t.Helper()
	const outs = 5
	weights := make([]float64, l.Heads*outs*l.DV)
	for i := range weights {
		weights[i] = math.Sin(float64(i))
	}
	var dst [2]*device.Tensor
	for i := range dst {
		dst[i] = Tensor(t, l.Dev, make([]float64, l.Heads*outs), 1, l.Heads, outs)
	}
	in := l.Input()
	in.Then = &device.HeadProduct{Dst: dst[0], X: in.Out, W: Tensor(t, l.Dev, weights, l.Heads, outs, l.DV)}
	Check(t, l.Dev.Run(func(ops *device.Ops) {
		b.Attend(ops, in)
		ops.HeadLinear(dst[1], in.Out, in.Then.W, false)
	}))
	if got, want := Floats(t, l.Dev, dst[0]), Floats(t, l.Dev, dst[1]); !slices.Equal(got, want) || want[0] == 0 {
		t.Errorf("%s: the product after attention is %v, want %v", b.Name(), got, want)
	}
}

// tokenMajor turns [heads][rows][d] into [rows, heads, d].
func tokenMajor(x [][][]float64) []float64 {
	var out []float64
	for row := range x[0] {
		for _, head := range x {
			out = append(out, head[row]...)
		}
	}
	return out
}

// Tensor makes an F32 tensor.
func Tensor(t testing.TB, dev device.Device, values []float64, shape ...int) *device.Tensor {
	t.Helper()
	x, err := dev.New("test", device.F32, shape...)
	Check(t, err)
	Check(t, device.Write(dev, x, golden.Float32s(values)))
	return x
}

// Ints makes an I32 tensor of one dimension.
func Ints(t testing.TB, dev device.Device, values ...int32) *device.Tensor {
	t.Helper()
	x, err := dev.New("test", device.I32, len(values))
	Check(t, err)
	Check(t, device.Write(dev, x, values))
	return x
}

// Floats reads an F32 tensor.
func Floats(t testing.TB, dev device.Device, x *device.Tensor) []float64 {
	t.Helper()
	v, err := device.Read[float32](dev, x)
	Check(t, err)
	return golden.Float64s(v)
}

// Check ends the test at an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
