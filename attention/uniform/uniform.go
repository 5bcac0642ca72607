// Package uniform is a reference point for SANTA++: its teams, drawn in
// proportion to their size, whatever the query,
//
//	φ_g = ln n_g,
//
// and read and corrected as package sampled does. What SANTA++ gains over it is
// what its representatives tell. No keys are read to choose teams.
package uniform

import (
	"blitzen/attention/sampled"
	"blitzen/attention/santapp"
	"blitzen/device"
	"blitzen/kvcache"
)

// New moves the rows of a team together and returns the backend that samples
// the teams. After an error Thaw restores the cache.
func New(dev device.Device, cache *kvcache.Cache, t santapp.Teams, cfg santapp.Config) (*sampled.Backend, error) {
	s, err := cfg.Sampling("uniform", t)
	if err != nil {
		return nil, err
	}
	s.Score = sampled.BySize
	return sampled.New(dev, cache, t.Teams, s)
}
