package comparison_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/attention/santapp"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/eval/comparison"
	"blitzen/eval/divergence"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/internal/modeltest/checkpoint"
	"blitzen/kvcache"
	"blitzen/sample"
	"blitzen/teams"
)

const (
	needle = "../../models/needle-qwen2"
	length = 300 // of the prompt
	steps  = 12
)

// read is a session that has read a prompt of the trained checkpoint, some
// tokens at a time; 0 for the model's choice.
func read(t *testing.T, chunk int) comparison.Prompt {
	t.Helper()
	dev := modeltest.Host(t)
	m := checkpoint.Open(t, dev, needle, 512)
	s, err := decode.New(dev, m, decode.Options{Capacity: length + steps, Sampling: sample.Greedy(), Chunk: chunk})
	modeltest.Check(t, err)
	t.Cleanup(s.Close)
	ids := golden.Open(t, "../../testdata/needle-qwen2/golden.safetensors").Int32s("0.input_ids")[:length]
	modeltest.Check(t, s.Prefill(context.Background(), ids, nil))
	return comparison.Prompt{Session: s, Device: dev, Model: m}
}

func sampled(dev device.Device, budget int, always bool) comparison.Build {
	return func(c *kvcache.Cache) (attention.Backend, error) {
		return santapp.Build(context.Background(), dev, c, santapp.Config{
			Config: teams.Config{ParentSize: 16, Representatives: 4}, Budget: budget, Seed: 3, SampleAlways: always,
		}, nil)
	}
}

// base is dense attention along its own tokens.
func base(t *testing.T, p comparison.Prompt) comparison.Trajectory {
	t.Helper()
	modeltest.Check(t, p.Session.Build(modeltest.Dense(p.Device, p.Model)))
	var ids []int32
	for range steps {
		token, err := p.Session.Next(context.Background())
		modeltest.Check(t, err)
		ids = append(ids, token.ID)
	}
	c, err := p.Record(context.Background(), modeltest.Dense(p.Device, p.Model), ids)
	modeltest.Check(t, err)
	if len(c.Logits) != steps {
		t.Fatalf("%d steps", len(c.Logits))
	}
	return c
}

// apart is a method's summary and output errors against the base.
func apart(t *testing.T, p comparison.Prompt, b comparison.Build, base comparison.Trajectory) (divergence.Summary, []float64) {
	t.Helper()
	s, err := p.Divergence(context.Background(), b, base)
	modeltest.Check(t, err)
	e, err := p.OutputErrors(context.Background(), b, base)
	modeltest.Check(t, err)
	return divergence.Summarize(s), e
}

// Exact attention again, or a budget over all teams, is identical. With every
// team drawn all the same the sums go in another order: float32 outputs are off
// by less than 300·2⁻²⁴ < 2e-5, logits by less than 1e-4 of the largest
// (modeltest.Rounding), so the divergence, half its square at most, by less
// than 1e-6. A small budget is far from that.
func TestFloor(t *testing.T) {
	p := read(t, 0)
	along := base(t, p)
	for name, b := range map[string]comparison.Build{"dense": modeltest.Dense(p.Device, p.Model), "all teams": sampled(p.Device, 4*length, false)} {
		s, e := apart(t, p, b, along)
		if s.KLD.Maximum != 0 || s.RMSLogit.Value != 0 || s.SameTop.Value != 1 || s.PPLRatio.Value != 1 || slices.Max(e) != 0 {
			t.Errorf("%s: %+v, output errors %v", name, s, e)
		}
	}
	s, e := apart(t, p, sampled(p.Device, 4*length, true), along)
	if s.KLD.Maximum == 0 || s.KLD.Maximum > 1e-6 || s.SameTop.Value != 1 || slices.Min(e) == 0 || slices.Max(e) > 2e-5 {
		t.Errorf("all teams drawn: %+v, output errors %v", s, e)
	}
	few, wrong := apart(t, p, sampled(p.Device, 8, false), along)
	if few.MeanKLD.Value < 1e-4 || few.RMSLogit.Value < 1e-2 || slices.Min(wrong) < 1e-3 {
		t.Errorf("a small budget: %+v, output errors %v", few, wrong)
	}
}

