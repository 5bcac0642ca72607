package deepseekv2_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/model"
	"blitzen/model/deepseekv2"
	"blitzen/weights"
)

const (
	testModels = "../../testdata/models/"
	lite       = testModels + "dsv2_lite"
	group      = testModels + "dsv2_group"
	normNoRoPE = testModels + "dsv2_norm_norope"
	needle     = "../../models/needle-dsv2"
)

func config(t testing.TB, dir, file string) deepseekv2.Config {
	t.Helper()
	cfg, err := deepseekv2.ReadConfig(modeltest.Fields(t, dir, file))
	modeltest.Check(t, err)
	return cfg
}

func load(t testing.TB, dev device.Device, dir string, cfg deepseekv2.Config, rows int) *deepseekv2.Model {
	t.Helper()
	return modeltest.Load(t, dir, func(ck *weights.Checkpoint) (*deepseekv2.Model, error) {
		return deepseekv2.Load(dev, ck, cfg, model.Options{Rows: rows})
	})
}

func TestGolden(t *testing.T) {
	for _, dir := range []string{lite, group, normNoRoPE} {
		for _, file := range []string{"config.json", "config.v5.json"} {
			t.Run(dir[len(testModels):]+"/"+file, func(t *testing.T) {
				f := golden.Open(t, dir+"/golden.safetensors")
				dev := modeltest.Host(t)
				m := load(t, dev, dir, config(t, dir, file), 256)
				for p := range 3 {
					name := fmt.Sprintf("p%d.", p)
					checkExperts(t, m, f, name+"moe", modeltest.CheckPrompt(t, dev, m, f, name))
				}
			})
		}
	}
}

// checkExperts compares, for every token and MoE layer, which experts it went
// to and with which weights; their order is free. Every checkpoint here has one
// dense layer before those with experts.
func checkExperts(t *testing.T, m model.Model, f *golden.File, name string, tapped map[string][]float64) {
	t.Helper()
	for l := 0; f.Has(fmt.Sprintf("%s%d.expert_ids", name, l)); l++ {
		where, tap := fmt.Sprintf("%s%d.expert_", name, l), fmt.Sprintf("layer.%d.expert_", l+1)
		k := f.Shape(where + "ids")[1]
		got := byExpert(k, tapped[tap+"ids"], tapped[tap+"weights"])
		want := byExpert(k, f.Int32s(where+"ids"), f.Floats(where+"weights"))
		golden.Near(t, where+"weights by expert", got, want, modeltest.Rounding(m, modeltest.Terms, f.Floats(where+"weights")))
	}
}

// byExpert is the weight of every expert for every token, NaN where it was not
// chosen.
func byExpert[T int32 | float64](k int, ids []T, weights []float64) []float64 {
	const experts = 16 // at most
	all := make([]float64, len(ids)/k*experts)
	for i := range all {
		all[i] = math.NaN()
	}
	for i, id := range ids {
		all[i/k*experts+int(id)] = weights[i]
	}
	return all
}

// The trained checkpoint on real prompts: logits of the first decode step, to
// the tolerance that its goldens state for float32, and what follows.
func TestNeedle(t *testing.T) {
	f := golden.Open(t, "../../testdata/needle-dsv2/golden.safetensors")
	var stated struct {
		Tolerance struct {
			Logits float64 `json:"logits_abs"`
		}
	}
	golden.JSON(t, "../../testdata/needle-dsv2/prompts.json", &stated)
	dev := modeltest.Host(t)
	m := load(t, dev, needle, config(t, needle, "config.json"), 512)
	for p := range 5 {
		name := func(s string) string { return fmt.Sprintf("%d.%s", p, s) }
		ids, want := f.Int32s(name("input_ids")), f.Int32s(name("greedy"))
		s := modeltest.Session(t, dev, m, len(ids)+len(want))
		modeltest.Check(t, s.Prefill(context.Background(), ids, nil))
		modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
		for i, id := range want {
			got, err := s.Next(context.Background())
			modeltest.Check(t, err)
			if got.ID != id {
				t.Fatalf("prompt %d: greedy token %d is %d, want %d", p, i, got.ID, id)
			}
			if i == 0 {
				logits, err := s.Logits()
				modeltest.Check(t, err)
				golden.Near(t, name("logits_last"), golden.Float64s(logits), f.Floats(name("logits_last")), stated.Tolerance.Logits)
			}
		}
	}
}

// The forward pass relies on nothing that only the CPU device does.
func TestReference(t *testing.T) {
	for _, dir := range []string{lite, group, normNoRoPE} {
		f := golden.Open(t, dir+"/golden.safetensors")
		dev := devicetest.NewReference()
		m := load(t, dev, dir, config(t, dir, "config.json"), 64)
		ids := f.Int32s("p1.input_ids")
		logits, _ := modeltest.Prefill{Chunk: 64}.Run(t, dev, m, ids)
		golden.Near(t, dir, logits, f.Floats("p1.logits_last"), modeltest.Rounding(m, modeltest.Terms, logits))
		ids = f.Int32s("p2.input_ids")[:64] // enough to be expanded
		whole, _ := modeltest.Prefill{Chunk: 64}.Run(t, dev, m, ids)
		absorbed, _ := modeltest.Prefill{Chunk: 64, HideRows: true}.Run(t, dev, m, ids)
		golden.Near(t, dir, absorbed, whole, modeltest.Rounding(m, modeltest.Terms, whole))
	}
}

// The logits must not depend on how a prompt is cut, beyond rounding, although
// small chunks are attended in another form than large ones.
func TestChunks(t *testing.T) {
	for _, dir := range []string{lite, group, normNoRoPE} {
		ids := golden.Open(t, dir+"/golden.safetensors").Int32s("p2.input_ids")
		dev := modeltest.Host(t)
		m := load(t, dev, dir, config(t, dir, "config.json"), 512)
		whole, _ := modeltest.Prefill{Chunk: 512}.Run(t, dev, m, ids)
		for _, chunk := range []int{1, 7, 64} {
			logits, _ := modeltest.Prefill{Chunk: chunk}.Run(t, dev, m, ids)
			golden.Near(t, fmt.Sprintf("%s in chunks of %d", dir, chunk), logits, whole, modeltest.Rounding(m, modeltest.Terms, whole))
		}
	}
}

// Decoding token n, absorbed, gives the logits of a prefill of n tokens,
// expanded.
func TestDecodeEqualsPrefill(t *testing.T) {
	for _, dir := range []string{lite, group} {
		ids := golden.Open(t, dir+"/golden.safetensors").Int32s("p2.input_ids")
		dev := modeltest.Host(t)
		m := load(t, dev, dir, config(t, dir, "config.json"), 256)
		modeltest.CheckDecode(t, dev, m, ids[:110], 100)
	}
}
