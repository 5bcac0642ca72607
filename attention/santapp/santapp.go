// Package santapp is SANTA++: after prefill the cached keys of each layer and
// key head are grouped into teams (package teams); at each step a query head
// scores one representative key ℓ_g, an actual key, per team of n_g rows,
//
//	φ_g = ln n_g + a·q·ℓ_g,
//
// and package sampled draws teams by φ, reads their rows and corrects each for
// its chance of having been read. estimator.go holds the same in float64 for
// the tests.
package santapp

import (
	"context"
	"fmt"

	"blitzen/attention/sampled"
	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/teams"
)

// Config are the method's settings.
type Config struct {
	teams.Config               // parent size P and representatives R
	Budget       int           // S: K = S/(P/R) teams are drawn a query head
	Parents      teams.Parents // how keys are first grouped
	WholeRow     bool          // latent cache: group by latent and rotary part, not by the latent alone
	RepsF8       bool          // keep representatives as F8: beyond the paper
	Seed         uint64
	sampled.BeyondPaper
	// SampleAlways samples even where the budget covers every team, where exact
	// attention would do: for tests of the sampled path.
	SampleAlways bool
}

// Validate refuses settings that do not fit together, naming the flags.
func (c Config) Validate() error {
	if err := c.BeyondPaper.Validate(); err != nil {
		return err
	}
	return c.Config.Validate(c.Budget)
}

// Covers reports whether a prompt of n rows is attended exactly whatever its
// teams will be: the budget covers the most that there can be, or the prompt is
// short.
func (c Config) Covers(n int) bool {
	most := c.Most(n, c.Parents)
	return !c.SampleAlways && (n < c.MinContext || most <= c.Selected(c.Budget, most))
}

// Build groups the frozen rows of cache into teams, where they are needed, and
// returns the backend that samples them. progress, if not nil, is told how much
// is done.
func Build(ctx context.Context, dev device.Device, cache *kvcache.Cache, cfg Config, progress func(done, of int)) (*sampled.Backend, error) {
	t, err := Group(ctx, dev, cache, cfg, progress)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return New(dev, cache, t, cfg)
}

// New moves the rows of a team together and returns the backend that samples
// the teams. After an error Thaw restores the cache.
func New(dev device.Device, cache *kvcache.Cache, t Teams, cfg Config) (*sampled.Backend, error) {
	s, err := cfg.Sampling("santapp", t)
	if err != nil {
		return nil, err
	}
	s.KeysF8 = cfg.RepsF8
	s.Keys = func(dst, rows *device.Tensor, first int) error {
		ids := t.Reps.Slice(0, first, first+dst.Shape[0]).Slice(1, 0, dst.Shape[1])
		return dev.Run(func(ops *device.Ops) { ops.GatherRows(dst, rows, ids) })
	}
	return sampled.New(dev, cache, t.Teams, s)
}

// Sampling is how these settings have a method of the given name draw the
// teams, but for the keys that it scores them by.
func (c Config) Sampling(name string, t Teams) (sampled.Config, error) {
	if err := c.Validate(); err != nil {
		return sampled.Config{}, fmt.Errorf("%s: %w", name, err)
	}
	return sampled.Config{
		Name: name, Drawn: c.Selected(c.Budget, t.rows), Seed: c.Seed, BeyondPaper: c.BeyondPaper, Exact: c.Covers(t.rows), SampleAlways: c.SampleAlways,
	}, nil
}
