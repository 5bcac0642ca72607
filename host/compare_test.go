package host

import (
	"math"
	"math/rand/v2"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

// bench makes tensors with the same contents on any device.
type world struct {
	t *testing.T
	d device.Device
	r *rand.Rand
}

func newWorld(t *testing.T, d device.Device) *world {
	return &world{t, d, rand.New(rand.NewPCG(1, 2))}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", w.d.Name(), err)
	}
}

// normal is a tensor of normal variates; with pad > 0 a view of a tensor with longer rows.
func (w *world) normal(pad int, shape ...int) *device.Tensor {
	w.t.Helper()
	whole := append([]int(nil), shape...)
	last := len(shape) - 1
	whole[last] += pad
	x, err := w.d.New("x", device.F32, whole...)
	w.must(err)
	values := make([]float32, x.Len())
	for i := range values {
		values[i] = float32(w.r.NormFloat64())
	}
	w.must(device.Write(w.d, x, values))
	return x.Slice(last, 0, shape[last])
}

func (w *world) ints(values ...int32) *device.Tensor {
	x, err := w.d.New("i", device.I32, len(values))
	w.must(err)
	w.must(device.Write(w.d, x, values))
	return x
}

func (w *world) floats(x *device.Tensor) []float64 {
	w.t.Helper()
	whole, err := w.d.New("copy", x.DType, x.Shape...)
	w.must(err)
	w.must(w.d.Run(func(o *device.Ops) { o.Copy(whole, x) }))
	var out []float64
	if x.DType == device.F32 {
		v, err := device.Read[float32](w.d, whole)
		w.must(err)
		for _, f := range v {
			out = append(out, float64(f))
		}
	} else {
		v, err := device.Read[int32](w.d, whole)
		w.must(err)
		for _, f := range v {
			out = append(out, float64(f))
		}
	}
	return out
}

