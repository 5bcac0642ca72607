package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"blitzen/cuda"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/eval/divergence"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/model"
	"blitzen/sample"
)

// What signed bytes cost on trained checkpoints: how far the next-token
// distributions are from those of the weights as they are, along golden tokens,
// and whether greedy answers stay the same.
func TestInt8(t *testing.T) {
	compareInt8(t, unhurried{modeltest.Host(t)}, 512, 1100)
}

func TestGPUInt8(t *testing.T) {
	compareInt8(t, unhurried{openTestGPU(t, cuda.Options{DType: device.BF16})}, rowsGPU, 1<<20)
}

// mostInt8 is the largest mean KL divergence that is taken for right, in nats.
//
// A row of n normal numbers has its largest near √(2·ln n) ≈ 3.5 standard
// deviations, so rounding to multiples of 1/127 of it is off by 3.5/(127·√12) =
// 0.8 % of a standard deviation, and each product by 0.8 % of its result. About
// 7 products in each of 6 layers add up to √42·0.8 % = 5 % of the logits' spread,
// which is about 3 where the model is in doubt: δ = 0.15. The divergence is half
// the variance of δ under the distribution, 0.01, where there is doubt, and far
// less where one token has it all, as in most of these steps.
const mostInt8 = 0.01

// compareInt8 takes the golden prompts up to a length.
func compareInt8(t *testing.T, dev device.Device, rows, longest int) {
	for _, name := range []string{"needle-qwen2", "needle-dsv2"} {
		f := golden.Open(t, "../../testdata/"+name+"/golden.safetensors")
		exact, int8 := loadAs(t, dev, name, rows, false), loadAs(t, dev, name, rows, true)
		var steps []divergence.Step
		prompts, same := 0, 0
		for ; f.Has(fmt.Sprintf("%d.input_ids", prompts)); prompts++ {
			ids, tokens := f.Int32s(fmt.Sprintf("%d.input_ids", prompts)), f.Int32s(fmt.Sprintf("%d.greedy", prompts))
			if len(ids) > longest {
				break
			}
			base, logits := follow(t, dev, exact, ids, tokens), follow(t, dev, int8, ids, tokens)
			var greedy []int32
			for i, token := range tokens {
				steps = append(steps, divergence.Compare(base[i], logits[i], token))
				greedy = append(greedy, best(golden.Float64s(logits[i])))
			}
			if slices.Equal(greedy, tokens) { // along the golden tokens, so also on its own
				same++
			} else {
				t.Logf("%s, prompt %d: greedy tokens %v with int8, want %v", name, prompts, greedy, tokens)
			}
		}
		s := divergence.Summarize(steps)
		t.Logf("%s on %s, int8 against %v over %d steps: Mean KLD %.6f ± %.6f, Median KLD %.6f, Maximum KLD %.6f, RMS Δp %.2f %%, Same top p %.2f %%; %d of %d greedy answers are the same",
			name, dev.Name(), dev.DType(), s.Steps, s.MeanKLD.Value, s.MeanKLD.Error, s.KLD.Median, s.KLD.Maximum, 100*s.RMSDeltaP.Value, 100*s.SameTop.Value, same, prompts)
		if !(s.MeanKLD.Value > 0 && s.MeanKLD.Value < mostInt8) {
			t.Errorf("%s: mean KL divergence %v, want 0 to %v", name, s.MeanKLD.Value, mostInt8)
		}
		if same < prompts {
			t.Errorf("%s: %d of %d greedy answers changed", name, prompts-same, prompts)
		}
	}
}

func loadAs(t *testing.T, dev device.Device, name string, rows int, int8 bool) model.Model {
	t.Helper()
	l, err := openModel("../../models/"+name, false)
	modeltest.Check(t, err)
	l.int8 = int8
	m, err := l.plan.load(dev, l.Checkpoint, l.options(rows))
	modeltest.Check(t, err)
	t.Cleanup(func() { m.Close(); l.Checkpoint.Close() })
	return m
}

// follow is the logits along tokens.
func follow(t *testing.T, dev device.Device, m model.Model, ids, tokens []int32) (logits [][]float32) {
	t.Helper()
	s, err := decode.New(dev, m, decode.Options{Capacity: len(ids) + len(tokens), Sampling: sample.Greedy()})
	modeltest.Check(t, err)
	defer s.Close()
	modeltest.Check(t, s.Prefill(t.Context(), ids, nil))
	modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
	modeltest.Check(t, s.Follow(t.Context(), tokens, func(_ int, row []float32) error {
		logits = append(logits, slices.Clone(row))
		return nil
	}))
	return logits
}

// Every output says that weights are bytes.
func TestInt8IsNamed(t *testing.T) {
	args := []string{needle, "-p", "Hello", "-n", "2", "--quantize", "int8"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(args, "--json"), `"quantize":"int8"`},
		{append(args[:5:5], "--json"), `"quantize":"none"`},
		{append(args, "-v"), needle + " (int8) on cpu"},
		{[]string{"compare", needle, "--length", "300", "-n", "2", "--quantize", "int8"}, "loaded " + needle + " (int8) on cpu"},
		{[]string{"inspect", needle, "--quantize", "int8"}, "int8 weights "},
		{[]string{"bench", needle, "-p", "16", "-n", "1", "-r", "1", "--attention", "dense", "--quantize", "int8"}, needle + " (int8)"},
	} {
		if o := answer(t, "", c.args...); !strings.Contains(o.out+o.errors, c.want) {
			t.Errorf("%v does not print %q:\n%s%s", c.args, c.want, o.out, o.errors)
		}
	}
}
