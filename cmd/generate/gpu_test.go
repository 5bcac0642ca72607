package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"blitzen/cuda"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/model"
	"blitzen/sample"
	"blitzen/weights"
)

// The tests of this file run whole models on a GPU. They skip where there is
// none, and fail there with REQUIRE_CUDA=1.

// openTestGPU opens the first GPU, closed after the test.
func openTestGPU(t testing.TB, opts cuda.Options) device.Device {
	t.Helper()
	dev, err := cuda.Open(opts)
	if err != nil {
		if os.Getenv("REQUIRE_CUDA") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return dev
}

// onTestGPU loads a checkpoint.
func onTestGPU(t testing.TB, dev device.Device, dir string, rows int) model.Model {
	t.Helper()
	l, err := openModel(dir, false)
	modeltest.Check(t, err)
	m, err := l.plan.load(dev, l.Checkpoint, l.options(rows))
	modeltest.Check(t, err)
	t.Cleanup(func() { m.Close(); l.Checkpoint.Close() })
	return m
}

var tinyCheckpoints = []string{"qwen2_tied_gqa", "qwen2_untied_mha", "qwen2_fp16_sharded", "qwen2_yarn", "dsv2_lite", "dsv2_group", "dsv2_norm_norope"}

// Logits, hidden states and greedy tokens of checkpoints that other software
// made, in float32.
func TestGPUGoldens(t *testing.T) {
	dev := openTestGPU(t, cuda.Options{DType: device.F32})
	for _, name := range tinyCheckpoints {
		t.Run(name, func(t *testing.T) {
			m := onTestGPU(t, dev, tiny+name, 256)
			f := golden.Open(t, tiny+name+"/golden.safetensors")
			for p := range 3 {
				modeltest.CheckPrompt(t, dev, m, f, fmt.Sprintf("p%d.", p))
			}
		})
	}
}

// The same tokens through the program, dense and sampled with a budget that
// covers every team.
func TestGPUProgram(t *testing.T) {
	openTestGPU(t, cuda.Options{DType: device.F32})
	for i, dir := range tinyCheckpoints {
		f := golden.Open(t, tiny+dir+"/golden.safetensors")
		ids, want := f.Int32s("p2.input_ids"), f.Int32s("p2.greedy")
		attentions := [][]string{{"dense"}, {"santapp", "--budget", "4096", "--parents", "contiguous"}}
		for _, attention := range attentions[i%2:] {
			args := append([]string{tiny + dir, "--device", "cuda", "--dtype", "f32", "--prompt-ids", idList(ids), "-n", "24", "--ignore-eos", "--greedy", "--attention"}, attention...)
			if got := asObject(t, "", args...); !slices.Equal(got.TokenIDs, want) {
				t.Errorf("%s, %v: tokens %v, want %v", dir, attention, got.TokenIDs, want)
			}
		}
	}
}

// unhurried is a GPU that is not asked for a step ahead, so that the logits of
// every token can be read.
type unhurried struct{ device.Device }

func (unhurried) Queued() bool { return false }

// gpuModel is a trained checkpoint on a GPU of its own.
type gpuModel struct {
	device.Device
	model.Model
}

func newGPUModel(t *testing.T, dtype device.DType, dir string) gpuModel {
	t.Helper()
	dev := unhurried{openTestGPU(t, cuda.Options{DType: dtype})}
	return gpuModel{dev, onTestGPU(t, dev, dir, rowsGPU)}
}

// forced are the logits of decode steps that are fed golden tokens.
func (g gpuModel) forced(t *testing.T, ids, tokens []int32) (logits [][]float64) {
	t.Helper()
	s, err := decode.New(g.Device, g.Model, decode.Options{Capacity: len(ids) + len(tokens), Sampling: sample.Greedy()})
	modeltest.Check(t, err)
	defer s.Close()
	modeltest.Check(t, s.Prefill(t.Context(), ids, nil))
	modeltest.Check(t, s.Build(modeltest.Dense(g.Device, g.Model)))
	for _, id := range tokens {
		_, err := s.Next(t.Context())
		modeltest.Check(t, err)
		l, err := s.Logits()
		modeltest.Check(t, err)
		logits = append(logits, golden.Float64s(l))
		modeltest.Check(t, s.Force(id))
	}
	return logits
}

func best(logits []float64) int32 {
	at := 0
	for i, l := range logits {
		if l > logits[at] {
			at = i
		}
	}
	return int32(at)
}

// Trained checkpoints on prompts of up to 4,000 tokens: in float32 the golden
// tokens and logits; in BF16 logits near them, and other tokens only where two
// logits are nearer than that.
//
// A layer rounds its numbers about eight times, by up to 2⁻⁸ relative to the
// largest; independent errors add up as squares do. Where experts are chosen,
// rounding can change a choice and so a logit by more: there tokens alone count.
func TestGPUNeedles(t *testing.T) {
	for name, experts := range map[string]bool{"needle-qwen2": false, "needle-dsv2": true} {
		f := golden.Open(t, "../../testdata/"+name+"/golden.safetensors")
		inF32, inBF16 := newGPUModel(t, device.F32, "../../models/"+name), newGPUModel(t, device.BF16, "../../models/"+name)
		step := math.Sqrt(8*float64(inF32.Config().Layers)) / 256
		for p := 0; f.Has(fmt.Sprintf("%d.input_ids", p)); p++ {
			of := func(s string) string { return fmt.Sprintf("%d.%s", p, s) }
			ids, want := f.Int32s(of("input_ids")), f.Int32s(of("greedy"))
			exact, rounded := inF32.forced(t, ids, want), inBF16.forced(t, ids, want)
			golden.Near(t, name+" "+of("logits_last"), exact[0], f.Floats(of("logits_last")), 2e-3)
			farthest := 0.0
			for i, id := range want {
				bound := modeltest.Largest(exact[i]) * step
				for j := range exact[i] {
					farthest = max(farthest, math.Abs(exact[i][j]-rounded[i][j])/bound)
				}
				if got := best(exact[i]); got != id {
					t.Errorf("%s, prompt %d: greedy token %d is %d in float32, want %d", name, p, i, got, id)
				}
				if got := best(rounded[i]); got != id && exact[i][id]-exact[i][got] > 2*bound {
					t.Errorf("%s, prompt %d: greedy token %d is %d in BF16, want %d; the logits are %v apart", name, p, i, got, id, exact[i][id]-exact[i][got])
				}
			}
			t.Logf("%s, prompt %d: logits in BF16 are off by up to %.2f of the bound", name, p, farthest)
			if farthest > 1 && !experts {
				t.Errorf("%s, prompt %d: logits in BF16 are off by %.2f times the bound", name, p, farthest)
			}
		}
	}
}

// 64 steps, replayed from a graph and issued one by one, give the same bits:
// tokens and log-probabilities, drawn and greedy, also where steps for few rows
// end and others are recorded while one is under way.
func TestGPURecordedEqualsEager(t *testing.T) {
	openTestGPU(t, cuda.Options{DType: device.F32})
	for _, name := range []string{"needle-qwen2", "needle-dsv2"} {
		ids := golden.Open(t, "../../testdata/"+name+"/golden.safetensors").Int32s("2.input_ids")
		edge := slices.Repeat(ids, 2016/len(ids)+1)[:2016]
		for _, c := range []struct {
			ids  []int32
			more []string
		}{
			{ids, []string{"--greedy"}},
			{ids, []string{"--temperature", "1.5", "--top-k", "200", "--top-p", "0.99", "--seed", "3", "--attention", "santapp", "--parents", "contiguous", "--budget", "64"}},
			{edge, []string{"--greedy"}},
		} {
			args := append([]string{"../../models/" + name, "--device", "cuda", "--prompt-ids", idList(c.ids), "-n", "64", "--ignore-eos", "--logprobs", "4", "--attention", "dense"}, c.more...)
			recorded, eager := asObject(t, "", args...), asObject(t, "", append(args, "--eager")...)
			if !slices.Equal(recorded.TokenIDs, eager.TokenIDs) || len(eager.TokenIDs) != 64 {
				t.Errorf("%s, %d tokens, %v: tokens %v\neager %v", name, len(c.ids), c.more, recorded.TokenIDs, eager.TokenIDs)
			}
			if fmt.Sprint(recorded.LogProbs) != fmt.Sprint(eager.LogProbs) {
				t.Errorf("%s, %d tokens, %v: log-probabilities differ", name, len(c.ids), c.more)
			}
		}
	}
}

// Models of full size with made-up weights: what is counted before loading is
// what they take, loading is as fast as the link, and sixteen tokens come.
func TestGPUFullSizes(t *testing.T) {
	for _, c := range []struct {
		name string
		int8 bool
	}{{"qwen2.5-0.5b", false}, {"qwen2.5-7b", false}, {"deepseek-v2-lite", false}, {"deepseek-v2-lite", true}} {
		t.Run(fmt.Sprintf("%s, int8 %v", c.name, c.int8), func(t *testing.T) {
			dev := openTestGPU(t, cuda.Options{DType: device.BF16})
			l, err := openModel(configs+c.name, true)
			modeltest.Check(t, err)
			l.int8 = c.int8
			before := spaceOf(dev)
			n, err := l.need(before, 0, 8192, attentionFlags{name: "dense"})
			modeltest.Check(t, err)
			if !n.fits(before) {
				t.Skip(n.refusal(before)) // a smaller card than the shapes are for
			}
			start := time.Now()
			l.Model, err = l.plan.load(dev, l.Checkpoint, l.options(n.rows))
			modeltest.Check(t, err)
			t.Cleanup(func() { l.Model.Close(); l.Checkpoint.Close() })
			finish(t, dev)
			loaded := time.Since(start)
			s := modeltest.Session(t, dev, l.Model, 8192)
			modeltest.Check(t, s.Prefill(t.Context(), randomIDs(6000, l.Config.Vocab, 1), nil))
			modeltest.Check(t, s.Build(modeltest.Dense(dev, l.Model)))
			result, err := s.Generate(t.Context(), decode.Limits{MaxTokens: 16}, nil)
			if err != nil || len(result.Tokens) != 16 {
				t.Fatalf("%d tokens, %v", len(result.Tokens), err)
			}
			used := before.free - spaceOf(dev).free
			t.Logf("loaded in %.2f s, %.1f GB/s; tensors %s, counted %s; in use with all else %s; tokens %v",
				loaded.Seconds(), float64(n.weights)/loaded.Seconds()/1e9, mebibytes(dev.Memory().Used), mebibytes(n.total()-n.workspace), mebibytes(used), result.IDs())
			if dev.Memory().Used > n.total()-n.workspace+4096 || used > n.total() {
				t.Errorf("tensors take %s, all %s; counted were %s and %s", mebibytes(dev.Memory().Used), mebibytes(used), mebibytes(n.total()-n.workspace), mebibytes(n.total()))
			}
			if c.int8 && used > 20<<30 {
				t.Errorf("%s are in use: not for a card of 24 GiB", mebibytes(used))
			}
		})
	}
}

// BenchmarkGPULoad reads the checkpoint folder that BLITZEN_TEST_CHECKPOINT
// names, from the page cache after the first time.
func BenchmarkGPULoad(b *testing.B) {
	dir := os.Getenv("BLITZEN_TEST_CHECKPOINT")
	if dir == "" {
		b.Skip("BLITZEN_TEST_CHECKPOINT names no folder")
	}
	dev := openTestGPU(b, cuda.Options{DType: device.BF16})
	var bytes int64
	for b.Loop() {
		l, err := openModel(dir, false)
		modeltest.Check(b, err)
		m, err := l.plan.load(dev, l.Checkpoint, l.options(rowsMin))
		modeltest.Check(b, err)
		finish(b, dev)
		bytes += l.Checkpoint.(*weights.Checkpoint).Size()
		b.StopTimer()
		m.Close()
		l.Checkpoint.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(bytes)/b.Elapsed().Seconds()/1e9, "GB/s")
}

// finish waits for all that was queued.
func finish(t testing.TB, dev device.Device) {
	t.Helper()
	one, err := dev.New("one", device.I32, 1)
	modeltest.Check(t, err)
	_, err = device.Read[int32](dev, one)
	modeltest.Check(t, err)
	dev.Free(one)
}
