package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

type routeArgs struct {
	phi, q, reps cube
	bias         mat
	last, read   vec
	factor       vec
	step         int64
	teams, group int32
	scale        float32
	_            int32
}

// Route implements device.Kernels.
func (k *kernels) Route(a device.RouteArgs) error {
	heads, keyHeads, teams := a.Q.Shape[1], a.Reps.Shape[0], a.Reps.Shape[1]
	group := heads / keyHeads
	atOnce := min(group, headsAtOnce)
	c := k.call("route").attentionTypes(a.Q, a.Reps, a.Reps, atOnce)
	args := routeArgs{
		phi: c.cube(a.Phi), q: c.cube(a.Q), reps: c.cube(a.Reps), bias: c.mat(a.Bias), last: c.vec(a.Last), read: c.vec(a.Read),
		teams: int32(teams), group: int32(group), scale: a.Scale,
	}
	args.factor, args.step = c.factors(a.Reps)
	grid := driver.Grid{X: ceil(teams, tileRow), Y: keyHeads * ceil(group, atOnce), Z: a.Q.Shape[0], Threads: threads}
	return launch(c, "route", grid, 0, &args)
}

// factors are those of the heads of an F8 tensor, and how far apart they lie; 0 for
// another type.
func (c *call) factors(t *device.Tensor) (at vec, step int64) {
	if t.DType != device.F8 {
		return 0, 0
	}
	return c.vec(t.Scale), int64(t.Scale.Stride[0])
}

type quantizeArgs struct {
	dst, src cube
	factor   vec
	step     int64
	top      vec
	n, d     int32
}

// Quantize implements device.Kernels.
func (k *kernels) Quantize(dst, src *device.Tensor) error {
	heads, n := src.Shape[0], src.Shape[1]
	c := k.call("quantize").as("SRC", src.DType)
	args := quantizeArgs{dst: c.cube(dst), src: c.cube(src), top: c.scratch(4 * heads)[0], n: int32(n), d: int32(src.Shape[2])}
	args.factor, args.step = c.factors(dst)
	c.clear(args.top, 4*heads)
	grid := driver.Grid{X: min(n, 4*k.card.multiprocessors), Y: heads, Z: 1, Threads: threads}
	if err := launch(c, "largest", grid, 0, &args); err != nil {
		return err
	}
	return launch(c, "quantize", grid, 0, &args)
}

type sampleTopKArgs struct {
	teams, logc, phi   cube
	seed, pos, y, best vec
	m, k, layer, pad   int32
}

// SampleTopK implements device.Kernels.
func (k *kernels) SampleTopK(a device.TopKArgs) error {
	tokens, heads, m, n := a.Phi.Shape[0], a.Phi.Shape[1], a.Phi.Shape[2], a.Teams.Shape[2]
	c := k.call("sample_topk")
	s := c.scratch(4*tokens*heads*m, 8*tokens*heads*(n+1))
	args := sampleTopKArgs{
		c.cube(a.Teams), c.cube(a.LogC), c.cube(a.Phi), c.vec(a.Draw.Seed), c.vec(a.Draw.Pos), s[0], s[1],
		int32(m), int32(n), int32(uint32(a.Draw.Layer)), 0,
	}
	return launch(c, "sample_topk", driver.Grid{X: heads, Y: tokens, Z: 1, Threads: 1024}, 0, &args)
}

type replacementArgs struct {
	teams, logc, phi     cube
	seed, pos            vec
	m, draws, layer, sys int32
}

// SampleWithReplacement implements device.Kernels.
func (k *kernels) SampleWithReplacement(a device.ReplacementArgs) error {
	c := k.call("sample_replacement")
	args := replacementArgs{
		c.cube(a.Teams), c.cube(a.LogC), c.cube(a.Phi), c.vec(a.Draw.Seed), c.vec(a.Draw.Pos),
		int32(a.Phi.Shape[2]), int32(a.Teams.Shape[2]), int32(uint32(a.Draw.Layer)), 0,
	}
	if a.Systematic {
		args.sys = 1
	}
	return launch(c, "sample_replacement", driver.Grid{X: a.Phi.Shape[1], Y: a.Phi.Shape[0], Z: 1, Threads: 1024}, 0, &args)
}

type groupMassArgs struct {
	phi, scores         cube
	offsets             mat
	groups, rows, group int32
	pad                 int32
}

// GroupMass implements device.Kernels.
func (k *kernels) GroupMass(phi, scores, offsets *device.Tensor) error {
	c := k.call("group_mass")
	heads, groups := phi.Shape[1], phi.Shape[2]
	args := groupMassArgs{c.cube(phi), c.cube(scores), c.mat(offsets), int32(groups), int32(scores.Shape[2]), int32(heads / offsets.Shape[0]), 0}
	return launch(c, "group_mass", driver.Grid{X: ceil(groups, threads/32), Y: heads, Z: phi.Shape[0], Threads: threads}, 0, &args)
}

type selectedArgs struct {
	parts                         vec
	q, k, v                       cube
	offsets                       mat
	drawn, logc                   cube
	starts, lengths, seen, read   vec
	heads, group, teams, n, words int32
	scale                         float32
}

