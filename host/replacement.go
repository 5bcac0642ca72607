package host

import (
	"fmt"
	"math"
	"sort"

	"blitzen/device"
)

// SampleWithReplacement implements device.Kernels. Running sums are in float64.
func (k *hostKernels) SampleWithReplacement(a device.ReplacementArgs) error {
	if ok, err := k.start(outputs{a.Teams, a.LogC}, a.Phi, a.Draw.Seed, a.Draw.Pos); !ok {
		return err
	}
	heads, teams := a.Phi.Shape[1], a.Phi.Shape[2]
	if err := k.pool.lend(2 * teams); err != nil {
		return err
	}
	k.pool.run(a.Phi.Shape[0]*heads, func(thread, i int) {
		t, h := i/heads, i%heads
		replaced(a, t, h, slice(k.pool.doubles(thread), teams))
	})
	return nil
}

// replaced draws for one query head; sums is memory for as many numbers as
// there are teams.
func replaced(a device.ReplacementArgs, t, h int, sums []float64) {
	phi, teams, logC := row[float32](a.Phi, t, h), row[int32](a.Teams, t, h), row[float32](a.LogC, t, h)
	top := math.Inf(-1)
	for _, p := range phi {
		top = max(top, float64(p))
	}
	total := 0.0
	for g, p := range phi {
		if !absent(p) {
			total += math.Exp(float64(p) - top)
		}
		sums[g] = total
	}
	if total == 0 {
		for j := range teams {
			teams[j], logC[j] = -1, 0
		}
		return
	}
	uniform := uniforms(a, t, h)
	norm := math.Log(float64(len(teams))) - top - math.Log(total)
	for j := range teams {
		// The first whose sum exceeds the target; every target is below the total,
		// but a rounded product may not be.
		target := min(uniform(j)*total, math.Nextafter(total, 0))
		g := sort.Search(len(sums)-1, func(g int) bool { return sums[g] > target })
		teams[j], logC[j] = int32(g), float32(float64(phi[g])+norm)
	}
}

// uniforms is the random number of each draw of a head.
func uniforms(a device.ReplacementArgs, t, h int) func(j int) float64 {
	seed, pos := row[uint32](a.Draw.Seed), row[int32](a.Draw.Pos)[t]
	at := func(j int) float64 {
		words := device.Philox([4]uint32{uint32(j) / 4, uint32(h), uint32(a.Draw.Layer), uint32(pos)}, [2]uint32{seed[0], seed[1]})
		return device.Uniform(words[j%4])
	}
	if !a.Systematic {
		return at
	}
	start, draws := at(0), float64(a.Teams.Shape[2])
	return func(j int) float64 { return (float64(j) + start) / draws }
}

// GroupMass implements device.Kernels.
func (k *hostKernels) GroupMass(phi, scores, offsets *device.Tensor) error {
	if ok, err := k.start(outputs{phi}, scores, offsets); !ok {
		return err
	}
	tokens, heads, rows := phi.Shape[0], phi.Shape[1], scores.Shape[2]
	for kv := range offsets.Shape[0] {
		last := int32(0)
		for g, o := range row[int32](offsets, kv) {
			if o < last || int(o) > rows {
				return fmt.Errorf("group %d of head %d starts at row %d of %d, the one before it at %d", g, kv, o, rows, last)
			}
			last = o
		}
	}
	group := heads / offsets.Shape[0]
	k.pool.run(tokens*heads, func(_, i int) {
		t, h := i/heads, i%heads
		s, starts := row[float32](scores, t, h), row[int32](offsets, h/group)
		for g := range row[float32](phi, t, h) {
			row[float32](phi, t, h)[g] = logSumExp(s[starts[g]:starts[g+1]])
		}
	})
	return nil
}

// logSumExp is ln Σ exp(x), −Inf for no terms.
func logSumExp(x []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = max(top, v)
	}
	if absent(top) {
		return top
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v - top))
	}
	return top + float32(math.Log(sum))
}
