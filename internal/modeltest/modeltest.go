// Package modeltest runs models in tests and compares them with golden
// checkpoints.
package modeltest

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/host"
	"blitzen/internal/golden"
	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/sample"
	"blitzen/weights"
)

// Terms is how many terms the sums of the tiny checkpoints in testdata have: up to
// 192 in an MLP, up to 200 rows in attention.
const Terms = 200

// Rounding is how far two float32 runs of a model that add in different orders may be
// apart in values: logits, hidden states or queries. As in device/devicetest/tolerance.go
// errors are random walks. Storing a number rounds it by a standard deviation of u/√3,
// u = 2⁻²⁴, and a sum of so many terms by u·√(terms/6) of its size, since partial sums
// are rounded. A layer has 12 sums or products in a row, whose errors are independent
// and which norms keep in proportion to the largest value: 2u·√(layers·terms) for two
// runs. Five standard deviations cover the largest of a million.
func Rounding(m model.Model, terms int, values []float64) float64 {
	return 10 * 0x1p-24 * math.Sqrt(float64(m.Config().Layers*terms)) * Largest(values)
}

// Host is a CPU device that checks replays, closed after the test.
func Host(t testing.TB) device.Device {
	t.Helper()
	dev, err := host.New(host.Options{CheckReplay: true})
	Check(t, err)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// Fields are those of DIR/CONFIG.
func Fields(t testing.TB, dir, config string) *model.Fields {
	t.Helper()
	f, err := model.ReadFields(filepath.Join(dir, config))
	Check(t, err)
	return f
}

// Load opens a checkpoint, gives it to load, and closes both after the test.
func Load[M model.Model](t testing.TB, dir string, load func(*weights.Checkpoint) (M, error)) M {
	t.Helper()
	ck, err := weights.Open(dir)
	Check(t, err)
	m, err := load(ck)
	Check(t, err)
	t.Cleanup(func() { m.Close(); ck.Close() })
	return m
}

// Prefill says how ids go through a model.
type Prefill struct {
	Chunk    int                                       // tokens at once
	HideRows bool                                      // do not tell the model how many rows there are, as in a recorded step
	Wrap     func(attention.Backend) attention.Backend // around exact attention; nil for none
}

// Run returns the last logits and what was tapped, by name.
func (p Prefill) Run(t testing.TB, dev device.Device, m model.Model, ids []int32) (logits []float64, tapped map[string][]float64) {
	t.Helper()
	kv, err := kvcache.New(dev, m.CacheSpec(), len(ids)+3)
	Check(t, err)
	defer kv.Close()
	backend, err := dense.New(dev, m.CacheSpec())
	Check(t, err)
	defer backend.Close()
	attn := attention.Backend(backend)
	if p.Wrap != nil {
		attn = p.Wrap(attn)
	}
	last := alloc(t, dev, device.F32, 1, m.Config().Vocab)
	defer dev.Free(last)
	tapped = map[string][]float64{}
	for start := 0; start < len(ids); start += p.Chunk {
		n := min(p.Chunk, len(ids)-start)
		in := model.Batch{IDs: alloc(t, dev, device.I32, n), Pos: alloc(t, dev, device.I32, n), Rows: start + n}
		Check(t, device.Write(dev, in.IDs, ids[start:start+n]))
		Check(t, device.Write(dev, in.Pos, positions(start, n)))
		if p.HideRows {
			in.Rows = 0
		}
		Check(t, dev.Run(func(ops *device.Ops) {
			ops.OnTap(func(name string, x *device.Tensor) { tapped[name] = append(tapped[name], read(t, dev, x)...) })
			m.Forward(ops, in, kv, attn, last)
		}))
		dev.Free(in.IDs)
		dev.Free(in.Pos)
	}
	return read(t, dev, last), tapped
}

// CheckPrompt compares a golden prompt's logits, hidden states if there are any, and
// greedy tokens; names of f begin with prefix. It returns what was tapped.
func CheckPrompt(t testing.TB, dev device.Device, m model.Model, f *golden.File, prefix string) map[string][]float64 {
	t.Helper()
	ids := f.Int32s(prefix + "input_ids")
	logits, tapped := Prefill{Chunk: 256}.Run(t, dev, m, ids)
	golden.Near(t, prefix+"logits_last", logits, f.Floats(prefix+"logits_last"), Rounding(m, Terms, logits))
	if name := prefix + "hidden_states"; f.Has(name) {
		checkHidden(t, m, f, name, tapped)
	}
	CheckGreedy(t, dev, m, ids, f.Int32s(prefix+"greedy"))
	return tapped
}

// checkHidden compares the embeddings and every layer's output with a golden
// tensor [layers+1, tokens, hidden]; the last is after the final norm, of which
// the forward pass computes one row.
func checkHidden(t testing.TB, m model.Model, f *golden.File, name string, tapped map[string][]float64) {
	t.Helper()
	layers := m.Config().Layers
	for i := range layers + 1 {
		want, got := f.Rows(name, i), tapped["embed"]
		if i > 0 {
			got = tapped[fmt.Sprintf("layer.%d", i-1)]
		}
		if i == layers {
			want, got = want[len(want)-1:], tapped["norm"]
		}
		flat := slices.Concat(want...)
		golden.Near(t, fmt.Sprintf("%s[%d]", name, i), got, flat, Rounding(m, Terms, flat))
	}
}

// CheckGreedy decodes as many tokens as want has.
func CheckGreedy(t testing.TB, dev device.Device, m model.Model, ids, want []int32) {
	t.Helper()
	s := Session(t, dev, m, len(ids)+len(want))
	Check(t, s.Prefill(context.Background(), ids, nil))
	Check(t, s.Build(Dense(dev, m)))
	for i, id := range want {
		got, err := s.Next(context.Background())
		Check(t, err)
		if got.ID != id {
			t.Fatalf("prompt of %d: greedy token %d is %d, want %d", len(ids), i, got.ID, id)
		}
	}
}

// CheckDecode compares the logits of decode steps from token `from` to the end
// of ids with those of a prefill as long.
func CheckDecode(t testing.TB, dev device.Device, m model.Model, ids []int32, from int) {
	t.Helper()
	s := Session(t, dev, m, len(ids))
	Check(t, s.Prefill(context.Background(), ids[:from], nil))
	Check(t, s.Build(Dense(dev, m)))
	for n := from; n < len(ids); n++ {
		_, err := s.Next(context.Background())
		Check(t, err)
		got, err := s.Logits()
		Check(t, err)
		want, _ := Prefill{Chunk: m.MaxRows()}.Run(t, dev, m, ids[:n])
		golden.Near(t, fmt.Sprintf("decode at %d", n), golden.Float64s(got), want, Rounding(m, Terms, want))
		Check(t, s.Force(ids[n]))
	}
}

// Session is a greedy session, closed after the test.
func Session(t testing.TB, dev device.Device, m model.Model, capacity int) *decode.Session {
	t.Helper()
	s, err := decode.New(dev, m, decode.Options{Capacity: capacity, Sampling: sample.Greedy()})
	Check(t, err)
	t.Cleanup(s.Close)
	return s
}

// Dense builds exact attention.
func Dense(dev device.Device, m model.Model) func(*kvcache.Cache) (attention.Backend, error) {
	return func(*kvcache.Cache) (attention.Backend, error) { return dense.New(dev, m.CacheSpec()) }
}

// Largest is the greatest magnitude.
func Largest(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = math.Max(m, math.Abs(v))
	}
	return m
}

// Check ends the test on an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, dev device.Device, x *device.Tensor) []float64 {
	t.Helper()
	if x.DType == device.I32 {
		v, err := device.Read[int32](dev, x)
		Check(t, err)
		out := make([]float64, len(v))
		for i := range v {
			out[i] = float64(v[i])
		}
		return out
	}
	v, err := device.Read[float32](dev, x)
	Check(t, err)
	return golden.Float64s(v)
}

func positions(start, n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(start + i)
	}
	return p
}

func alloc(t testing.TB, dev device.Device, d device.DType, shape ...int) *device.Tensor {
	t.Helper()
	x, err := dev.New("test", d, shape...)
	Check(t, err)
	return x
}
