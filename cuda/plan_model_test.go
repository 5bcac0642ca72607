package cuda

import (
	"path/filepath"
	"testing"

	"blitzen/attention/dense"
	"blitzen/device"
	"blitzen/kvcache"
	checkpoint "blitzen/model"
	"blitzen/model/qwen2"
	"blitzen/weights"
)

// planned is a device whose tensors have addresses and no memory, and whose operations
// say what they would run.
type planned struct {
	device.Device
	*planner
}

func (planned) DType() device.DType                 { return device.BF16 }
func (planned) Upload(*device.Tensor, []byte) error { return nil }
func (planned) Free(*device.Tensor)                 {}
func (d planned) Run(fn func(*device.Ops)) error    { return d.issued(fn) }
func (d planned) issued(fn func(*device.Ops)) error {
	ops := device.NewOps(d.kernels, nil)
	fn(ops)
	return ops.Err()
}
func (d planned) New(_ string, t device.DType, shape ...int) (*device.Tensor, error) {
	return d.tensor(t, shape...), nil
}
func (d planned) Import(_ string, t device.DType, shape []int, _ []byte) (*device.Tensor, error) {
	return d.tensor(t, shape...), nil
}

// shapes is a source of BF16 tensors that have only shapes.
type shapes struct{}

func (shapes) Bind(_ string, shape ...int) (weights.Tensor, error) {
	return weights.Tensor{DType: device.BF16, Shape: shape}, nil
}
func (shapes) Has(string) bool                { return true }
func (shapes) Unused(func(string) bool) error { return nil }

// What is fast by itself is of use where models issue it so: a decode step of a model as
// its forward pass and its cache issue it has these kernels, and not those.
func TestStepsOfModelsArePlanned(t *testing.T) {
	for _, c := range []struct {
		config     string
		most       int
		has, lacks []string
	}{
		{"qwen2.5-0.5b", smallMost, []string{"small_attend", "small_up", "small_down"}, []string{"rotate_append", "attend_one"}},
		{"qwen2.5-0.5b", 0, []string{"attend_one", "gemv"}, []string{"rotate_append", "small_attend", "attend_decode"}},
		{"qwen2.5-7b", smallMost, []string{"gemv", "rotate_append", "attend_decode"}, []string{"append", "rope", "small_attend"}},
	} {
		fields, err := checkpoint.ReadFields(filepath.Join("..", "testdata", "configs", c.config, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := qwen2.ReadConfig(fields)
		if err != nil {
			t.Fatal(err)
		}
		d := planned{planner: newPlanner(90)}
		m, err := qwen2.Load(d, shapes{}, cfg, checkpoint.Options{Rows: 512})
		if err != nil {
			t.Fatal(err)
		}
		cache, err := kvcache.New(d, m.CacheSpec(), 4096)
		if err != nil {
			t.Fatal(err)
		}
		exact, err := dense.New(d, m.CacheSpec())
		if err != nil {
			t.Fatal(err)
		}
		clear(d.programs)
		in, logits := checkpoint.Batch{IDs: d.tensor(device.I32, 1), Pos: d.tensor(device.I32, 1), Most: c.most}, d.tensor(device.F32, 1, cfg.Vocab)
		if err := d.issued(func(o *device.Ops) { m.Forward(o, in, cache, exact, logits) }); err != nil {
			t.Fatal(err)
		}
		files := map[string]bool{}
		for _, p := range d.programs {
			files[p.file] = true
		}
		for _, name := range c.has {
			if !files[name] {
				t.Errorf("%s, at most %d rows: a step lacks %s: %v", c.config, c.most, name, files)
			}
		}
		for _, name := range c.lacks {
			if files[name] {
				t.Errorf("%s, at most %d rows: a step has %s", c.config, c.most, name)
			}
		}
	}
}
