package qwen2_test

import (
	"fmt"
	"testing"

	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/model"
	"blitzen/model/qwen2"
	"blitzen/weights"
)

func load(t *testing.T, dev device.Device, dir, config string, rows int) *qwen2.Model {
	t.Helper()
	cfg, err := qwen2.ReadConfig(modeltest.Fields(t, dir, config))
	modeltest.Check(t, err)
	return modeltest.Load(t, dir, func(ck *weights.Checkpoint) (*qwen2.Model, error) {
		return qwen2.Load(dev, ck, cfg, model.Options{Rows: rows})
	})
}

func TestGolden(t *testing.T) {
	cases := []struct{ dir, config, prefix string }{
		{"qwen2_tied_gqa", "config.json", ""}, {"qwen2_tied_gqa", "config.v5.json", ""},
		{"qwen2_untied_mha", "config.json", ""}, {"qwen2_untied_mha", "config.v5.json", ""},
		{"qwen2_fp16_sharded", "config.json", ""}, {"qwen2_fp16_sharded", "config.v5.json", ""},
		{"qwen2_yarn", "config.json", ""}, {"qwen2_yarn", "config.v5.json", ""}, {"qwen2_yarn", "config.short.json", "short."},
	}
	for _, c := range cases {
		t.Run(c.dir+"/"+c.config, func(t *testing.T) {
			dir := "../../testdata/models/" + c.dir
			f := golden.Open(t, dir+"/golden.safetensors")
			dev := modeltest.Host(t)
			m := load(t, dev, dir, c.config, 256)
			for p := range 3 {
				modeltest.CheckPrompt(t, dev, m, f, fmt.Sprintf("%sp%d.", c.prefix, p))
			}
		})
	}
}

// The logits must not depend on how a prompt is cut, beyond rounding.
func TestChunks(t *testing.T) {
	dir := "../../testdata/models/qwen2_tied_gqa"
	ids := golden.Open(t, dir+"/golden.safetensors").Int32s("p2.input_ids")
	dev := modeltest.Host(t)
	m := load(t, dev, dir, "config.json", 512)
	whole, _ := modeltest.Prefill{Chunk: len(ids)}.Run(t, dev, m, ids)
	for _, chunk := range []int{1, 7, 512} {
		logits, _ := modeltest.Prefill{Chunk: chunk}.Run(t, dev, m, ids)
		golden.Near(t, fmt.Sprintf("chunks of %d", chunk), logits, whole, modeltest.Rounding(m, modeltest.Terms, whole))
	}
}

// Decoding token n gives the logits of a prefill of n tokens.
func TestDecodeEqualsPrefill(t *testing.T) {
	dir := "../../testdata/models/qwen2_yarn"
	ids := golden.Open(t, dir+"/golden.safetensors").Int32s("p2.input_ids")
	dev := modeltest.Host(t)
	m := load(t, dev, dir, "config.json", 512)
	modeltest.CheckDecode(t, dev, m, ids[:110], 100)
}
