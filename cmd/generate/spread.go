package main

import (
	"fmt"
	"io"
	"math"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/decode"
	"blitzen/kvcache"
)

// printSpread says, for a latent cache that is to be sampled, which part of a
// key spreads the scores: what --cluster should be chosen by.
func (a attentionFlags) printSpread(w io.Writer, l *loaded, s *decode.Session) error {
	if !a.groupsKeys() || l.specs[0].ClusterDim == 0 {
		return nil
	}
	var probe *record.Spread
	err := s.Probe(func(c *kvcache.Cache) (attention.Backend, error) {
		var err error
		probe, err = record.NewSpread(l.Device, c, l.Heads)
		return probe, err
	})
	if probe != nil {
		defer probe.Close()
	}
	if err != nil {
		return err
	}
	spreads, err := probe.Deviations()
	if err != nil {
		return err
	}
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{}
	for _, layer := range spreads {
		for i, part := range []float64{layer.Latent, layer.Rotary} {
			low[i], high[i] = min(low[i], part), max(high[i], part)
		}
	}
	advice := ""
	if a.cluster == clusterLatent && high[0] < low[1] {
		advice = ": --cluster row fits this checkpoint better"
	}
	_, err = fmt.Fprintf(w, "spread of the scores of prompt rows, by layer: latent part %.1f to %.1f, rotary part %.1f to %.1f; grouped by %s%s\n",
		low[0], high[0], low[1], high[1], a.cluster, advice)
	return err
}
