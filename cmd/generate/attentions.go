package main

import (
	"context"
	"fmt"
	"strings"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/attention/santapp"
	"blitzen/device"
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
	cluster         string
	seed            uint64
	groups          groups
}

// groups keeps the teams of one prompt for methods that differ in budget or
// seed alone; nil keeps nothing.
type groups map[santapp.Config]santapp.Teams

func (g groups) of(cfg santapp.Config, group func() (santapp.Teams, error)) (santapp.Teams, error) {
	cfg.Budget, cfg.Seed = 0, 0
	if t, ok := g[cfg]; ok {
		return t, nil
	}
	t, err := group()
	if err == nil && g != nil {
		g[cfg] = t
	}
	return t, err
}

const attentionNames = "santapp, dense"

// defaultBudget is S, in keys: what the paper's middle settings use.
const defaultBudget = 512

func (a *attentionFlags) register(f *pflag.FlagSet) {
	f.StringVar(&a.name, "attention", "santapp", "decode by the method `NAME`: "+attentionNames)
	a.registerTeams(f, "--seed")
}

// registerTeams adds the flags of sampled methods alone; seed says what the
// seed is unless given.
func (a *attentionFlags) registerTeams(f *pflag.FlagSet, seed string) {
	f.IntVar(&a.budget, "budget", defaultBudget, "read about `S` prompt keys a query head and step: K = S/(P/R) teams")
	f.StringVar(&a.parents, "parents", "kmeans", "group keys first by `NAME`: kmeans, contiguous")
	f.StringVar(&a.cluster, "cluster", "latent", "group the rows of a latent cache (DeepSeek-V2) by `PART`: latent, row")
	a.registerSizes(f, seed)
}

func (a *attentionFlags) registerSizes(f *pflag.FlagSet, seed string) {
	f.IntVar(&a.parentSize, "parent-size", 16, "`P` keys on average in a first group, a parent")
	f.IntVar(&a.representatives, "representatives", 4, "split a parent into at most `R` teams, each with a representative key")
	f.Uint64Var(&a.seed, "attention-seed", 0, "seed `N` of the sampled teams (default: "+seed+")")
}

// as is the flags with another method.
func (a attentionFlags) as(name string) attentionFlags {
	a.name = name
	return a
}

// buildFunc makes a backend over a cache; seed is that of the sampled teams.
type buildFunc func(ctx context.Context, l *loaded, c *kvcache.Cache, seed uint64, progress func(layer, of int)) (attention.Backend, error)

// method is the one switch over methods; flag names the one that chose it.
func (a attentionFlags) method(flag string) (buildFunc, error) {
	switch a.name {
	case "dense":
		return func(_ context.Context, l *loaded, _ *kvcache.Cache, _ uint64, _ func(layer, of int)) (attention.Backend, error) {
			return dense.New(l.Device, l.Model.CacheSpec())
		}, nil
	case "santapp":
		cfg, err := a.santapp()
		return func(ctx context.Context, l *loaded, c *kvcache.Cache, seed uint64, progress func(layer, of int)) (attention.Backend, error) {
			cfg.Seed = seed
			t, err := a.groups.of(cfg, func() (santapp.Teams, error) { return santapp.Group(ctx, l.Device, c, cfg, progress) })
			if err != nil {
				return nil, err
			}
			return santapp.New(l.Device, c, t, cfg)
		}, err
	}
	return nil, usagef("%s %q: want one of %s", flag, a.name, attentionNames)
}

// check refuses an unknown method and settings that do not fit together, before
// a model is loaded.
func (a attentionFlags) check(flag string) error {
	_, err := a.method(flag)
	return err
}

// builder makes the backend for a session. seed is used unless --attention-seed
// was given.
func (a attentionFlags) builder(ctx context.Context, l *loaded, f *pflag.FlagSet, seed uint64, progress func(layer, of int)) (func(*kvcache.Cache) (attention.Backend, error), error) {
	build, err := a.method("--attention")
	return func(c *kvcache.Cache) (attention.Backend, error) {
		return build(ctx, l, c, a.seedFor(f, seed), progress)
	}, err
}

func (a attentionFlags) santapp() (santapp.Config, error) {
	parents, err := teams.ParseParents(a.parents)
	if err != nil {
		return santapp.Config{}, usageError{err}
	}
	if a.cluster != "latent" && a.cluster != "row" {
		return santapp.Config{}, usagef("--cluster %q: want one of latent, row", a.cluster)
	}
	cfg := santapp.Config{
		Config: teams.Config{ParentSize: a.parentSize, Representatives: a.representatives},
		Budget: a.budget, Parents: parents, WholeRow: a.cluster == "row",
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}

// rowBytes is what the method keeps beside the cache for every prompt token, at
// most: a representative for P/R keys, with the size and the first row of its
// team.
func (a attentionFlags) rowBytes(specs []kvcache.Spec, d device.DType) int64 {
	if !a.usesTeams() {
		return 0
	}
	n := 0
	for _, s := range specs {
		n += s.KVHeads * (s.KeyDim*d.Size() + 2*device.I32.Size())
	}
	return int64((n*a.representatives + a.parentSize - 1) / a.parentSize)
}

// seedFor is --attention-seed if it was given, else seed.
func (a attentionFlags) seedFor(f *pflag.FlagSet, seed uint64) uint64 {
	if f.Changed("attention-seed") {
		return a.seed
	}
	return seed
}

// usesTeams reports whether the method groups keys into teams, so that the
// flags of teams mean something.
func (a attentionFlags) usesTeams() bool { return a.name == "santapp" }

// label names the method with the settings that matter.
func (a attentionFlags) label() string {
	if !a.usesTeams() {
		return a.name
	}
	row := ""
	if a.cluster == "row" {
		row = " whole rows"
	}
	return fmt.Sprintf("%s (%s%s, S %d)", a.name, a.parents, row, a.budget)
}

// attentionReport is what results say of the method and its reads.
type attentionReport struct {
	Name            string  `json:"name"`
	Budget          int     `json:"budget,omitempty"`
	Parents         string  `json:"parents,omitempty"`
	ParentSize      int     `json:"parent_size,omitempty"`
	Representatives int     `json:"representatives,omitempty"`
	Cluster         string  `json:"cluster,omitempty"`
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
	if a.usesTeams() {
		r.Budget, r.Parents, r.ParentSize, r.Representatives, r.Seed = a.budget, a.parents, a.parentSize, a.representatives, &seed
		if access.Vectors == 1 { // a latent cache
			r.Cluster = a.cluster
		}
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
