package main

import (
	"context"

	"blitzen/attention"
	"blitzen/attention/centroid"
	"blitzen/attention/dense"
	"blitzen/attention/oracle"
	"blitzen/attention/sampled"
	"blitzen/attention/santa"
	"blitzen/attention/santapp"
	"blitzen/attention/uniform"
	"blitzen/eval/comparison"
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
	block           int
	draw            string
	cluster         string
	minContext      int
	denseLayers     string
	reps            string
	seed            uint64
	groups          groups
	watched         bool // the scores of all layers are kept: compare --report
}

// groups keeps what methods make of the rows of one prompt, by settings, for
// those that differ in budget, seed or score alone; nil keeps nothing.
type groups map[any]closer

type closer interface{ Close() }

// grouped is what make returned the first time that it was asked for with key,
// and what to call when the backend is made.
func grouped[T closer](g groups, key any, make func() (T, error)) (t T, done func(), err error) {
	if t, ok := g[key]; ok {
		return t.(T), func() {}, nil
	}
	if t, err = make(); err != nil {
		return t, func() {}, err
	}
	if g == nil {
		return t, t.Close, nil
	}
	g[key] = t
	return t, func() {}, nil
}

// close frees what is kept.
func (g groups) close() {
	for _, t := range g {
		t.Close()
	}
	clear(g)
}

const (
	parentNames    = "kmeans, contiguous, segmented, probe"
	attentionNames = "santapp, dense, santa, centroid, uniform, oracle"
)

// defaultBudget is S, in keys: what the paper's middle settings use.
const defaultBudget = 512

// defaultBlock is B, the larger of the paper's: as many keys as in a parent.
const defaultBlock = 16

func (a *attentionFlags) register(f *pflag.FlagSet) {
	f.StringVar(&a.name, "attention", "santapp", "decode by `NAME`: "+attentionNames)
	a.registerTeams(f, "--seed")
}

// registerTeams adds the flags of sampled methods alone; seed says what the
// seed is unless given.
func (a *attentionFlags) registerTeams(f *pflag.FlagSet, seed string) {
	f.IntVar(&a.budget, "budget", defaultBudget, "read about `S` prompt keys a query head and step: S/(P/R) teams, S/B clusters")
	f.StringVar(&a.parents, "parents", "kmeans", "group keys first by `NAME`: "+parentNames)
	f.StringVar(&a.cluster, "cluster", clusterLatent, "group the rows of a latent cache (DeepSeek-V2) by `PART`: latent, row")
	f.IntVar(&a.block, "block", defaultBlock, "centroid: `B` keys on average in a cluster")
	f.StringVar(&a.draw, "draw", "independent", "santa: draw `HOW`: independent, systematic")
	a.registerSizes(f, seed)
}

// registerSizes adds the flags that all arms of an evaluation share.
func (a *attentionFlags) registerSizes(f *pflag.FlagSet, seed string) {
	f.IntVar(&a.parentSize, "parent-size", 16, "`P` keys on average in a first group, a parent")
	f.IntVar(&a.representatives, "representatives", 4, "split a parent into at most `R` teams, each with a representative key")
	f.IntVar(&a.minContext, "min-context", 0, "beyond the paper: read a prompt of fewer than `N` tokens exactly")
	f.Var(&listValue{list: &a.denseLayers, set: true}, "dense-layers", "beyond the paper: read the layers of `LIST` exactly, say 0,1 or 0-3")
	f.StringVar(&a.reps, "reps", repsCache, "santapp keeps representatives as `TYPE`: cache, or fp8, beyond the paper")
	f.Uint64Var(&a.seed, "attention-seed", 0, "seed `N` of the sampled teams (default: "+seed+")")
}

// commonSizes are the flags of registerSizes that results files remember beside
// the arms, where they were given; the seed they always hold.
var commonSizes = []string{"parent-size", "representatives", "min-context", "dense-layers", "reps"}

// as is the flags with another method.
func (a attentionFlags) as(name string) attentionFlags {
	a.name = name
	return a
}

