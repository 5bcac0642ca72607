package qwen2_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/host"
	"blitzen/internal/golden"
	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/model/qwen2"
	"blitzen/sample"
	"blitzen/weights"
)

// The tolerance of logits and hidden states that the goldens state for a
// float32 run: their own rounding noise is about 5e-5.
const tolerance = 1e-3

func open(t *testing.T) device.Device {
	t.Helper()
	dev, err := host.New(host.Options{CheckReplay: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func load(t *testing.T, dev device.Device, dir, config string, rows int) *qwen2.Model {
	t.Helper()
	fields, err := model.ReadFields(filepath.Join(dir, config))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := qwen2.ReadConfig(fields)
	if err != nil {
		t.Fatal(err)
	}
	ck, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := qwen2.Load(dev, ck, cfg, rows)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(); ck.Close() })
	return m
}

// prefill runs ids through m in chunks and returns the last logits and what
// was tapped, one entry a name.
func prefill(t *testing.T, dev device.Device, m *qwen2.Model, ids []int32, chunk int) ([]float64, map[string][]float64) {
	t.Helper()
	kv, err := kvcache.New(dev, m.CacheSpec(), len(ids)+3)
	check(t, err)
	defer kv.Close()
	attn, err := dense.New(dev, m.CacheSpec())
	check(t, err)
	defer attn.Close()
	logits := alloc(t, dev, device.F32, 1, m.Config().Vocab)
	tapped := map[string][]float64{}
	for start := 0; start < len(ids); start += chunk {
		n := min(chunk, len(ids)-start)
		in := model.Batch{IDs: alloc(t, dev, device.I32, n), Pos: alloc(t, dev, device.I32, n), Start: start}
		check(t, device.Write(dev, in.IDs, ids[start:start+n]))
		check(t, device.Write(dev, in.Pos, positions(start, n)))
		check(t, dev.Run(func(ops *device.Ops) {
			ops.OnTap(func(name string, x *device.Tensor) {
				v, err := device.Read[float32](dev, x)
				check(t, err)
				tapped[name] = append(tapped[name], golden.Float64s(v)...)
			})
			m.Forward(ops, in, kv, attn, logits)
		}))
	}
	out, err := device.Read[float32](dev, logits)
	check(t, err)
	return golden.Float64s(out), tapped
}

func TestGolden(t *testing.T) {
	cases := []struct{ dir, config, prefix string }{
		{"qwen2_tied_gqa", "config.json", ""}, {"qwen2_tied_gqa", "config.v5.json", ""},
		{"qwen2_untied_mha", "config.json", ""}, {"qwen2_untied_mha", "config.v5.json", ""},
		{"qwen2_fp16_sharded", "config.json", ""}, {"qwen2_fp16_sharded", "config.v5.json", ""},
		{"qwen2_yarn", "config.json", ""}, {"qwen2_yarn", "config.v5.json", ""}, {"qwen2_yarn", "config.short.json", "short."},
	}
	for _, c := range cases {
		t.Run(c.dir+"/"+c.config, func(t *testing.T) {
			dir := "../../testdata/models/" + c.dir
			f := golden.Open(t, dir+"/golden.safetensors")
			dev := open(t)
			m := load(t, dev, dir, c.config, 256)
			for p := range 3 {
				name := func(s string) string { return fmt.Sprintf("%sp%d.%s", c.prefix, p, s) }
				ids := f.Int32s(name("input_ids"))
				logits, tapped := prefill(t, dev, m, ids, 256)
				golden.Near(t, name("logits_last"), logits, f.Floats(name("logits_last")), tolerance)
				if f.Has(name("hidden_states")) {
					checkHidden(t, m, f, name("hidden_states"), tapped)
				}
				checkGreedy(t, dev, m, ids, f.Int32s(name("greedy")))
			}
		})
	}
}

// checkHidden compares the embeddings and every layer's output; the last is
// after the final norm, of which the forward pass computes one row.
func checkHidden(t *testing.T, m *qwen2.Model, f *golden.File, name string, tapped map[string][]float64) {
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
		var flat []float64
		for _, row := range want {
			flat = append(flat, row...)
		}
		golden.Near(t, fmt.Sprintf("%s[%d]", name, i), got, flat, tolerance)
	}
}

func checkGreedy(t *testing.T, dev device.Device, m *qwen2.Model, ids, want []int32) {
	t.Helper()
	s := session(t, dev, m, len(ids)+len(want))
	check(t, s.Prefill(context.Background(), ids, nil))
	check(t, s.Build(denseBackend(dev, m)))
	for i, id := range want {
		got, err := s.Next(context.Background())
		check(t, err)
		if got.ID != id {
			t.Fatalf("prompt of %d: greedy token %d is %d, want %d", len(ids), i, got.ID, id)
		}
	}
}

func session(t *testing.T, dev device.Device, m *qwen2.Model, capacity int) *decode.Session {
	t.Helper()
	s, err := decode.New(dev, m, decode.Options{Capacity: capacity, Sampling: sample.Greedy()})
	check(t, err)
	t.Cleanup(s.Close)
	return s
}

func denseBackend(dev device.Device, m *qwen2.Model) func(*kvcache.Cache) (attention.Backend, error) {
	return func(*kvcache.Cache) (attention.Backend, error) { return dense.New(dev, m.CacheSpec()) }
}

// The logits must not depend on how a prompt is cut, beyond rounding.
func TestChunks(t *testing.T) {
	dir := "../../testdata/models/qwen2_tied_gqa"
	ids := golden.Open(t, dir+"/golden.safetensors").Int32s("p2.input_ids")
	dev := open(t)
	m := load(t, dev, dir, "config.json", 512)
	whole, _ := prefill(t, dev, m, ids, len(ids))
	for _, chunk := range []int{1, 7, 512} {
		logits, _ := prefill(t, dev, m, ids, chunk)
		golden.Near(t, fmt.Sprintf("chunks of %d", chunk), logits, whole, 1e-4*largest(whole))
	}
}

// Decoding token n gives the logits of a prefill of n tokens.
func TestDecodeEqualsPrefill(t *testing.T) {
	dir := "../../testdata/models/qwen2_yarn"
	ids := golden.Open(t, dir+"/golden.safetensors").Int32s("p2.input_ids")
	dev := open(t)
	m := load(t, dev, dir, "config.json", 512)
	s := session(t, dev, m, len(ids))
	check(t, s.Prefill(context.Background(), ids[:100], nil))
	check(t, s.Build(denseBackend(dev, m)))
	for n := 100; n < 110; n++ {
		_, err := s.Next(context.Background())
		check(t, err)
		got, err := s.Logits()
		check(t, err)
		want, _ := prefill(t, dev, m, ids[:n], 512)
		golden.Near(t, fmt.Sprintf("decode at %d", n), golden.Float64s(got), want, 1e-4*largest(want))
		check(t, s.Force(ids[n]))
	}
}

func largest(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = math.Max(m, math.Abs(v))
	}
	return m
}

func positions(start, n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(start + i)
	}
	return p
}

func alloc(t *testing.T, dev device.Device, d device.DType, shape ...int) *device.Tensor {
	t.Helper()
	x, err := dev.New("test", d, shape...)
	check(t, err)
	return x
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