// same runs f on the reference and on the CPU and compares what it returns.
func same(t *testing.T, tolerance float64, f func(w *world, o *device.Ops) []*device.Tensor) {
	t.Helper()
	cpu, err := New(Options{Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer cpu.Close()
	var got [2][][]float64
	for i, d := range []device.Device{devicetest.NewReference(), cpu} {
		w := newWorld(t, d)
		var out []*device.Tensor
		w.must(d.Run(func(o *device.Ops) { out = f(w, o) }))
		for _, x := range out {
			got[i] = append(got[i], w.floats(x))
		}
	}
	for i := range got[0] {
		worst, scale := 0.0, 0.0
		for j, want := range got[0][i] {
			x := got[1][i][j]
			if x != want && !(math.IsNaN(x) && math.IsNaN(want)) {
				worst = max(worst, math.Abs(x-want))
				if math.IsNaN(x - want) {
					worst = math.Inf(1)
				}
			}
			if !math.IsInf(want, 0) && !math.IsNaN(want) {
				scale = max(scale, math.Abs(want))
			}
		}
		if worst > tolerance*scale {
			t.Errorf("output %d differs by %g of %g", i, worst, scale)
		}
	}
}

func TestProducts(t *testing.T) {
	for _, s := range [][3]int{{1, 5, 7}, {3, 64, 33}, {17, 100, 130}, {70, 384, 257}} {
		same(t, 1e-5, func(w *world, o *device.Ops) []*device.Tensor {
			x, dst := w.normal(3, s[0], s[1]), w.normal(5, s[0], s[2]+4)
			we := device.Weight{Parts: []*device.Tensor{w.normal(0, s[2], s[1]), w.normal(0, 4, s[1])}, Bias: []*device.Tensor{w.normal(0, s[2]), w.normal(0, 4)}}
			o.LinearAdd(dst, x, we)
			d2 := w.normal(5, s[0], s[2]+4)
			o.Linear(d2, x, device.Weight{Parts: we.Parts})
			x3, d3, d4 := w.normal(0, s[0], 3, s[1]), w.normal(0, s[0], 3, s[2]), w.normal(0, s[0], 3, s[2])
			o.HeadLinear(d3, x3, w.normal(0, 3, s[2], s[1]), false)
			o.HeadLinear(d4, x3, w.normal(0, 3, s[1], s[2]), true)
			return []*device.Tensor{dst, d2, d3, d4}
		})
	}
}

func TestElementwise(t *testing.T) {
	same(t, 1e-6, func(w *world, o *device.Ops) []*device.Tensor {
		e := w.normal(1, 5, 33)
		o.Embed(e, w.normal(0, 40, 33), w.ints(3, 39, 0, 3, 7))
		n := w.normal(1, 5, 33)
		o.RMSNorm(n, w.normal(0, 5, 33), w.normal(0, 33), 1e-6)
		r1, r2 := w.normal(0, 5, 2, 20), w.normal(0, 5, 2, 20)
		rope := device.RoPE{InvFreq: w.normal(0, 10), Scale: 1.3}
		o.Rotate(r1, w.ints(0, 1, 50, 3, 131071), rope)
		rope.Pairing = device.Interleaved
		o.Rotate(r2, w.ints(0, 1, 50, 3, 9999), rope)
		s := w.normal(0, 5, 37)
		o.SwiGLU(s, w.normal(1, 5, 74))
		c := w.normal(0, 3, 4, 5)
		o.Copy(c, w.normal(0, 4, 3, 5).Transpose(0, 1))
		c2 := w.normal(0, 3, 4, 5)
		o.Copy(c2, w.normal(0, 3, 5).Repeat(1, 4))
		p, p2 := w.normal(0, 1, 9, 5), w.normal(0, 1, 9, 5)
		order := w.ints(3, 1, 0, 2, 6, 4, 5).Unflatten(0, 1, 7)
		o.PermuteRows(p, order, false)
		o.PermuteRows(p2, order, true)
		a := w.normal(0, 2, 9, 5)
		o.Append(a, w.normal(0, 3, 2, 5), w.ints(2, 8, 0), w.ints(5, 4, 3, 7, 6, 5).Unflatten(0, 2, 3))
		return []*device.Tensor{e, n, r1, r2, s, c, c2, p, p2, a}
	})
}

func TestAttention(t *testing.T) {
	for _, s := range []struct{ tokens, heads, kv, dk, dv, rows int }{{1, 6, 2, 64, 64, 700}, {3, 4, 1, 40, 24, 300}, {70, 6, 2, 64, 64, 200}, {33, 5, 1, 37, 19, 129}} {
		same(t, 2e-6, func(w *world, o *device.Ops) []*device.Tensor {
			pos := make([]int32, s.tokens)
			for i := range pos {
				pos[i] = int32(s.rows - s.tokens + i)
			}
			k, v := w.normal(0, s.kv, s.rows, s.dk), w.normal(0, s.kv, s.rows, s.dv)
			q := w.normal(0, s.tokens, s.heads, s.dk)
			var ps []device.Partial
			for _, from := range []int32{0, 5, int32(s.rows), int32(s.rows - 20)} {
				p := device.Partial{Out: w.normal(0, s.tokens, s.heads, s.dv), LSE: w.normal(2, s.tokens, s.heads)}
				ps = append(ps, p)
				o.Attend(device.AttendArgs{Out: p, Q: q, K: k, V: v, From: w.ints(from), Pos: w.ints(pos...), Scale: 0.3})
			}
			m, m2 := w.normal(0, s.tokens, s.heads, s.dv), w.normal(0, s.tokens, s.heads, s.dv)
			o.Merge(m, ps[0], ps[3])
			o.Merge(m2, ps[2], ps[2])
			return []*device.Tensor{ps[0].Out, ps[0].LSE, ps[1].Out, ps[1].LSE, ps[2].Out, ps[2].LSE, ps[3].Out, ps[3].LSE, m, m2}
		})
	}
}

func TestSelection(t *testing.T) {
	same(t, 3e-6, func(w *world, o *device.Ops) []*device.Tensor {
		const tokens, heads, kv, teams, k, rows = 2, 6, 2, 100, 9, 400
		q, bias := w.normal(0, tokens, heads, 64), w.normal(0, kv, teams)
		phi := w.normal(0, tokens, heads, teams)
		o.Route(device.RouteArgs{Phi: phi, Q: q, Reps: w.normal(0, kv, teams, 64), Bias: bias, Scale: 0.125})
		ids, _ := w.d.New("ids", device.I32, tokens, heads, k)
		logc := w.normal(0, tokens, heads, k)
		seed, _ := w.d.New("seed", device.U32, 2)
		o.SampleTopK(device.TopKArgs{Teams: ids, LogC: logc, Phi: phi, Draw: device.Draw{Seed: seed, Layer: 3, Pos: w.ints(5, 6)}})
		off := make([]int32, 0, 202)
		for range kv {
			for g := range teams + 1 {
				off = append(off, int32(g*4))
			}
		}
		p := device.Partial{Out: w.normal(0, tokens, heads, 64), LSE: w.normal(0, tokens, heads)}
		o.AttendSelected(device.SelectedArgs{Out: p, Q: q, K: w.normal(0, kv, rows, 64), V: w.normal(0, kv, rows, 64), Offsets: w.ints(off...).Unflatten(0, kv, teams+1),
			Teams: ids, LogC: logc, Scale: 0.125})
		x, pts := w.normal(0, 50, 33), w.normal(0, 7, 33)
		dist := w.normal(0, 7, 50)
		o.Distances(dist, x, pts)
		labels := w.ints(make([]int32, 50)...)
		o.Nearest(labels, x, pts)
		return []*device.Tensor{phi, ids, logc, p.Out, p.LSE, dist, labels}
	})
}

func TestExperts(t *testing.T) {
	same(t, 1e-5, func(w *world, o *device.Ops) []*device.Tensor {
		x := w.normal(0, 9, 40)
		ids, _ := w.d.New("ids", device.I32, 9, 3)
		wt := w.normal(0, 9, 3)
		o.Router(device.RouterArgs{IDs: ids, Weights: wt, X: x, Gate: w.normal(0, 8, 40), Groups: 2, TopGroups: 1, Scale: 2})
		var es []device.Expert
		for range 8 {
			es = append(es, device.Expert{GateUp: device.Weight{Parts: []*device.Tensor{w.normal(0, 20, 40), w.normal(0, 20, 40)}}, Down: device.Weight{Parts: []*device.Tensor{w.normal(0, 40, 20)}}})
		}
		dst := w.normal(0, 9, 40)
		o.Experts(device.ExpertsArgs{Dst: dst, X: x, IDs: ids, Weights: wt, Experts: es})
		return []*device.Tensor{ids, wt, dst}
	})
}
