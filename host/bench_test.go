package host

import (
	"fmt"
	"syscall"
	"testing"

	"blitzen/device"
)

// setup makes tensors for a benchmark.
type setup struct {
	b    *testing.B
	d    device.Device
	rand maker
}

func newSetup(b *testing.B) *setup { return newSetupWith(b, Options{}) }

func newSetupWith(b *testing.B, opts Options) *setup {
	d := open(b, opts)
	return &setup{b, d, normals(b, d)}
}

func (s *setup) floats(shape ...int) *device.Tensor { return s.rand(1, shape...) }

func (s *setup) ints(values ...int32) *device.Tensor { return ints(s.b, s.d, values...) }

// time runs one operation repeatedly and reports work (1e9 a second) under
// unit.
func (s *setup) time(work float64, unit string, fn func(*device.Ops)) {
	step, err := s.d.Record(fn)
	if err != nil {
		s.b.Fatal(err)
	}
	defer step.Close()
	before := cpuTime(s.b)
	for s.b.Loop() {
		if err := step.Run(); err != nil {
			s.b.Fatal(err)
		}
	}
	s.b.ReportMetric(work*float64(s.b.N)/s.b.Elapsed().Seconds()/1e9, unit)
	// On a shared machine the processor time says more than the clock.
	s.b.ReportMetric((cpuTime(s.b)-before)*1e6/float64(s.b.N), "cpu-us/op")
}

func cpuTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func BenchmarkLinear(b *testing.B) {
	for _, c := range [][3]int{{512, 384, 1024}, {512, 384, 2048}, {512, 1024, 384}, {16, 384, 1024}, {1, 384, 4096}, {1, 3584, 18944}} {
		for _, products := range []Products{ProductsGoMLX, ProductsC} {
			name := map[Products]string{ProductsGoMLX: "gomlx", ProductsC: "c"}[products]
			b.Run(fmt.Sprintf("%v/%s", c, name), func(b *testing.B) {
				s := newSetupWith(b, Options{Products: products})
				x, w, dst := s.floats(c[0], c[1]), s.floats(c[2], c[1]), s.floats(c[0], c[2])
				work, unit := 2*float64(c[0]*c[1]*c[2]), "GFLOP/s"
				if c[0] == 1 {
					work, unit = 4*float64(c[1]*c[2]), "GB/s"
				}
				s.time(work, unit, func(o *device.Ops) { o.Linear(dst, x, device.Weight{Parts: []*device.Tensor{w}}) })
			})
		}
	}
}

// attendBench is attention of the last tokens of rows.
func attendBench(b *testing.B, tokens, heads, kv, dk, dv, rows int) {
	s := newSetup(b)
	pos := make([]int32, tokens)
	for i := range pos {
		pos[i] = int32(rows - tokens + i)
	}
	a := device.AttendArgs{
		Out:   device.Partial{Out: s.floats(tokens, heads, dv)},
		Q:     s.floats(tokens, heads, dk),
		K:     s.floats(kv, rows, dk),
		Pos:   s.ints(pos...),
		Scale: 0.125,
	}
	a.V = a.K.Slice(2, 0, dv)
	if dv == dk {
		a.V = s.floats(kv, rows, dv)
	}
	work, unit := 2*float64(tokens*heads*(dk+dv)*(rows-tokens/2)), "GFLOP/s"
	if tokens == 1 {
		work, unit = 4*float64(kv*(dk+dv)*rows), "GB/s"
	}
	s.time(work, unit, func(o *device.Ops) { o.Attend(a) })
}

func BenchmarkAttendPrefill(b *testing.B) {
	b.Run("gqa", func(b *testing.B) { attendBench(b, 512, 6, 2, 64, 64, 4096) })
	b.Run("d128", func(b *testing.B) { attendBench(b, 512, 28, 4, 128, 128, 4096) })
	b.Run("mla", func(b *testing.B) { attendBench(b, 63, 16, 1, 576, 512, 4096) })
}

func BenchmarkAttendDecode(b *testing.B) {
	b.Run("gqa4k", func(b *testing.B) { attendBench(b, 1, 6, 2, 64, 64, 4096) })
	b.Run("gqa64k", func(b *testing.B) { attendBench(b, 1, 28, 4, 128, 128, 65536) })
	b.Run("mla32k", func(b *testing.B) { attendBench(b, 1, 16, 1, 576, 512, 32768) })
}

