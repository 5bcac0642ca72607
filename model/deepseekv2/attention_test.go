package deepseekv2

import (
	"math/rand/v2"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/model"
	"blitzen/weights"
)

func open(t *testing.T, dev device.Device, dir string, rows int) *Model {
	t.Helper()
	cfg, err := ReadConfig(modeltest.Fields(t, dir, "config.json"))
	modeltest.Check(t, err)
	return modeltest.Load(t, dir, func(ck *weights.Checkpoint) (*Model, error) { return Load(dev, ck, cfg, model.Options{Rows: rows}) })
}

// watch is a backend that notes how many key heads each call had: 1 absorbed,
// more expanded.
type watch struct {
	attention.Backend
	heads []int
}

func (w *watch) Attend(ops *device.Ops, in attention.Input) {
	w.heads = append(w.heads, in.K.Shape[0])
	w.Backend.Attend(ops, in)
}

// run returns the logits and the key heads of each attention call.
func run(t *testing.T, dev device.Device, m *Model, ids []int32, p modeltest.Prefill) ([]float64, []int) {
	t.Helper()
	w := &watch{}
	p.Wrap = func(b attention.Backend) attention.Backend { w.Backend = b; return w }
	logits, _ := p.Run(t, dev, m, ids)
	return logits, w.heads
}

// Both forms are the same sums in another order.
func TestFormsAgree(t *testing.T) {
	for _, name := range []string{"dsv2_lite", "dsv2_group", "dsv2_norm_norope"} {
		dir := "../../testdata/models/" + name
		ids := golden.Open(t, dir+"/golden.safetensors").Int32s("p2.input_ids")
		dev := modeltest.Host(t)
		m := open(t, dev, dir, 256)
		want, heads := run(t, dev, m, ids, modeltest.Prefill{Chunk: 200, HideRows: true})
		if !allAre(heads, 1) {
			t.Errorf("%s: without a known start the key heads are %v, want 1", name, heads)
		}
		for _, chunk := range []int{64, 70, 100, 200} {
			whole := len(ids) / chunk * chunk // the rest is short, and absorbed
			got, heads := run(t, dev, m, ids, modeltest.Prefill{Chunk: chunk})
			golden.Near(t, name, got, want, modeltest.Rounding(m, modeltest.Terms, want))
			if calls := whole / chunk * m.cfg.Layers; !allAre(heads[:calls], m.cfg.Heads) || !allAre(heads[calls:], 1) {
				t.Errorf("%s in chunks of %d: the key heads are %v", name, chunk, heads)
			}
		}
	}
}

// With little scratch the heads are expanded a few at a time, then not at all.
func TestExpandInPasses(t *testing.T) {
	dev := modeltest.Host(t)
	m := open(t, dev, "../../testdata/models/dsv2_lite", 256)
	ids := random(200, m.cfg.Vocab)
	want, _ := run(t, dev, m, ids, modeltest.Prefill{Chunk: 200})
	whole := m.expanded
	for _, c := range []struct{ fit, heads, calls int }{{4, 4, 1}, {3, 2, 2}, {2, 2, 2}, {1, 1, 4}, {0, 1, 1}} {
		m.expanded = whole.Slice(0, 0, c.fit*200*m.cfg.headWidth()+5)
		got, heads := run(t, dev, m, ids, modeltest.Prefill{Chunk: 200})
		golden.Near(t, "logits", got, want, modeltest.Rounding(m, modeltest.Terms, want))
		if len(heads) != c.calls*m.cfg.Layers || !allAre(heads, c.heads) {
			t.Errorf("%d heads fit: got calls of %v heads, want %d of %d a layer", c.fit, heads, c.calls, c.heads)
		}
	}
}

// More than 2,048 rows at once, and numbers of rows that are no multiple of 64.
func TestManyRows(t *testing.T) {
	dev := modeltest.Host(t)
	m := open(t, dev, "../../testdata/models/dsv2_lite", 2200)
	ids := random(2181, m.cfg.Vocab)
	want, _ := run(t, dev, m, ids, modeltest.Prefill{Chunk: 2200, HideRows: true})
	for _, chunk := range []int{2200, 2049, 333} {
		got, _ := run(t, dev, m, ids, modeltest.Prefill{Chunk: chunk})
		golden.Near(t, "logits", got, want, modeltest.Rounding(m, len(ids), want))
	}
}

// The break-even of V2-Lite lies at 512·256/(1024 − 256) = 171 tokens for long
// contexts; the first chunk always gains.
func TestExpands(t *testing.T) {
	c := Config{LatentRank: 512, NopeDim: 128, RopeDim: 64, ValueDim: 128}
	c.Heads = 16
	scratch := device.NewTensor("expanded", device.F32, nil, expandRows*c.Heads*c.headWidth())
	m := &Model{cfg: c, expanded: scratch}
	for _, q := range []struct {
		tokens, start int
		want          bool
	}{
		{512, -512, false}, {63, 0, false}, {64, 0, true}, {512, 0, true},
		{170, 100_000, false}, {171, 100_000, true}, {512, 32_256, true}, {64, 64, false}, {150, 150, true},
		{512, 8192*16 - 512, true}, {512, 8192*16 - 511, false},
	} {
		in := model.Batch{IDs: device.NewTensor("ids", device.I32, nil, q.tokens), Rows: q.start + q.tokens}
		if got := m.expands(in); got != q.want {
			t.Errorf("%d tokens at %d: %v, want %v", q.tokens, q.start, got, q.want)
		}
	}
}

func random(n, vocab int) []int32 {
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(int32(vocab))
	}
	return ids
}

func allAre(x []int, want int) bool {
	return !slices.ContainsFunc(x, func(v int) bool { return v != want })
}
