package santa

import (
	"math"
	"slices"
	"strings"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/attention/santapp"
	"blitzen/device"
	"blitzen/internal/attentiontest"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"
)

const testdata = "../../testdata/santa/"

// unbiased is one head, 96 prompt rows and a suffix; the suffix is drawn from,
// too.
func unbiased(t *testing.T) (*attentiontest.Layer, *golden.File) {
	return attentiontest.Single(t, modeltest.Host(t), testdata)
}

func build(t *testing.T, l *attentiontest.Layer, cfg Config) *Backend {
	t.Helper()
	b, err := New(l.Dev, l.Cache, cfg, l.Heads)
	attentiontest.Check(t, err)
	t.Cleanup(b.Close)
	return b
}

// The output itself is unbiased: its mean over seeds is near dense attention,
// for both ways to draw. Systematic draws vary less.
func TestUnbiased(t *testing.T) {
	l, f := unbiased(t)
	var spread [2]float64
	for i, systematic := range []bool{false, true} {
		b := build(t, l, Config{Budget: 8, Systematic: systematic})
		mean, variance := attentiontest.Moments(t, l.Dev, func(ops *device.Ops) { b.Attend(ops, l.Input()) }, b.Reseed,
			func() []float64 { return attentiontest.Floats(t, l.Dev, l.Out) })
		attentiontest.CheckMeans(t, mean, variance, dense(f))
		for _, v := range variance {
			spread[i] += v
		}
	}
	if spread[1] >= spread[0] {
		t.Errorf("variance %v with systematic draws, %v with independent ones", spread[1], spread[0])
	}
}

// dense is exact attention over all rows of the case.
func dense(f *golden.File) []float64 {
	values := f.Rows("V")
	out := make([]float64, len(values[0]))
	for i, p := range Probabilities(f.Floats("q"), f.Rows("K"), 0.25) {
		for j, v := range values[i] {
			out[j] += p * v
		}
	}
	return out
}

// off bounds how far float32 may take a mean of values from the one in float64.
// A score, of d products, is off by less than s = (d+2)·2⁻²⁴·R, R the largest
// a·Σ|q·k|, and a weight by the difference of two scores, the rounding of ln c,
// which is less than 2R + ln(rows·draws), and that of an exp; sums of so many terms
// by 2⁻²⁴ each; all of that twice, above and below the line of the ratio.
func off(q []float64, keys, values [][]float64, scale float64, draws int) float64 {
	reach, largest := attentiontest.Reach(q, keys, scale), 0.0
	for _, row := range values {
		for _, v := range row {
			largest = max(largest, math.Abs(v))
		}
	}
	logC := 2*reach + math.Log(float64(len(keys)*draws))
	return 2 * 0x1p-24 * largest * (2*float64(len(q)+2)*reach + logC + float64(draws) + 2)
}

// The device must draw the rows that the estimator draws with the same random
// numbers, and put out the mean of their values; of grouped heads it counts every
// key once and every distinct value.
func TestDevice(t *testing.T) {
	const kvHeads, draws, layer = 2, 40, 0
	l := attentiontest.Grouped(t, modeltest.Host(t), testdata)
	q, keys, values, n, scale := l.Queries, l.Keys, l.Values, l.Rows, l.Softmax
	for _, systematic := range []bool{false, true} {
		b := build(t, l.Layer, Config{Budget: draws, Systematic: systematic, Seed: 5<<32 | 3})
		attentiontest.Check(t, b.Observe(l.Cache, l.Heads))
		attentiontest.Check(t, l.Dev.Run(func(ops *device.Ops) { b.Attend(ops, l.Input()) }))
		got, err := device.Read[int32](l.Dev, b.rows[0])
		attentiontest.Check(t, err)
		out := attentiontest.Floats(t, l.Dev, l.Out)
		distinct := make([]map[int32]bool, kvHeads)
		for h := range l.Heads {
			kv := l.KeyHead(h)
			u := make([]float64, draws)
			for j := range u {
				word := func(j int) uint32 {
					return device.Philox([4]uint32{uint32(j) / 4, uint32(h), layer, uint32(len(keys[0]) - 1)}, [2]uint32{3, 5})[j%4]
				}
				u[j] = device.Uniform(word(j))
				if systematic {
					u[j] = (float64(j) + device.Uniform(word(0))) / draws
				}
			}
			rows := Draw(Probabilities(q[h], keys[kv], scale), u)
			if distinct[kv] == nil {
				distinct[kv] = map[int32]bool{}
			}
			for j, row := range rows {
				if int(got[h*draws+j]) != row {
					t.Errorf("head %d, draw %d is row %d, want %d", h, j, got[h*draws+j], row)
				}
				distinct[kv][int32(row)] = true
			}
			golden.Near(t, "mean", out[h*l.DV:(h+1)*l.DV], Mean(values[kv], rows), off(q[h], keys[kv], values[kv], scale, draws))
		}
		a := b.Access(l.Counts(t, b))
		if want := int64(len(distinct[0]) + len(distinct[1])); a.Values != want || a.Routed != int64(kvHeads*len(keys[0])) || a.Dense != a.Routed || a.Rows != 0 {
			t.Errorf("%+v: want %d values and every key", a, want)
		}
		read, err := b.RowsRead(0)
		attentiontest.Check(t, err)
		for kv, rows := range read {
			for row := range distinct[kv] {
				if slices.Contains(rows, row) != (int(row) < n) {
					t.Errorf("key head %d: row %d of %d is drawn, the prompt rows read are %v", kv, row, n, rows)
				}
			}
		}
	}
}