// forModel is the flags as the model can use them: without a latent cache keys are
// grouped by all their numbers, whatever --cluster says.
func (a attentionFlags) forModel(l *loaded) attentionFlags {
	if l.specs[0].ClusterDim == 0 {
		a.cluster = clusterLatent
	}
	return a
}

// teamRows are the rows of a team, P/R: the budget of commands that have none.
func (a attentionFlags) teamRows() int { return a.parentSize / max(a.representatives, 1) }

// buildFunc makes a backend over a cache; seed is that of the sampled teams.
type buildFunc func(ctx context.Context, l *loaded, c *kvcache.Cache, seed uint64, progress func(done, of int)) (attention.Backend, error)

// method is the one switch over methods; flag names the one that chose it.
func (a attentionFlags) method(flag string) (buildFunc, error) {
	switch a.name {
	case "dense":
		return func(_ context.Context, l *loaded, _ *kvcache.Cache, _ uint64, _ func(done, of int)) (attention.Backend, error) {
			return dense.New(l.Device, l.Model.CacheSpec())
		}, nil
	case "santapp", "uniform", "oracle":
		return a.teams()
	case "santa":
		return a.santa()
	case "centroid":
		return a.clusters()
	}
	return nil, usagef("%s %q: want one of %s", flag, a.name, attentionNames)
}

// teams is a method that draws SANTA++'s teams.
func (a attentionFlags) teams() (buildFunc, error) {
	cfg, err := a.santapp()
	return func(ctx context.Context, l *loaded, c *kvcache.Cache, seed uint64, progress func(done, of int)) (attention.Backend, error) {
		key, keep := cfg, a.groups
		key.Budget, key.MinContext, key.RepsF8 = 0, 0, false
		if cfg.Covers(c.Frozen()) { // no teams, where another budget wants some
			keep = nil
		}
		t, done, err := grouped(keep, key, func() (santapp.Teams, error) { return santapp.Group(ctx, l.Device, c, cfg, progress) })
		if err != nil {
			return nil, err
		}
		defer done()
		cfg := cfg
		cfg.Seed = seed
		switch a.name {
		case "uniform":
			return uniform.New(l.Device, c, t, cfg)
		case "oracle":
			return oracle.New(l.Device, c, t, cfg, l.Heads)
		}
		return santapp.New(l.Device, c, t, cfg)
	}, err
}

// santa draws rows of the whole cache.
func (a attentionFlags) santa() (buildFunc, error) {
	beyond, err := a.beyondPaper()
	cfg := santa.Config{Budget: a.budget, Systematic: a.draw == "systematic", BeyondPaper: beyond}
	if err == nil {
		err = asUsage(cfg.Validate())
	}
	if a.draw != "independent" && a.draw != "systematic" {
		err = usagef("--draw %q: want one of independent, systematic", a.draw)
	}
	return func(_ context.Context, l *loaded, c *kvcache.Cache, seed uint64, _ func(done, of int)) (attention.Backend, error) {
		cfg := cfg
		cfg.Seed = seed
		return santa.New(l.Device, c, cfg, l.Heads)
	}, err
}

// clusters is centroid-guided sampling.
func (a attentionFlags) clusters() (buildFunc, error) {
	beyond, err := a.beyondPaper()
	cfg := centroid.Config{Block: a.block, Budget: a.budget, WholeRow: a.cluster == clusterRow, BeyondPaper: beyond}
	if err == nil {
		err = a.checkCluster()
	}
	if err == nil {
		err = asUsage(cfg.Validate())
	}
	return func(ctx context.Context, l *loaded, c *kvcache.Cache, seed uint64, progress func(done, of int)) (attention.Backend, error) {
		key, keep := cfg, a.groups
		key.Budget, key.MinContext = 0, 0
		if cfg.Covers(c.Frozen()) {
			keep = nil
		}
		t, done, err := grouped(keep, key, func() (centroid.Clusters, error) { return centroid.Group(ctx, l.Device, c, cfg, progress) })
		if err != nil {
			return nil, err
		}
		defer done()
		cfg := cfg
		cfg.Seed = seed
		return centroid.New(l.Device, c, t, cfg)
	}, err
}

