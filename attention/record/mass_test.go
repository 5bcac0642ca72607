package record_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"
)

// Two key heads of two query heads each, by hand in float64: the weights are
// those of softmax over prompt and suffix, averaged over heads. Float32 scores
// below 4 are off by 4·d·2⁻²⁴ at most, and so, relatively, are the weights.
func TestMass(t *testing.T) {
	const heads, kvHeads, d, prompt, rows, scale = 4, 2, 3, 5, 7, 0.5
	dev := modeltest.Host(t)
	spec := kvcache.Spec{KVHeads: kvHeads, KeyDim: d, ValueDim: d}
	cache, err := kvcache.New(dev, []kvcache.Spec{spec}, rows+1)
	modeltest.Check(t, err)
	t.Cleanup(cache.Close)
	number := func(i int) float32 { return float32((i*37)%19-9) / 8 }
	fill := func(n int, shape ...int) (*device.Tensor, []float32) {
		x, err := dev.New("test", device.F32, shape...)
		modeltest.Check(t, err)
		values := make([]float32, x.Len())
		for i := range values {
			values[i] = number(i + n)
		}
		modeltest.Check(t, device.Write(dev, x, values))
		return x, values
	}
	q, queries := fill(1, 1, heads, d)
	k, keys := fill(5, rows, kvHeads, d)
	out, _ := fill(0, 1, heads, d)
	at, err := dev.New("at", device.I32, rows)
	modeltest.Check(t, err)
	modeltest.Check(t, device.Write(dev, at, []int32{0, 1, 2, 3, 4, 5, 6}))
	l := cache.Layers[0]
	modeltest.Check(t, dev.Run(func(ops *device.Ops) { l.Append(ops, k, k, at) }))
	modeltest.Check(t, cache.Freeze(prompt))
	m, err := record.NewMass(dev, cache, heads)
	modeltest.Check(t, err)
	defer m.Close()
	in := attention.Input{Q: q, K: l.K, V: l.V, Pos: at.Slice(0, rows-1, rows), Out: out, Scale: scale}
	modeltest.Check(t, dev.Run(func(ops *device.Ops) { m.Attend(ops, in) }))
	got := [][]float64{make([]float64, prompt)}
	modeltest.Check(t, m.Add(got))

	want := make([]float64, prompt)
	for h := range heads {
		weight, sum := make([]float64, rows), 0.0
		for row := range weight {
			dot := 0.0
			for i := range d {
				dot += float64(queries[h*d+i]) * float64(keys[(row*kvHeads+h/2)*d+i])
			}
			weight[row] = math.Exp(scale * dot)
			sum += weight[row]
		}
		for row := range want {
			want[row] += weight[row] / sum / heads
		}
	}
	golden.Near(t, "mass", got[0], want, 4*d*0x1p-24)
	if a := m.Access([]int64{7}); a.Rows != 7 {
		t.Errorf("access %+v", a)
	}

	in.Most = rows
	var asked promised
	m.Attend(device.NewOps(&asked, nil), in)
	if asked.Most != rows {
		t.Errorf("exact attention is promised at most %d rows, the step at most %d", asked.Most, rows)
	}
}

// promised keeps what Attend is promised.
type promised struct {
	device.Kernels
	device.AttendArgs
}

func (p *promised) Route(device.RouteArgs) error { return nil }

func (p *promised) Attend(a device.AttendArgs) error {
	p.AttendArgs = a
	return nil
}

// In the first step all weight is on the prompt, and the trajectory is dense.
func TestMassOfModel(t *testing.T) {
	for _, name := range []string{"qwen2_tied_gqa", "dsv2_lite"} {
		dev := modeltest.Host(t)
		m, shape, s := prompted(t, dev, name)
		ids, logits := tokens(t, s, modeltest.Dense(dev, m))
		off := modeltest.ShareError(t, dev, s, shape.Heads)
		var watch *record.Mass
		modeltest.Check(t, s.Build(func(k *kvcache.Cache) (attention.Backend, error) {
			var err error
			watch, err = record.NewMass(dev, k, shape.Heads)
			return watch, err
		}))
		var got [][]float32
		modeltest.Check(t, s.Follow(context.Background(), ids, func(i int, l []float32) error {
			got = append(got, slices.Clone(l))
			mass := make([][]float64, shape.Layers)
			for layer := range mass {
				mass[layer] = make([]float64, length)
			}
			modeltest.Check(t, watch.Add(mass))
			for layer, row := range mass {
				sum := 0.0
				for _, w := range row {
					sum += w
				}
				if i == 0 && math.Abs(sum-1) > off || i > 0 && !(sum > 0 && sum < 1) {
					t.Errorf("%s: step %d, layer %d: the prompt has %v of the weight", name, i, layer, sum)
				}
			}
			return nil
		}))
		if !same(got, logits) {
			t.Errorf("%s: watching changes the logits", name)
		}
	}
}
