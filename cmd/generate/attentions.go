package main

import (
	"context"
	"fmt"
	"strings"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/attention/santapp"
	"blitzen/kvcache"
	"blitzen/teams"

	"github.com/spf13/pflag"
)

// attentionFlags choose how decode reads the cache.
type attentionFlags struct {
	name            string
	budget          int
	parents         string
	parentSize      int
	representatives int
	seed            uint64
}

const attentionNames = "santapp, dense"

// defaultBudget is S, in keys: what the paper's middle settings use.
const defaultBudget = 512

func (a *attentionFlags) register(f *pflag.FlagSet) {
	f.StringVar(&a.name, "attention", "santapp", "how decode reads the prompt: "+attentionNames)
	a.registerTeams(f)
}

// registerTeams adds the flags of sampled methods alone.
func (a *attentionFlags) registerTeams(f *pflag.FlagSet) {
	f.IntVar(&a.budget, "budget", defaultBudget, "S, keys that a query head may spend: K = S/(P/R) teams")
	f.StringVar(&a.parents, "parents", "kmeans", "how keys are grouped first: kmeans, contiguous")
	f.IntVar(&a.parentSize, "parent-size", 16, "P, keys of a parent")
	f.IntVar(&a.representatives, "representatives", 4, "R, representatives (teams) of a parent")
	f.Uint64Var(&a.seed, "attention-seed", 0, "seed of the sampled teams (default: --seed)")
}

// builder makes the backend that a flag value names; the one switch over
// methods. seed is used unless --attention-seed was given.
func (a attentionFlags) builder(ctx context.Context, l *loaded, f *pflag.FlagSet, seed uint64, progress func(layer, of int)) (func(*kvcache.Cache) (attention.Backend, error), error) {
	switch a.name {
	case "dense":
		return func(*kvcache.Cache) (attention.Backend, error) { return dense.New(l.Device, l.Model.CacheSpec()) }, nil
	case "santapp":
		cfg, err := a.santapp(f, seed)
		if err != nil {
			return nil, err
		}
		return func(c *kvcache.Cache) (attention.Backend, error) {
			return santapp.Build(ctx, l.Device, c, l.Model.Config().Heads, cfg, progress)
		}, nil
	}
	return nil, usagef("--attention %q: want one of %s", a.name, attentionNames)
}

func (a attentionFlags) santapp(f *pflag.FlagSet, seed uint64) (santapp.Config, error) {
	parents, err := teams.ParseParents(a.parents)
	if err != nil {
		return santapp.Config{}, usageError{err}
	}
	cfg := santapp.Config{
		Config: teams.Config{ParentSize: a.parentSize, Representatives: a.representatives},
		Budget: a.budget, Parents: parents, Seed: a.seedFor(f, seed),
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}

// seedFor is --attention-seed if it was given, else seed.
func (a attentionFlags) seedFor(f *pflag.FlagSet, seed uint64) uint64 {
	if f.Changed("attention-seed") {
		return a.seed
	}
	return seed
}

// label names the method with the settings that matter.
func (a attentionFlags) label() string {
	if a.name == "dense" {
		return "dense"
	}
	return fmt.Sprintf("%s (%s, S %d)", a.name, a.parents, a.budget)
}

// attentionReport is what results say of the method and its reads.
type attentionReport struct {
	Name            string  `json:"name"`
	Budget          int     `json:"budget,omitempty"`
	Parents         string  `json:"parents,omitempty"`
	ParentSize      int     `json:"parent_size,omitempty"`
	Representatives int     `json:"representatives,omitempty"`
	Seed            *uint64 `json:"seed,omitempty"`
	AccessPercent   float64 `json:"access_percent"`   // Eq. 13 or 14
	SelectedPercent float64 `json:"selected_percent"` // without representatives
	BytesPercent    float64 `json:"bytes_percent"`
	BytesRead       int64   `json:"bytes_read"`
}

func (a attentionFlags) report(access attention.Access, seed uint64) attentionReport {
	r := attentionReport{
		Name: a.name, AccessPercent: access.Percent(), SelectedPercent: access.SelectedPercent(),
		BytesPercent: access.BytesPercent(), BytesRead: access.Bytes(),
	}
	if a.name != "dense" {
		r.Budget, r.Parents, r.ParentSize, r.Representatives, r.Seed = a.budget, a.parents, a.parentSize, a.representatives, &seed
	}
	return r
}

// choices splits a comma-separated flag.
func choices(s string) []string {
	var out []string
	for _, c := range strings.Split(s, ",") {
		if c = strings.TrimSpace(c); c != "" {
			out = append(out, c)
		}
	}
	return out
}