// AttendSelected implements device.Kernels. Tokens go in bunches, which bounds
// the scratch memory.
func (k *kernels) AttendSelected(a device.SelectedArgs) error {
	for from := 0; from < a.Q.Shape[0]; from += fewTokens {
		to := min(from+fewTokens, a.Q.Shape[0])
		part := a
		part.Q, part.Teams, part.LogC = a.Q.Slice(0, from, to), a.Teams.Slice(0, from, to), a.LogC.Slice(0, from, to)
		part.Out.Out = a.Out.Out.Slice(0, from, to)
		if a.Out.LSE != nil {
			part.Out.LSE = a.Out.LSE.Slice(0, from, to)
		}
		if err := k.attendSelected(part); err != nil {
			return err
		}
	}
	return nil
}

func (k *kernels) attendSelected(a device.SelectedArgs) error {
	tokens, heads, keyHeads, dv := a.Q.Shape[0], a.Q.Shape[1], a.K.Shape[0], a.V.Shape[2]
	teams, n := a.Offsets.Shape[1]-1, a.Teams.Shape[2]
	c := k.call("attend_selected").attentionTypes(a.Q, a.K, a.V, 1)
	words := ceil(max(teams, 1), 32)
	seenBytes := 4 * tokens * keyHeads * words
	s := c.scratch(4*tokens*heads*splits*(dv+2), 4*tokens*heads*(n+1), 4*tokens*heads, seenBytes)
	args := selectedArgs{
		s[0], c.cube(a.Q), c.cube(a.K), c.cube(a.V), c.mat(a.Offsets), c.cube(a.Teams), c.cube(a.LogC), s[1], s[2], s[3], c.vec(a.Read),
		int32(heads), int32(heads / keyHeads), int32(teams), int32(n), int32(words), a.Scale,
	}
	if err := launch(c, "list", driver.Grid{X: heads, Y: tokens, Z: 1, Threads: threads}, 0, &args); err != nil {
		return err
	}
	if a.Read != nil {
		c.clear(s[3], seenBytes)
		if err := launch(c, "count", driver.Grid{X: keyHeads, Y: tokens, Z: 1, Threads: threads}, 0, &args); err != nil {
			return err
		}
	}
	if err := launch(c, "attend_selected", driver.Grid{X: splits, Y: heads, Z: tokens, Threads: threads}, 0, &args); err != nil {
		return err
	}
	return k.mergeParts(a.Out, mergePartsArgs{parts: s[0], lengths: s[2]})
}

type sampleArgs struct {
	id, logits, seen, settings, seed, pos, adjusted, state vec
	vocab, chunk                                           int32
}

// sampleState is the scratch memory of kernels/sample.cuh beside a copy of the
// logits, in bytes.
const sampleState = 1 << 16

// Sample implements device.Kernels.
func (k *kernels) Sample(a device.SampleArgs) error { return k.sample(a, false) }

// sample looks at all tokens by one block, where it is to be plain: for tests.
func (k *kernels) sample(a device.SampleArgs, plain bool) error {
	vocab := a.Logits.Shape[0]
	chunk, chunks := chunksOf(vocab)
	var args sampleArgs
	for _, l := range []struct {
		kernel  string
		threads int
	}{{"adjust", threads}, {"weigh", threads}, {"choose", 1024}} {
		c := k.call("sample_" + l.kernel)
		if plain {
			c.set("PLAIN_ALWAYS", 1)
		}
		if args.state == 0 {
			s := c.scratch(4*vocab, sampleState)
			args = sampleArgs{
				c.vec(a.ID), c.vec(a.Logits), c.vec(a.Seen), c.vec(a.Settings), c.vec(a.Seed), c.vec(a.Pos), s[0], s[1], int32(vocab), int32(chunk),
			}
		}
		if err := launch(c, l.kernel, k.early(blocks(chunks, l.threads)), 0, &args); err != nil {
			return err
		}
	}
	return nil
}

// chunksOf cuts a vocabulary into at most 1,024 chunks, one a block.
func chunksOf(vocab int) (chunk, chunks int) {
	chunk = 1024 * ceil(vocab, 1024*1024)
	return chunk, ceil(vocab, chunk)
}

type logProbsArgs struct {
	ids, logprobs, chosen, logits, id, best, tops, sums vec
	n, vocab, chunks, _                                 int32
}

// TopLogProbs implements device.Kernels.
func (k *kernels) TopLogProbs(a device.LogProbArgs) error {
	c := k.call("logprobs")
	n, vocab := a.IDs.Shape[0], a.Logits.Shape[0]
	chunks := ceil(vocab, 1024)
	args := logProbsArgs{
		ids: c.vec(a.IDs), logprobs: c.vec(a.LogProbs), chosen: c.vec(a.Chosen), logits: c.vec(a.Logits), id: c.vec(a.ID),
		n: int32(n), vocab: int32(vocab), chunks: int32(chunks),
	}
	if n > 32 || chunks > 256 {
		return launch(c, "top_logprobs", k.early(blocks(1, 1024)), 0, &args)
	}
	s := c.scratch(8*chunks*n, 4*chunks, 4*chunks)
	args.best, args.tops, args.sums = s[0], s[1], s[2]
	if err := launch(c, "chunks", k.early(blocks(chunks, threads)), 0, &args); err != nil {
		return err
	}
	return launch(c, "join", k.early(blocks(1, 1024)), 0, &args)
}
