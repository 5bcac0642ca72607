// Package sampled is decode attention that reads a sample of the prompt: what
// all methods share that draw groups of rows by a score. At each step a query
// head scores the groups, draws K of them by Gumbel-top-(K+1), reads only their
// rows and corrects each for its chance of having been read. Generated tokens
// stay exact.
//
//	φ_g = ln n_g + a·q·ℓ_g                           Route
//	𝒮   = the K largest φ + Gumbel, τ the next       SampleTopK
//	c_g = 1 − exp(−exp(φ_g − τ))
//	Û, Ẑ = Σ_{i in 𝒮} exp(a·q·k_i − ln c)·(v_i, 1)   AttendSelected
//	out = (Û + U_suffix) / (Ẑ + Z_suffix)            Attend, Merge
//
// A method says which groups there are and which key ℓ scores each: santapp an
// actual key of the group, centroid the mean; uniform goes by the size alone,
// oracle by the exact mass. But for the last, Attend issues all of it as one
// operation, AttendTeams. Û and Ẑ are unbiased whatever the scores are; their
// ratio is not.
package sampled

import (
	"fmt"

	"blitzen/attention"
	"blitzen/device"
	"blitzen/kvcache"
)

// Indices into a layer's counters.
const (
	countRouted = iota // groups or rows scored
	countRows          // distinct rows of drawn groups
	countSuffix
	numCounts
)

// Backend samples the frozen prompt and attends exactly to what follows it.
type Backend struct {
	dev     device.Device
	cfg     Config
	spec    kvcache.Spec
	layers  []layer
	prompt  int            // frozen rows, N
	covered bool           // exact attention from row 0 in every layer
	seed    *device.Tensor // U32 [2]
	from    *device.Tensor // I32 [1]: first suffix row, N
	counts  *device.Tensor // I64 [layers, numCounts]
	drawn   int            // K
	mass    massSteps      // with ByMass
	owned   device.Owner
}

// layer is the groups of one layer, nil where it is attended exactly; all tensors
// are padded to the key head with the most groups.
type layer struct {
	keys    *device.Tensor // [kv heads, groups, dk]: what groups are scored by
	logN    *device.Tensor // F32 [kv heads, groups]; −Inf beyond a head's last group
	offsets *device.Tensor // I32 [kv heads, groups+1]
	scored  int64          // what countRouted grows by in a step: groups, with ByMass rows

	// Nil unless observed:
	drawn *device.Tensor // I32 [1, heads, K]
	logC  *device.Tensor // F32 [1, heads, K]
	order [][]int32      // [kv heads][rows]: position of the row in each place
}

// Name is that of the method.
func (b *Backend) Name() string { return b.cfg.Name }

// Exact reports whether the budget covers every group, so that nothing is drawn.
func (b *Backend) Exact() bool { return b.covered }

// Attend issues one decode step of one layer. in.Q must be a single token.
func (b *Backend) Attend(ops *device.Ops, in attention.Input) {
	switch {
	case b.exact(in.Layer):
		ops.Attend(in.Exactly(b.count(in, countRows)))
	case in.Q.Shape[0] != 1:
		ops.Fail(fmt.Errorf("%s: got %d queries at once, decodes one token at a time", b.cfg.Name, in.Q.Shape[0]))
	case b.cfg.Score == ByMass:
		b.attendByMass(ops, in)
		in.Multiply(ops)
	default:
		ops.AttendTeams(b.Args(in))
		in.Multiply(ops)
	}
}

// exact reports whether a layer is attended exactly.
func (b *Backend) exact(layer int) bool { return b.layers[layer].offsets == nil }

// Args are the arguments of the operation that Attend issues while it samples,
// or, with ByMass, takes apart.
func (b *Backend) Args(in attention.Input) device.TeamsArgs {
	l := b.layers[in.Layer]
	return device.TeamsArgs{
		Out: in.Out, Q: in.Q, K: in.K, V: in.V, Reps: l.keys, Bias: l.logN, Offsets: l.offsets, From: b.from,
		Scale: in.Scale, Drawn: b.drawn, Draw: device.Draw{Seed: b.seed, Layer: in.Layer, Pos: in.Pos},
		Routed: b.count(in, countRouted), Rows: b.count(in, countRows), Suffix: b.count(in, countSuffix),
		Teams: l.drawn, LogC: l.logC,
	}
}

// count is one of a layer's counters.
func (b *Backend) count(in attention.Input, i int) *device.Tensor {
	return b.counts.Index(0, in.Layer).Slice(0, i, i+1)
}

// Reseed changes the random stream; the groups stay.
func (b *Backend) Reseed(seed uint64) error {
	return device.WriteSeed(b.dev, b.seed, seed)
}

// Counters are representatives scored, prompt rows and suffix rows read, I64
// [layers, 3].
func (b *Backend) Counters() *device.Tensor { return b.counts }

// Access takes the counters. A step scores every group, so the number scored
// tells how many steps there were.
func (b *Backend) Access(counters []int64) attention.Access {
	a := attention.NewAccess(b.spec, b.dev.DType())
	if b.cfg.KeysF8 {
		a.RoutedBytes = int64(b.spec.KeyDim * device.F8.Size())
	}
	for i := range len(counters) / numCounts {
		c := counters[i*numCounts:]
		a.Rows += c[countRows]
		a.Suffix += c[countSuffix]
		if b.exact(i) {
			a.Dense += c[countRows]
			continue
		}
		dense := c[countRouted]/b.layers[i].scored*int64(b.spec.KVHeads*b.prompt) + c[countSuffix]
		a.Dense += dense
		switch b.cfg.Score {
		case ByKey:
			a.Routed += c[countRouted]
		case ByMass:
			a.Routed += dense
		}
	}
	return a
}

// Close frees the backend's tensors. The cache keeps the order that New gave
// it until Thaw.
func (b *Backend) Close() { b.owned.Free() }
