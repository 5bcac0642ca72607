package main

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"blitzen/model"
	"blitzen/sample"

	"github.com/spf13/pflag"
)

// samplingFlags are the token sampler's. Flags win over generation_config.json,
// that over the neutral defaults.
type samplingFlags struct {
	greedy bool
	set    sample.Settings
}

func (s *samplingFlags) register(f *pflag.FlagSet) {
	f.BoolVar(&s.greedy, "greedy", false, "take the most probable token; no penalty unless given")
	f.Float64Var(&s.set.Temperature, "temperature", 1, "0 is greedy (default: the checkpoint's)")
	f.IntVar(&s.set.TopK, "top-k", 0, "keep the k most probable tokens; 0 is off (default: the checkpoint's)")
	f.Float64Var(&s.set.TopP, "top-p", 1, "keep the most probable tokens up to this mass; 1 is off (default: the checkpoint's)")
	f.Float64Var(&s.set.MinP, "min-p", 0, "drop tokens below this share of the best one's probability; 0 is off")
	f.Float64Var(&s.set.Repetition, "repetition-penalty", 1, "weaken tokens seen before; 1 is off (default: the checkpoint's)")
	f.Uint64Var(&s.set.Seed, "seed", 0, "seed of token sampling (default: random, printed with -v)")
}

// settings resolves the sampling settings and remembers where each came from.
func (s *samplingFlags) settings(f *pflag.FlagSet, generation *model.Fields) (sample.Settings, error) {
	out := sample.Greedy()
	out.Origin = map[string]string{}
	fromFile := generation != nil && !s.greedy && generation.BoolOr("do_sample", false)
	if fromFile {
		out.Temperature = 1
	}
	pick := func(flag, field string, dst *float64, given float64) {
		switch {
		case f.Changed(flag):
			*dst, out.Origin[field] = given, "flag"
		case fromFile && generation.Has(field):
			*dst, out.Origin[field] = generation.ZeroOr(field), "generation_config.json"
		default:
			out.Origin[field] = "default"
		}
	}
	topK := float64(out.TopK)
	pick("temperature", "temperature", &out.Temperature, s.set.Temperature)
	pick("top-k", "top_k", &topK, float64(s.set.TopK))
	pick("top-p", "top_p", &out.TopP, s.set.TopP)
	pick("min-p", "min_p", &out.MinP, s.set.MinP)
	pick("repetition-penalty", "repetition_penalty", &out.Repetition, s.set.Repetition)
	out.TopK = int(topK)
	if s.greedy {
		if f.Changed("temperature") && s.set.Temperature != 0 {
			return out, usagef("--greedy and --temperature %v contradict each other", s.set.Temperature)
		}
		out.Temperature, out.Origin["temperature"] = 0, "flag"
	}
	out.Seed, out.Origin["seed"] = s.set.Seed, "flag"
	if !f.Changed("seed") {
		out.Seed, out.Origin["seed"] = rand.Uint64(), "random"
	}
	if generation != nil && generation.Err() != nil {
		return out, generation.Err()
	}
	if err := out.Validate(); err != nil {
		return out, usageError{err}
	}
	return out, nil
}

// generationConfig reads generation_config.json, nil if there is none.
func generationConfig(dir string) (*model.Fields, error) {
	path := filepath.Join(dir, "generation_config.json")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return model.ReadFields(path)
}
