package santapp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/host"
	"blitzen/internal/attentiontest"
	"blitzen/internal/golden"
	"blitzen/teams"
)

func open(t testing.TB) device.Device {
	t.Helper()
	dev, err := host.New(host.Options{CheckReplay: true})
	attentiontest.Check(t, err)
	t.Cleanup(func() { dev.Close() })
	return dev
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
			b, err := Build(context.Background(), dev, l.Cache, Config{
				Config: teams.Config{ParentSize: c.P, Representatives: c.R}, Budget: c.S, Parents: teams.Contiguous, SampleAlways: true,
			}, nil)
			attentiontest.Check(t, err)
			defer b.Close()
			var sel []int32
			var logC []float32
			for h := range c.Heads {
				sel = append(sel, f.Int32s(fmt.Sprintf("q%d.selected", h))...)
				logC = append(logC, golden.Float32s(f.Floats(fmt.Sprintf("q%d.log_c", h)))...)
			}
			s := attentiontest.NewChain(t, l, b)
			attentiontest.Check(t, device.Write(dev, s.Teams, sel))
			attentiontest.Check(t, device.Write(dev, s.LogC, logC))
			attentiontest.Check(t, dev.Run(func(ops *device.Ops) {
				s.Route(ops)
				s.Read(ops)
			}))
			phi, err := device.Read[float32](dev, s.Phi)
			attentiontest.Check(t, err)
			out, err := device.Read[float32](dev, l.Out)
			attentiontest.Check(t, err)
			keys, latent := latentKeys(f)
			for h := range c.Heads {
				off := attentiontest.NewRounding(absorbed(f, h), keys, latent, c.Scale, largestBias(f, h, c.N))
				m := s.Phi.Shape[2]
				golden.Near(t, fmt.Sprintf("q%d.phi", h), golden.Float64s(phi[h*m:(h+1)*m]), f.Floats(fmt.Sprintf("q%d.phi", h)), off.Score)
				golden.Near(t, fmt.Sprintf("q%d.out_latent", h), golden.Float64s(out[h*c.Latent:(h+1)*c.Latent]), f.Floats(fmt.Sprintf("q%d.out_latent", h)), off.Output)
			}
		})
	}
}

// fillLatent is the layer of a latent case: queries in absorbed form, times
// shrink.
func fillLatent(t testing.TB, dev device.Device, f *golden.File, c latentCase, shrink float64) *attentiontest.Layer {
	t.Helper()
	keys, _ := latentKeys(f)
	var q [][]float64
	for h := range c.Heads {
		q = append(q, absorbed(f, h))
		for i := range q[h] {
			q[h][i] *= shrink
		}
	}
	return attentiontest.FillLatent(t, dev, q, keys, c.Latent, c.N, c.Scale)
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
			l := attentiontest.Fill(t, dev, f.Rows("Q"), keys, values, c.N, c.Scale)
			b, err := Build(context.Background(), dev, l.Cache, Config{
				Config: teams.Config{ParentSize: c.P, Representatives: c.R}, Budget: c.S, Parents: teams.Contiguous, SampleAlways: true,
			}, nil)
			attentiontest.Check(t, err)
			defer b.Close()
			s := attentiontest.NewChain(t, l, b)
			checkDraw(t, f, c, l, s)
			checkRead(t, f, c, l, s)
			s.CheckFused(t)
		})
	}
}

// checkDraw compares φ and, with noise that makes the perturbed scores those of
// the golden, the teams drawn.
func checkDraw(t *testing.T, f *golden.File, c goldenCase, l *attentiontest.Layer, s *attentiontest.Chain) {
	t.Helper()
	attentiontest.Check(t, l.Dev.Run(s.Route))
	got, err := device.Read[float32](l.Dev, s.Phi)
	attentiontest.Check(t, err)
	most := s.Phi.Shape[2]
	shifted := slices.Clone(got)
	for h := range c.Heads {
		name := func(s string) string { return fmt.Sprintf("q%d.%s", h, s) }
		want, noise := f.Floats(name("phi")), f.Floats(name("gumbel"))
		golden.Near(t, name("phi"), golden.Float64s(got[h*most:h*most+len(want)]), want, rounding(f, c, h).Score)
		for g := range want {
			shifted[h*most+g] = float32(want[g] + noise[g] - device.TeamGumbel([2]uint32{}, g, h, 0, int(position(t, l))))
		}
	}
	attentiontest.Check(t, device.Write(l.Dev, s.Phi, shifted))
	attentiontest.Check(t, l.Dev.Run(s.Draw))
	drawn, err := device.Read[int32](l.Dev, s.Teams)
	attentiontest.Check(t, err)
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
func checkRead(t *testing.T, f *golden.File, c goldenCase, l *attentiontest.Layer, s *attentiontest.Chain) {
	t.Helper()
	k := s.Teams.Shape[2]
	var sel []int32
	var logC []float32
	for h := range c.Heads {
		sel = append(sel, extended(f.Int32s(fmt.Sprintf("q%d.selected", h)), k, -1)...)
		logC = append(logC, extended(golden.Float32s(f.Floats(fmt.Sprintf("q%d.log_c", h))), k, 0)...)
	}
	attentiontest.Check(t, device.Write(l.Dev, s.Teams, sel))
	attentiontest.Check(t, device.Write(l.Dev, s.LogC, logC))
	l.Clear(t, s)
	attentiontest.Check(t, l.Dev.Run(s.Read))
	out, err := device.Read[float32](l.Dev, l.Out)
	attentiontest.Check(t, err)
	lse, err := device.Read[float32](l.Dev, s.Prompt.LSE)
	attentiontest.Check(t, err)
	for h := range c.Heads {
		off := rounding(f, c, h)
		golden.Near(t, fmt.Sprintf("q%d.out", h), golden.Float64s(out[h*c.DV:(h+1)*c.DV]), f.Floats(fmt.Sprintf("q%d.out", h)), off.Output)
		golden.Near(t, fmt.Sprintf("q%d.lse", h), []float64{float64(lse[h])}, f.Floats(fmt.Sprintf("q%d.lse", h))[1:2], off.Mass)
	}
	rows, err := device.Read[int64](l.Dev, s.Counters())
	attentiontest.Check(t, err)
	union := 0
	for _, kv := range c.KV {
		union += kv.Union
	}
	if got := s.Access(rows).Rows; int(got) != union {
		t.Errorf("read %d rows, the union of the heads has %d", got, union)
	}
}

// rounding is that of a query head of a case.
func rounding(f *golden.File, c goldenCase, h int) attentiontest.Rounding {
	kv := h / (c.Heads / c.KVHeads)
	return attentiontest.NewRounding(f.Rows("Q")[h], f.Rows("K", kv), f.Rows("V", kv), c.Scale, largestBias(f, h, c.N))
}

// largestBias is the largest of what is added to scores: the ln c of a head, and ln n,
// which is at most that of all rows.
func largestBias(f *golden.File, h, rows int) float64 {
	bias := math.Log(float64(rows))
	for _, c := range f.Floats(fmt.Sprintf("q%d.log_c", h)) {
		bias = max(bias, math.Abs(c))
	}
	return bias
}

func position(t testing.TB, l *attentiontest.Layer) int32 {
	p, err := device.Read[int32](l.Dev, l.Pos)
	attentiontest.Check(t, err)
	return p[0]
}

// extended is s with fill up to n entries.
func extended[T any](s []T, n int, fill T) []T {
	return append(s, slices.Repeat([]T{fill}, n-len(s))...)
}