func BenchmarkSelected(b *testing.B) {
	s := newSetup(b)
	const heads, kv, teams, k, d, rows = 6, 2, 1024, 64, 64, 4096
	var offsets []int32
	for range kv {
		for g := range teams + 1 {
			offsets = append(offsets, int32(g*rows/teams))
		}
	}
	phi, q, reps, bias := s.floats(1, heads, teams), s.floats(1, heads, d), s.floats(kv, teams, d), s.floats(kv, teams)
	ids, err := s.d.New("teams", device.I32, 1, heads, k)
	if err != nil {
		b.Fatal(err)
	}
	seed, err := s.d.New("seed", device.U32, 2)
	if err != nil {
		b.Fatal(err)
	}
	logC, keys, values, pos := s.floats(1, heads, k), s.floats(kv, rows, d), s.floats(kv, rows, d), s.ints(4096)
	off := s.ints(offsets...).Unflatten(0, kv, teams+1)
	out := device.Partial{Out: s.floats(1, heads, d), LSE: s.floats(1, heads)}
	route := func(o *device.Ops) { o.Route(device.RouteArgs{Phi: phi, Q: q, Reps: reps, Bias: bias, Scale: 0.125}) }
	sample := func(o *device.Ops) {
		o.SampleTopK(device.TopKArgs{Teams: ids, LogC: logC, Phi: phi, Draw: device.Draw{Seed: seed, Pos: pos}})
	}
	attend := func(o *device.Ops) {
		o.AttendSelected(device.SelectedArgs{
			Out: out, Q: q, K: keys, V: values, Offsets: off, Teams: ids, LogC: logC, Scale: 0.125,
		})
	}
	b.Run("route", func(b *testing.B) { s.b = b; s.time(kv*teams*d*4, "GB/s", route) })
	b.Run("sample", func(b *testing.B) { s.b = b; s.time(heads*teams, "Gteam/s", sample) })
	b.Run("attend", func(b *testing.B) { s.b = b; s.time(1, "Gstep/s", attend) })
}

func BenchmarkCluster(b *testing.B) {
	s := newSetup(b)
	x, centers, labels := s.floats(1, 4096, 64), s.floats(1, 256, 64), s.ints(make([]int32, 4096)...).Unflatten(0, 1, 4096)
	s.time(2*4096*256*64, "GFLOP/s", func(o *device.Ops) {
		o.Nearest(device.NearestArgs{Labels: labels, X: device.RowSets{x}, Centers: centers})
	})
}

func BenchmarkElementwise(b *testing.B) {
	s := newSetup(b)
	x, y, g := s.floats(512, 384), s.floats(512, 384), s.floats(384)
	gu, act := s.floats(512, 2048), s.floats(512, 1024)
	q, pos, freq := s.floats(512, 6, 64), s.ints(make([]int32, 512)...), s.floats(32)
	b.Run("rmsnorm", func(b *testing.B) {
		s.b = b
		s.time(512*384, "Gelement/s", func(o *device.Ops) { o.RMSNorm(y, x, g, 1e-6) })
	})
	b.Run("swiglu", func(b *testing.B) {
		s.b = b
		s.time(512*1024, "Gelement/s", func(o *device.Ops) { o.SwiGLU(act, gu) })
	})
	b.Run("rotate", func(b *testing.B) {
		s.b = b
		s.time(512*384, "Gelement/s", func(o *device.Ops) { o.Rotate(q, pos, device.RoPE{InvFreq: freq, Scale: 1}) })
	})
}

func BenchmarkSample(b *testing.B) {
	s := newSetup(b)
	logits, seen := s.floats(152064), s.ints(make([]int32, 152064)...)
	id, pos := s.ints(0), s.ints(7)
	seed, err := s.d.New("seed", device.U32, 2)
	if err != nil {
		b.Fatal(err)
	}
	settings := s.floats(device.NumSettings)
	a := device.SampleArgs{ID: id, Logits: logits, Seen: seen, Settings: settings, Seed: seed, Pos: pos}
	for name, set := range map[string][]float32{"greedy": {0, 0, 1, 0, 1}, "top-p": {0.7, 20, 0.8, 0, 1.05}} {
		b.Run(name, func(b *testing.B) {
			s.b = b
			if err := device.Write(s.d, settings, set); err != nil {
				b.Fatal(err)
			}
			s.time(152064, "Gtoken/s", func(o *device.Ops) { o.Sample(a) })
		})
	}
	ids, probs, chosen := s.ints(make([]int32, 5)...), s.floats(5), s.floats(1)
	b.Run("logprobs", func(b *testing.B) {
		s.b = b
		s.time(152064, "Gtoken/s", func(o *device.Ops) {
			o.TopLogProbs(device.LogProbArgs{IDs: ids, LogProbs: probs, Chosen: chosen, Logits: logits, ID: id})
		})
	})
}