// probes is how many of the prompt's last queries the method needs.
func (a attentionFlags) probes() int {
	if a.usesTeams() && a.parents == teams.Probe.String() {
		return santapp.Probes
	}
	return 0
}

// check refuses an unknown method and settings that do not fit together, before
// a model is loaded.
func (a attentionFlags) check(flag string) error {
	_, err := a.method(flag)
	return err
}

// builder makes the backend for a session. seed is used unless --attention-seed
// was given.
func (a attentionFlags) builder(ctx context.Context, l *loaded, f *pflag.FlagSet, seed uint64, progress func(done, of int)) (comparison.Build, error) {
	return a.seeded(ctx, l, a.seedFor(f, seed), progress)
}

// seeded makes the backend with that attention seed, whatever the flags say.
func (a attentionFlags) seeded(ctx context.Context, l *loaded, seed uint64, progress func(done, of int)) (comparison.Build, error) {
	build, err := a.method("--attention")
	return func(c *kvcache.Cache) (attention.Backend, error) {
		return build(ctx, l, c, seed, progress)
	}, err
}

func (a attentionFlags) santapp() (santapp.Config, error) {
	parents, err := teams.ParseParents(a.parents)
	if err != nil {
		return santapp.Config{}, usageError{err}
	}
	if err := a.checkCluster(); err != nil {
		return santapp.Config{}, err
	}
	beyond, err := a.beyondPaper()
	if err != nil {
		return santapp.Config{}, err
	}
	cfg := santapp.Config{
		Config: teams.Config{ParentSize: a.parentSize, Representatives: a.representatives},
		Budget: a.budget, Parents: parents, WholeRow: a.cluster == clusterRow, RepsF8: a.repsF8(), BeyondPaper: beyond,
	}
	if a.reps != "" && a.reps != repsCache && a.reps != repsF8 { // diagnose has no such flag
		return cfg, usagef("--reps %q: want one of %s, %s", a.reps, repsCache, repsF8)
	}
	return cfg, asUsage(cfg.Validate())
}

// The types of --reps: the cache's own, and a byte a number.
const (
	repsCache = "cache"
	repsF8    = "fp8"
)

// repsF8 reports whether the method scores teams by representatives as F8.
func (a attentionFlags) repsF8() bool { return a.name == "santapp" && a.reps == repsF8 }

// beyondPaper are the settings that the paper does not have.
func (a attentionFlags) beyondPaper() (sampled.BeyondPaper, error) {
	layers, err := sampled.ParseLayers(a.denseLayers)
	return sampled.BeyondPaper{MinContext: a.minContext, DenseLayers: layers}, asUsage(err)
}

// checkLayers refuses --dense-layers that a model of so many layers lacks, or
// that leave none.
func (a attentionFlags) checkLayers(layers int) error {
	set, err := a.beyondPaper()
	all := true
	for i := range layers {
		all = all && set.DenseLayers.Has(i)
	}
	switch {
	case err != nil || !a.samples():
		return err
	case !set.DenseLayers.Within(layers):
		return usagef("--dense-layers %v: the model has layers 0 to %d", set.DenseLayers, layers-1)
	case all:
		return usagef("--dense-layers %v are all layers: use dense attention", set.DenseLayers)
	}
	return nil
}

// The values of --cluster.
const clusterLatent, clusterRow = "latent", "row"

func (a attentionFlags) checkCluster() error {
	if a.cluster != clusterLatent && a.cluster != clusterRow {
		return usagef("--cluster %q: want one of %s, %s", a.cluster, clusterLatent, clusterRow)
	}
	return nil
}

// seedFor is --attention-seed if it was given, else seed.
func (a attentionFlags) seedFor(f *pflag.FlagSet, seed uint64) uint64 {
	if f.Changed("attention-seed") {
		return a.seed
	}
	return seed
}