// SANTA++ with one key a team and no suffix draws first by SANTA's
// probabilities: softmax(φ) = p.
func TestOneKeyATeam(t *testing.T) {
	f := golden.Open(t, testdata+"unbiased.safetensors")
	q, keys := f.Floats("q"), f.Rows("K")
	sizes := slices.Repeat([]int{1}, len(keys))
	phi := santapp.Scores(q, keys, sizes, 0.25)
	sum := 0.0
	for _, x := range phi {
		sum += math.Exp(x)
	}
	for i, p := range Probabilities(q, keys, 0.25) {
		if math.Abs(math.Exp(phi[i])/sum-p) > 1e-14 {
			t.Errorf("row %d: softmax(φ) is %v, SANTA's probability %v", i, math.Exp(phi[i])/sum, p)
		}
	}
}

// Over a fine grid of random numbers every row is drawn in proportion to p: the
// expectation of one draw's value is dense attention.
func TestDrawIntegrates(t *testing.T) {
	const grid = 200_000
	p := []float64{0.125, 0, 0.5, 0.3, 0.075}
	u := make([]float64, grid)
	for j := range u {
		u[j] = (float64(j) + 0.5) / grid
	}
	counts := make([]float64, len(p))
	for _, row := range Draw(p, u) {
		counts[row]++
	}
	for i := range p {
		if math.Abs(counts[i]/grid-p[i]) > 1.0/grid {
			t.Errorf("row %d: %v of %d, want %v", i, counts[i], grid, p[i])
		}
	}
}

// A latent's value is the first part of its key.
func TestLatent(t *testing.T) {
	f := golden.Open(t, testdata+"mla.safetensors")
	latent := f.Rows("latent")
	var keys [][]float64
	for i, rotary := range f.Rows("k_pe") {
		keys = append(keys, slices.Concat(latent[i], rotary))
	}
	q := keys[:3]
	l := attentiontest.FillLatent(t, modeltest.Host(t), q, keys, len(latent[0]), len(keys), 0.01)
	b := build(t, l, Config{Budget: 4000, Systematic: true})
	attentiontest.Check(t, l.Dev.Run(func(ops *device.Ops) { b.Attend(ops, l.Input()) }))
	out := attentiontest.Floats(t, l.Dev, l.Out)
	for h := range q {
		want := make([]float64, l.DV)
		for i, p := range Probabilities(q[h], keys, 0.01) {
			for j := range want {
				want[j] += p * latent[i][j]
			}
		}
		// Each row is drawn to within 1 of 4,000 p times.
		golden.Near(t, "out", out[h*l.DV:(h+1)*l.DV], want, float64(len(keys))/4000)
	}
	a := b.Access(l.Counts(t, b))
	if a.Vectors != 1 || a.ValueBytes != int64(4*l.DV) || a.Percent() != 100*float64(a.Dense+a.Values)/float64(a.Dense) {
		t.Errorf("%+v, %v %%", a, a.Percent())
	}
	l.CheckThen(t, b)
}

// Layers that are to be attended exactly, or all of a short prompt, are what
// dense attention makes them, and count whole rows.
func TestExactly(t *testing.T) {
	l, f := unbiased(t)
	layers, err := sampled.ParseLayers("0")
	attentiontest.Check(t, err)
	for _, beyond := range []sampled.BeyondPaper{{DenseLayers: layers}, {MinContext: 97}} {
		b := build(t, l, Config{Budget: 8, BeyondPaper: beyond})
		attentiontest.Check(t, l.Dev.Run(func(ops *device.Ops) { b.Attend(ops, l.Input()) }))
		golden.Near(t, "out", attentiontest.Floats(t, l.Dev, l.Out), dense(f), off(f.Floats("q"), f.Rows("K"), f.Rows("V"), 0.25, len(f.Rows("K"))))
		rows := int64(len(f.Rows("K")))
		if a := b.Access(l.Counts(t, b)); a.Rows != rows || a.Dense != rows || a.Percent() != 100 {
			t.Errorf("%+v, want %d rows", a, rows)
		}
		l.CheckThen(t, b)
	}
	layers, err = sampled.ParseLayers("1")
	attentiontest.Check(t, err)
	if _, err := New(l.Dev, l.Cache, Config{Budget: 8, BeyondPaper: sampled.BeyondPaper{DenseLayers: layers}}, 1); err == nil || !strings.Contains(err.Error(), "--dense-layers 1: the model has layers 0 to 0") {
		t.Error(err)
	}
}

func TestRefuses(t *testing.T) {
	dev := modeltest.Host(t)
	c, err := kvcache.New(dev, []kvcache.Spec{{KVHeads: 1, KeyDim: 8, ValueDim: 8}}, 4)
	attentiontest.Check(t, err)
	defer c.Close()
	if _, err := New(dev, c, Config{}, 1); err == nil || !strings.Contains(err.Error(), "--budget 0: must be at least 1") {
		t.Error(err)
	}
}
