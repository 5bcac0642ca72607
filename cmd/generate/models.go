package main

import (
	"path/filepath"
	"slices"

	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/model/deepseekv2"
	"blitzen/model/qwen2"
	"blitzen/weights"
)

// plan is a checkpoint's configuration before its weights are read.
type plan struct {
	model.Config
	specs    []kvcache.Spec
	expanded int // numbers a token would store as keys and values of every head
	load     loadFunc
}

// planModel checks config.json. This switch is the one place that knows all
// architectures.
func planModel(fields *model.Fields) (plan, error) {
	names := fields.Strings("architectures")
	if err := fields.Err(); err != nil {
		return plan{}, err
	}
	switch {
	case slices.Contains(names, qwen2.Architecture):
		cfg, err := qwen2.ReadConfig(fields)
		return plan{cfg.Config, cfg.CacheSpec(), kvcache.RowWidth(cfg.CacheSpec()), loader(qwen2.Load, cfg)}, err
	case slices.Contains(names, deepseekv2.Architecture):
		cfg, err := deepseekv2.ReadConfig(fields)
		return plan{cfg.Config, cfg.CacheSpec(), cfg.ExpandedWidth(), loader(deepseekv2.Load, cfg)}, err
	}
	fields.Fail("architectures", "is %q; supported are %q and %q", names, qwen2.Architecture, deepseekv2.Architecture)
	return plan{}, fields.Err()
}

// loadFunc reads weights.
type loadFunc func(dev device.Device, from model.Source, o model.Options) (model.Model, error)

// loader is an architecture's Load with its configuration filled in.
func loader[C any, M model.Model](load func(device.Device, model.Source, C, model.Options) (M, error), cfg C) loadFunc {
	return func(dev device.Device, from model.Source, o model.Options) (model.Model, error) {
		m, err := load(dev, from, cfg, o)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
}

// loaded is a model on its way to a device. Close releases everything.
type loaded struct {
	plan
	Dir         string
	Checkpoint  weightSource
	EOS         []int32       // end tokens of config.json and generation_config.json
	Generation  *model.Fields // generation_config.json; nil if there is none
	Device      device.Device // nil until it is opened
	Model       model.Model   // nil until the weights are read
	int8        bool          // matrices are kept as signed bytes
	lastQueries int           // how many last queries of a prompt some method needs
}

// options are those of loading for up to rows tokens at once.
func (l *loaded) options(rows int) model.Options { return model.Options{Rows: rows, Int8: l.int8} }

// quantize is the value of --quantize.
func (l *loaded) quantize() string {
	if l.int8 {
		return quantizeInt8
	}
	return quantizeNone
}

// weightSource is where weights come from, and what identifies them.
type weightSource interface {
	model.Source
	Fingerprint() string
	Close() error
}

// dummySeed is that of --load-format dummy.
const dummySeed = 0

// openModel reads a folder's configuration and the headers of its weights;
// with dummy the weights are made up.
func openModel(dir string, dummy bool) (*loaded, error) {
	fields, err := model.ReadFields(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	l := &loaded{Dir: dir}
	if l.plan, err = planModel(fields); err != nil {
		return nil, err
	}
	if l.Generation, err = generationConfig(dir); err != nil {
		return nil, err
	}
	for _, f := range []*model.Fields{fields, l.Generation} {
		if f == nil {
			continue
		}
		ids := f.Tokens("eos_token_id")
		for _, id := range ids {
			if int(id) >= l.Vocab {
				f.Fail("eos_token_id", "is %d; the vocabulary has ids 0 to %d", id, l.Vocab-1)
			}
		}
		if err := f.Err(); err != nil {
			return nil, err
		}
		l.EOS = append(l.EOS, ids...)
	}
	if dummy {
		l.Checkpoint = weights.NewDummy(dummySeed)
		return l, nil
	}
	ck, err := weights.Open(dir)
	if err != nil {
		return nil, err
	}
	l.Checkpoint = ck
	return l, nil
}

func (l *loaded) Close() {
	if l.Model != nil {
		l.Model.Close()
	}
	if l.Device != nil {
		l.Device.Close()
	}
	l.Checkpoint.Close()
}
