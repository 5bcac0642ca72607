package cuda

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/attention/sampled"
	"blitzen/cuda/driver"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/kvcache"
	checkpoint "blitzen/model"
	"blitzen/model/deepseekv2"
	"blitzen/model/qwen2"
	"blitzen/sample"
	"blitzen/teams"
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
func (planned) Queued() bool                        { return false }
func (d planned) Run(fn func(*device.Ops)) error    { return d.issued(fn) }
func (planned) Prepare(func(*device.Ops)) error     { return nil }
func (planned) Fetch(*device.Tensor) device.Pending { return fetched{} }
func (d planned) Record(fn func(*device.Ops)) (device.Step, error) {
	clear(d.programs)
	return nil, errors.Join(d.issued(fn), errRecorded)
}
func (d planned) issued(fn func(*device.Ops)) error {
	ops := device.NewOps(d.kernels, nil)
	fn(ops)
	return errors.Join(ops.Err(), d.kernels.flush())
}
func (d planned) New(_ string, t device.DType, shape ...int) (*device.Tensor, error) {
	return d.tensor(t, shape...), nil
}
func (d planned) Import(_ string, t device.DType, shape []int, _ []byte) (*device.Tensor, error) {
	return d.tensor(t, shape...), nil
}
func (d planned) ImportInt8(_ string, _ device.DType, shape []int, _ []byte) (*device.Tensor, error) {
	v, size := device.NewInt8Tensor("w", &buffer{at: d.next}, shape[0], shape[1])
	d.next += driver.Address((size + 1<<20) &^ (align - 1))
	return v, nil
}

// shapes is a source of BF16 tensors that have only shapes.
type shapes struct{}

func (shapes) Bind(_ string, shape ...int) (weights.Tensor, error) {
	return weights.Tensor{DType: device.BF16, Shape: shape}, nil
}
func (shapes) Has(string) bool                { return true }
func (shapes) Unused(func(string) bool) error { return nil }

// fetched is a copy of what is not there.
type fetched struct{}

func (fetched) Wait([]byte) error { return nil }

// errRecorded ends a session once it has recorded a step.
var errRecorded = errors.New("recorded")

// load is the model of a configuration.
func (d planned) load(config string, o checkpoint.Options) (checkpoint.Model, error) {
	fields, err := checkpoint.ReadFields(filepath.Join("..", "testdata", "configs", config, "config.json"))
	if err != nil {
		return nil, err
	}
	if config == "deepseek-v2-lite" {
		cfg, err := deepseekv2.ReadConfig(fields)
		if err != nil {
			return nil, err
		}
		return deepseekv2.Load(d, shapes{}, cfg, o)
	}
	cfg, err := qwen2.ReadConfig(fields)
	if err != nil {
		return nil, err
	}
	return qwen2.Load(d, shapes{}, cfg, o)
}

// sampling is SANTA++ that draws so many of 512 teams of each key head, but in exact layers; all
// are exact where none is drawn.
func (d planned) sampling(cache *kvcache.Cache, drawn int, exact sampled.LayerSet) (attention.Backend, error) {
	const rows, most = 4096, 512
	if err := cache.Freeze(rows); err != nil {
		return nil, err
	}
	cfg := sampled.Config{
		Name: "santapp", Drawn: max(drawn, 1), Exact: drawn == 0, BeyondPaper: sampled.BeyondPaper{DenseLayers: exact},
		Keys: func(_, _ *device.Tensor, _ int) error { return nil },
	}
	t := &teams.Teams{}
	for i, l := range cache.Layers {
		if !exact.Has(i) {
			t.Count = append(t.Count, slices.Repeat([]int{most}, l.KVHeads)...)
		}
	}
	n := len(t.Count)
	t.LogN, t.Offsets, t.Slots = d.tensor(device.F32, n, most), d.tensor(device.I32, n, most+1), d.tensor(device.I32, n, rows)
	return sampled.New(d, cache, t, cfg)
}

// stepCase is a decode step of a model.
type stepCase struct {
	config     string
	int8       bool
	most       int
	santapp    bool   // in place of exact attention,
	drawn      int    // so many teams a query head, 0 for all,
	exact      string // but in these layers
	has, lacks string // files of the kernels that it shall have, and not
}

func (c stepCase) name() string {
	name := fmt.Sprintf("%s, at most %d rows", c.config, c.most)
	if c.int8 {
		name += ", int8"
	}
	if c.santapp {
		name += fmt.Sprintf(", %d drawn, layers %q exact", c.drawn, c.exact)
	}
	return name
}

