// Package checkpoint opens checkpoints of every architecture in tests. It is
// apart from modeltest, which the tests inside of an architecture use.
package checkpoint

import (
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/internal/modeltest"
	"blitzen/model"
	"blitzen/model/deepseekv2"
	"blitzen/model/qwen2"
	"blitzen/weights"
)

// Open loads the model of a folder for up to rows tokens at once. It is closed
// after the test.
func Open(t testing.TB, dev device.Device, dir string, rows int) model.Model {
	t.Helper()
	fields := modeltest.Fields(t, dir, "config.json")
	if slices.Contains(fields.Strings("architectures"), deepseekv2.Architecture) {
		cfg, err := deepseekv2.ReadConfig(fields)
		modeltest.Check(t, err)
		return modeltest.Load(t, dir, func(ck *weights.Checkpoint) (model.Model, error) {
			return deepseekv2.Load(dev, ck, cfg, model.Options{Rows: rows})
		})
	}
	cfg, err := qwen2.ReadConfig(fields)
	modeltest.Check(t, err)
	return modeltest.Load(t, dir, func(ck *weights.Checkpoint) (model.Model, error) {
		return qwen2.Load(dev, ck, cfg, model.Options{Rows: rows})
	})
}
