package main

import (
	"errors"
	"io/fs"
	"math"
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
	f.Float64Var(&s.set.Temperature, "temperature", 0, "divide logits by `T`; 0 is greedy")
	f.IntVar(&s.set.TopK, "top-k", 0, "keep the `K` most probable tokens; 0 is off")
	f.Float64Var(&s.set.TopP, "top-p", 0, "keep the most probable tokens up to the mass `P`; 1 is off")
	f.Float64Var(&s.set.MinP, "min-p", 0, "drop tokens below the share `P` of the best one's probability; 0 is off")
	f.Float64Var(&s.set.Repetition, "repetition-penalty", 0, "weaken tokens seen before by the factor `X`; 1 is off")
	f.Uint64VarP(&s.set.Seed, "seed", "s", 0, "seed `N` of the draws (default: random, printed with -v)")
}

// settings resolves the sampling settings and remembers where each came from.
// generation is generation_config.json, nil without one.
func (s *samplingFlags) settings(f *pflag.FlagSet, generation *model.Fields) (sample.Settings, error) {
	out := sample.Greedy()
	out.Origin = map[string]string{}
	if s.greedy {
		generation = nil
	}
	// As in transformers, a checkpoint's sampling settings count when tokens are
	// sampled, and its penalty always. Whoever narrows the choice wants one.
	narrowed := f.Changed("top-k") || f.Changed("top-p") || f.Changed("min-p")
	sampled := !s.greedy && (s.set.Temperature > 0 || narrowed && !f.Changed("temperature") ||
		generation != nil && generation.BoolOr("do_sample", false))
	if sampled {
		out.Temperature = 1
	}
	pick := func(flag, field string, fromFlag, read func()) {
		switch {
		case f.Changed(flag):
			fromFlag()
			out.Origin[field] = flagOrigin(f, flag)
		case generation != nil && generation.Has(field) && (sampled || field == "repetition_penalty"):
			read()
			out.Origin[field] = sample.FromFile
		default:
			out.Origin[field] = sample.FromDefault
		}
	}
	number := func(flag, field string, dst *float64, given float64) {
		pick(flag, field, func() { *dst = given }, func() { *dst = generation.ZeroOr(field) })
	}
	number("temperature", "temperature", &out.Temperature, s.set.Temperature)
	pick("top-k", "top_k", func() { out.TopK = s.set.TopK }, func() { out.TopK = generation.Int("top_k", 0, math.MaxInt32) })
	number("top-p", "top_p", &out.TopP, s.set.TopP)
	number("min-p", "min_p", &out.MinP, s.set.MinP)
	number("repetition-penalty", "repetition_penalty", &out.Repetition, s.set.Repetition)
	if s.greedy {
		if f.Changed("temperature") && s.set.Temperature != 0 {
			return out, usagef("--greedy and --temperature %v contradict each other", s.set.Temperature)
		}
		out.Temperature, out.Origin["temperature"] = 0, flagOrigin(f, "greedy")
	}
	out.Seed, out.Origin["seed"] = s.set.Seed, flagOrigin(f, "seed")
	if !f.Changed("seed") {
		// 32 bits, so that every reader of JSON keeps all digits.
		out.Seed, out.Origin["seed"] = uint64(rand.Uint32()), sample.Random
	}
	if generation != nil && generation.Err() != nil {
		return out, generation.Err()
	}
	err := out.Validate()
	if errors.As(err, new(sample.FileError)) {
		return out, err
	}
	return out, asUsage(err)
}

func flagOrigin(f *pflag.FlagSet, name string) string {
	if fromVariable(f, name) {
		return sample.FromEnvironment
	}
	return sample.FromFlag
}

// generationConfig reads generation_config.json, nil if there is none.
func generationConfig(dir string) (*model.Fields, error) {
	path := filepath.Join(dir, "generation_config.json")
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return model.ReadFields(path)
}