// files are those of the step's kernels.
func (c stepCase) files() (map[string]bool, error) {
	d := planned{planner: newPlanner(90)}
	m, err := d.load(c.config, checkpoint.Options{Rows: 512, Int8: c.int8})
	if err != nil {
		return nil, err
	}
	cache, err := kvcache.New(d, m.CacheSpec(), 5000)
	if err != nil {
		return nil, err
	}
	var backend attention.Backend
	if c.santapp {
		exact, err := sampled.ParseLayers(c.exact)
		if err != nil {
			return nil, err
		}
		backend, err = d.sampling(cache, c.drawn, exact)
		if err != nil {
			return nil, err
		}
	} else if backend, err = dense.New(d, m.CacheSpec()); err != nil {
		return nil, err
	}
	clear(d.programs)
	in := checkpoint.Batch{IDs: d.tensor(device.I32, 1), Pos: d.tensor(device.I32, 1), Most: c.most}
	logits := d.tensor(device.F32, 1, m.Config().Vocab)
	err = d.issued(func(o *device.Ops) { m.Forward(o, in, cache, backend, logits) })
	files := map[string]bool{}
	for _, p := range d.programs {
		files[p.file] = true
	}
	return files, err
}

// What is fast by itself is of use where models issue it so: a decode step of a model as
// its forward pass and its cache issue it has these kernels, and not those.
func TestStepsOfModelsArePlanned(t *testing.T) {
	for _, c := range []stepCase{
		{config: "qwen2.5-0.5b", most: smallMost, has: "small_attend small_up small_down", lacks: "rotate_append attend_one"},
		{config: "qwen2.5-0.5b", has: "attend_one gemv", lacks: "rotate_append small_attend attend_decode"},
		{config: "qwen2.5-0.5b", int8: true, most: smallMost, has: "attend_one gemv_int8", lacks: "rotate_append small_attend norm"},
		{config: "qwen2.5-0.5b", most: smallMost, santapp: true, has: "small_attend small_up small_down", lacks: "rotate_append attend_one"},
		{config: "qwen2.5-0.5b", most: smallMost, santapp: true, drawn: 32, has: "teams_score teams_attend rotate_append gemv", lacks: "append rope attend_one"},
		{config: "qwen2.5-0.5b", most: smallMost, santapp: true, drawn: 32, exact: "0", has: "teams_score teams_attend small_attend", lacks: "append rope attend_one"},
		{config: "qwen2.5-7b", most: smallMost, has: "gemv rotate_append attend_decode", lacks: "append rope small_attend"},
		{config: "qwen2.5-7b", int8: true, has: "gemv_int8 rotate_append attend_decode", lacks: "append rope norm"},
		{config: "qwen2.5-7b", santapp: true, drawn: 32, has: "teams_score teams_attend rotate_append", lacks: "append rope"},
		{config: "deepseek-v2-lite", most: smallMost, has: "absorb attend_latent attend_merge moe", lacks: "rotate_append head_linear router norm"},
		{config: "deepseek-v2-lite", int8: true, has: "rotate_append attend_latent experts_few_int8", lacks: "append rope norm"},
		{config: "deepseek-v2-lite", santapp: true, drawn: 32, has: "absorb teams_score_wide teams_attend moe", lacks: "rotate_append router norm"},
		{config: "deepseek-v2-lite", int8: true, santapp: true, drawn: 32, has: "teams_score_wide teams_attend experts_few_int8", lacks: "append rope norm"},
	} {
		t.Run(c.name(), func(t *testing.T) {
			files, err := c.files()
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range strings.Fields(c.has) {
				if !files[name] {
					t.Errorf("a step lacks %s: %v", name, slices.Sorted(maps.Keys(files)))
				}
			}
			for _, name := range strings.Fields(c.lacks) {
				if files[name] {
					t.Errorf("a step has %s", name)
				}
			}
		})
	}
}

// A session's step for few rows is one that small layers are for.
func TestSessionsPromiseFewRows(t *testing.T) {
	d := planned{planner: newPlanner(90)}
	m, err := d.load("qwen2.5-0.5b", checkpoint.Options{Rows: 512})
	if err != nil {
		t.Fatal(err)
	}
	for rows, small := range map[int]bool{smallMost: true, smallMost + 1: false} {
		s, err := decode.New(d, m, decode.Options{Capacity: 5000, Sampling: sample.Greedy()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Prefill(t.Context(), make([]int32, rows), nil); err != nil {
			t.Fatal(err)
		}
		err = s.Build(func(*kvcache.Cache) (attention.Backend, error) { return dense.New(d, m.CacheSpec()) })
		if !errors.Is(err, errRecorded) {
			t.Fatal(err)
		}
		has := false
		for _, p := range d.programs {
			has = has || p.file == "small_attend"
		}
		if has != small {
			t.Errorf("a step after %d tokens has small layers: %v", rows, has)
		}
	}
}
