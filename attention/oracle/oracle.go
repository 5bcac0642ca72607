// Package oracle is a reference point for SANTA++: its teams, drawn by what
// attention gives them,
//
//	φ_g = ln Σ_{i in g} exp(a·q·k_i),
//
// and read and corrected as package sampled does. No score of a team can say
// more about its mass: what SANTA++ lacks to it is what its representatives do
// not tell. Since every key is scored for it, it is charged as many key reads
// as dense attention.
package oracle

import (
	"blitzen/attention/sampled"
	"blitzen/attention/santapp"
	"blitzen/device"
	"blitzen/kvcache"
)

// New moves the rows of a team together and returns the backend that samples
// the teams for the given number of query heads. After an error Thaw restores
// the cache.
func New(dev device.Device, cache *kvcache.Cache, t santapp.Teams, cfg santapp.Config, heads int) (*sampled.Backend, error) {
	s, err := cfg.Sampling("oracle", t)
	if err != nil {
		return nil, err
	}
	s.Score, s.Heads = sampled.ByMass, heads
	return sampled.New(dev, cache, t.Teams, s)
}
