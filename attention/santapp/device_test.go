package santapp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/device"
	"blitzen/host"
	"blitzen/internal/golden"
	"blitzen/kvcache"
	"blitzen/teams"
)

func open(t testing.TB) device.Device {
	t.Helper()
	dev, err := host.New(host.Options{CheckReplay: true})
	check(t, err)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// layerCase is one attention layer on a device, filled with the arrays of a case.
type layerCase struct {
	dev       device.Device
	cache     *kvcache.Cache
	q, pos    *device.Tensor
	out       *device.Tensor
	heads, dv int
	scale     float32
}

// fill makes a cache of n prompt rows and the suffix after them. q [heads][d];
// keys, values [kv heads][rows][…].
func fill(t testing.TB, dev device.Device, q [][]float64, keys, values [][][]float64, n int, scale float64) *layerCase {
	t.Helper()
	rows, d, dv := len(keys[0]), len(q[0]), len(values[0][0])
	cache, err := kvcache.New(dev, []kvcache.Spec{{KVHeads: len(keys), KeyDim: d, ValueDim: dv}}, rows+3)
	check(t, err)
	c := &layerCase{dev: dev, cache: cache, heads: len(q), dv: dv, scale: float32(scale)}
	t.Cleanup(cache.Close)
	k, v := tensor(t, dev, tokenMajor(keys), rows, len(keys), d), tensor(t, dev, tokenMajor(values), rows, len(keys), dv)
	at := make([]int32, rows)
	for i := range at {
		at[i] = int32(i)
	}
	pos := ints(t, dev, at...)
	check(t, dev.Run(func(ops *device.Ops) { cache.Layers[0].Append(ops, k, v, pos) }))
	check(t, cache.Freeze(n))
	c.q = tensor(t, dev, slices.Concat(q...), 1, len(q), d)
	c.pos = ints(t, dev, int32(rows-1))
	c.out = tensor(t, dev, make([]float64, len(q)*dv), 1, len(q), dv)
	return c
}

func (c *layerCase) input() attention.Input {
	l := c.cache.Layers[0]
	return attention.Input{Q: c.q, K: l.K, V: l.V, Pos: c.pos, Out: c.out, Scale: c.scale}
}

// The latent form: one partition for all heads, made from the latent alone;
// routing and rows are the whole key, values its first part. Teams, φ and the
// sums must be those of the golden.
func TestDeviceGoldenLatent(t *testing.T) {
	dev := open(t)
	for _, c := range latentCases(t) {
		t.Run(c.Case, func(t *testing.T) {
			f := golden.Open(t, testdata+c.Case+".safetensors")
			l := fillLatent(t, dev, f, c, 1)
			b, err := Build(context.Background(), dev, l.cache, Config{
				Config: teams.Config{ParentSize: c.P, Representatives: c.R}, Budget: c.S, Parents: teams.Contiguous, SampleAlways: true,
			}, nil)
			check(t, err)
			defer b.Close()
			var sel []int32
			var logC []float32
			for h := range c.Heads {
				sel = append(sel, f.Int32s(fmt.Sprintf("q%d.selected", h))...)
				logC = append(logC, golden.Float32s(f.Floats(fmt.Sprintf("q%d.log_c", h)))...)
			}
			s := newChain(t, l, b)
			check(t, device.Write(dev, s.Teams, sel))
			check(t, device.Write(dev, s.LogC, logC))
			check(t, dev.Run(func(ops *device.Ops) {
				s.route(ops)
				s.read(ops)
			}))
			phi, err := device.Read[float32](dev, s.Phi)
			check(t, err)
			out, err := device.Read[float32](dev, l.out)
			check(t, err)
			for h := range c.Heads {
				m := s.Phi.Shape[2]
				golden.Near(t, fmt.Sprintf("q%d.phi", h), golden.Float64s(phi[h*m:(h+1)*m]), f.Floats(fmt.Sprintf("q%d.phi", h)), 2e-4)
				golden.Near(t, fmt.Sprintf("q%d.out_latent", h), golden.Float64s(out[h*c.Latent:(h+1)*c.Latent]), f.Floats(fmt.Sprintf("q%d.out_latent", h)), 2e-4)
			}
		})
	}
}

// fillLatent is the layer of a latent case: queries in absorbed form, times
// shrink.
func fillLatent(t testing.TB, dev device.Device, f *golden.File, c latentCase, shrink float64) *layerCase {
	t.Helper()
	keys, latent := latentKeys(f)
	rows, width := len(keys), len(keys[0])
	spec := kvcache.Spec{KVHeads: 1, KeyDim: width, ValueDim: c.Latent, ValueIsKeyPrefix: true, ClusterDim: c.Latent}
	cache, err := kvcache.New(dev, []kvcache.Spec{spec}, rows+3)
	check(t, err)
	t.Cleanup(cache.Close)
	at := make([]int32, rows)
	for i := range at {
		at[i] = int32(i)
	}
	pos, k := ints(t, dev, at...), tensor(t, dev, slices.Concat(keys...), rows, 1, width)
	check(t, dev.Run(func(ops *device.Ops) { cache.Layers[0].Append(ops, k, nil, pos) }))
	check(t, cache.Freeze(c.N))
	var q []float64
	for h := range c.Heads {
		q = append(q, absorbed(f, h)...)
	}
	for i := range q {
		q[i] *= shrink
	}
	return &layerCase{
		dev: dev, cache: cache, heads: c.Heads, dv: len(latent[0]), scale: float32(c.Scale),
		q: tensor(t, dev, q, 1, c.Heads, width), pos: ints(t, dev, int32(rows-1)), out: tensor(t, dev, make([]float64, c.Heads*c.Latent), 1, c.Heads, c.Latent),
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

// The device's route, read and merge on the golden cases, with the teams that
// Build makes and the teams drawn that the goldens name.
func TestDeviceGolden(t *testing.T) {
	dev := open(t)
	for _, c := range goldenCases(t) {
		if c.Parents != "contiguous" {
			continue // its parents were given, and are not in the file; the estimator test has it
		}
		t.Run(c.Case, func(t *testing.T) {
			f := golden.Open(t, testdata+c.Case+".safetensors")
			var keys, values [][][]float64
			for kv := range c.KVHeads {
				keys, values = append(keys, f.Rows("K", kv)), append(values, f.Rows("V", kv))
			}
			l := fill(t, dev, f.Rows("Q"), keys, values, c.N, c.Scale)
			b, err := Build(context.Background(), dev, l.cache, Config{
				Config: teams.Config{ParentSize: c.P, Representatives: c.R}, Budget: c.S, Parents: teams.Contiguous, SampleAlways: true,
			}, nil)
			check(t, err)
			defer b.Close()
			s := newChain(t, l, b)
			checkDraw(t, f, c, l, s)
			checkRead(t, f, c, l, s)
			checkFused(t, l, s)
		})
	}
}

// checkDraw compares φ and, with noise that makes the perturbed scores those of
// the golden, the teams drawn.
func checkDraw(t *testing.T, f *golden.File, c goldenCase, l *layerCase, s *chain) {
	t.Helper()
	check(t, l.dev.Run(s.route))
	got, err := device.Read[float32](l.dev, s.Phi)
	check(t, err)
	most := s.Phi.Shape[2]
	shifted := slices.Clone(got)
	for h := range c.Heads {
		name := func(s string) string { return fmt.Sprintf("q%d.%s", h, s) }
		want, noise := f.Floats(name("phi")), f.Floats(name("gumbel"))
		golden.Near(t, name("phi"), golden.Float64s(got[h*most:h*most+len(want)]), want, tolerance(c)*scaleOf(want))
		for g := range want {
			shifted[h*most+g] = float32(want[g] + noise[g] - device.TeamGumbel([2]uint32{}, g, h, 0, int(last(t, l))))
		}
	}
	check(t, device.Write(l.dev, s.Phi, shifted))
	check(t, l.dev.Run(s.draw))
	drawn, err := device.Read[int32](l.dev, s.Teams)
	check(t, err)
	k := s.Teams.Shape[2]
	for h := range c.Heads {
		want := f.Int32s(fmt.Sprintf("q%d.selected", h))
		have := slices.Clone(drawn[h*k : h*k+len(want)])
		if c.KV[h/(c.Heads/c.KVHeads)].K == len(f.Floats(fmt.Sprintf("q%d.phi", h))) {
			slices.Sort(have) // all teams: the order is free
		}
		if !slices.Equal(have, want) {
			t.Errorf("head %d drew teams %v, want %v", h, have, want)
		}
	}
}

// checkRead compares the sums over the golden's teams, and the rows counted.
func checkRead(t *testing.T, f *golden.File, c goldenCase, l *layerCase, s *chain) {
	t.Helper()
	k := s.Teams.Shape[2]
	var sel []int32
	var logC []float32
	for h := range c.Heads {
		sel = append(sel, extended(f.Int32s(fmt.Sprintf("q%d.selected", h)), k, -1)...)
		logC = append(logC, extended(golden.Float32s(f.Floats(fmt.Sprintf("q%d.log_c", h))), k, 0)...)
	}
	check(t, device.Write(l.dev, s.Teams, sel))
	check(t, device.Write(l.dev, s.LogC, logC))
	s.clear(t, l.dev)
	check(t, l.dev.Run(s.read))
	out, err := device.Read[float32](l.dev, l.out)
	check(t, err)
	lse, err := device.Read[float32](l.dev, s.Prompt.LSE)
	check(t, err)
	for h := range c.Heads {
		want := f.Floats(fmt.Sprintf("q%d.out", h))
		golden.Near(t, fmt.Sprintf("q%d.out", h), golden.Float64s(out[h*c.DV:(h+1)*c.DV]), want, tolerance(c))
		golden.Near(t, fmt.Sprintf("q%d.lse", h), []float64{float64(lse[h])}, f.Floats(fmt.Sprintf("q%d.lse", h))[1:2], tolerance(c))
	}
	rows, err := device.Read[int64](l.dev, s.Counters())
	check(t, err)
	union := 0
	for _, kv := range c.KV {
		union += kv.Union
	}
	if got := s.Access(rows).Rows; int(got) != union {
		t.Errorf("read %d rows, the union of the heads has %d", got, union)
	}
}

// tolerance is what the goldens state for float32.
func tolerance(c goldenCase) float64 {
	if c.Case == "huge_logits" {
		return 5e-3
	}
	return 2e-4
}

// scaleOf relaxes an absolute tolerance for values far above 1, which carry a
// relative rounding error.
func scaleOf(x []float64) float64 {
	m := 1.0
	for _, v := range x {
		m = math.Max(m, math.Abs(v))
	}
	return m
}

func last(t testing.TB, l *layerCase) int32 {
	p, err := device.Read[int32](l.dev, l.pos)
	check(t, err)
	return p[0]
}

func tensor(t testing.TB, dev device.Device, values []float64, shape ...int) *device.Tensor {
	t.Helper()
	x, err := dev.New("test", device.F32, shape...)
	check(t, err)
	check(t, device.Write(dev, x, golden.Float32s(values)))
	return x
}

func ints(t testing.TB, dev device.Device, values ...int32) *device.Tensor {
	t.Helper()
	x, err := dev.New("test", device.I32, len(values))
	check(t, err)
	check(t, device.Write(dev, x, values))
	return x
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// extended is s with fill up to n entries.
func extended[T any](s []T, n int, fill T) []T {
	return append(s, slices.Repeat([]T{fill}, n-len(s))...)
}