// The prompt read in other chunks and its rows in another order: the noise
// floor of one method, above nothing and below what a sample does. The bound is
// that of all teams drawn.
func TestControl(t *testing.T) {
	along := base(t, read(t, 0))
	p := read(t, 37)
	dense := modeltest.Dense(p.Device, p.Model)
	for range 2 { // the order is gone with the backend
		s, err := p.Divergence(context.Background(), comparison.Shuffled(dense, 1), along)
		modeltest.Check(t, err)
		got := divergence.Summarize(s)
		if got.KLD.Maximum == 0 || got.KLD.Maximum > 1e-6 || got.SameTop.Value != 1 {
			t.Errorf("%+v", got)
		}
	}
}

// Rows read add up to the counter; all of the mass is somewhere.
func TestRows(t *testing.T) {
	p := read(t, 0)
	along := base(t, p)
	reads, ok, err := p.Reads(context.Background(), sampled(p.Device, 64, false), along.Tokens)
	modeltest.Check(t, err)
	a := p.Session.Access()
	// Shares are sums of steps·heads parts, the total of all layers' shares: each
	// addition rounds by 2⁻⁵³ of its result.
	parts := float64(steps * p.Model.CacheSpec()[0].KVHeads)
	total := 0.0
	for _, layer := range reads {
		for _, share := range layer {
			total += share
			if share < 0 || share > 1+parts*0x1p-53 {
				t.Fatalf("a share of %v", share)
			}
		}
	}
	if want := float64(a.Rows); !ok || math.Abs(total*parts-want) > (parts+float64(length*len(reads)))*0x1p-53*want {
		t.Errorf("%v of the rows, counted %+v", total, a)
	}
	if _, ok, err := p.Reads(context.Background(), modeltest.Dense(p.Device, p.Model), along.Tokens); ok || err != nil {
		t.Errorf("dense attention chooses rows: %v, %v", ok, err)
	}
	off := modeltest.ShareError(t, p.Device, p.Session, p.Model.Config().Heads)
	mass, err := p.Mass(context.Background(), along.Tokens)
	modeltest.Check(t, err)
	for i, layer := range mass {
		sum := 0.0
		for _, w := range layer {
			sum += w
		}
		if len(layer) != length || sum < 0.1 || sum > 1+off {
			t.Errorf("layer %d: %d rows with a mass of %v", i, len(layer), sum)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		a, b  []int32
		rate  float64
		first int
	}{
		{[]int32{1, 2, 3}, []int32{1, 2, 3}, 1, -1}, {nil, nil, 1, -1}, {[]int32{1, 2, 3, 4}, []int32{1, 9, 3, 4}, 0.75, 1},
		{[]int32{1, 2, 3, 4}, []int32{1, 2}, 0.5, 2}, {nil, []int32{1}, 0, 0},
	} {
		if rate, first := comparison.Match(c.a, c.b); rate != c.rate || first != c.first {
			t.Errorf("%v and %v: %v, %d", c.a, c.b, rate, first)
		}
	}
}

// Logits alone are a base for Divergence, and none for OutputErrors.
func TestRecordLogits(t *testing.T) {
	p := read(t, 0)
	dense := modeltest.Dense(p.Device, p.Model)
	along := base(t, p)
	logits, err := p.RecordLogits(context.Background(), dense, along.Tokens)
	modeltest.Check(t, err)
	steps, err := p.Divergence(context.Background(), dense, logits)
	modeltest.Check(t, err)
	if s := divergence.Summarize(steps); len(steps) != len(along.Tokens) || s.KLD.Maximum != 0 {
		t.Errorf("%d steps, %+v", len(steps), s)
	}
	if _, err := p.OutputErrors(context.Background(), dense, logits); err == nil {
		t.Error("outputs that were not recorded are compared")
	}
}
