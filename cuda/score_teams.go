package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// Numbers of kernels/teams_score.cu and kernels/teams_score_wide.cu.
const (
	slabTeams  = 32
	scoreWarps = 8
	scoreSlots = 2   // slabs of a strand in shared memory, at most; twice as many of F8
	narrowKey  = 192 // columns, up to which a warp has registers for whole queries
	wideHeads  = 16  // of a key head
	wideTeams  = 64  // that a warpgroup of teams_score_wide multiplies
	wideGroups = 2   // warpgroups
	wideStages = 11  // panels of 64 columns that one has in shared memory, at most
	widePace   = 5   // of these under way before the query is there
)

// forScores reports whether representatives can be multiplied with queries: they
// are of one type, or F8 in whole 64 bytes, and can be read by 16 bytes.
func forScores(reps, q *device.Tensor) bool {
	if reps.DType == device.F8 {
		return reps.Shape[2]%64 == 0 && vectorOf(16, reps) == 16
	}
	return alike(q, reps)
}

// planScore divides the slabs of teams among the warps of teams_score, for keys of dk
// columns. Room is that of its struct Memory; the kernel says when it is too small.
func (p *teamsPlan) planScore(dk, multiprocessors int) {
	p.split = 1
	p.scoreRoom = 512 + p.group*(2*dk+64) // barriers, counters; the query
	if dk > narrowKey {
		p.split = 4
		p.scoreRoom += 4 * 32 * scoreWarps * 8 * ceil(p.group, 8)
	}
	strands := scoreWarps / p.split
	p.scoreBlocks = max(1, min(multiprocessors/p.keyHeads, p.slabs))
	slots, row := scoreSlots, 2*dk
	if p.eight == 1 {
		slots, row = 2*scoreSlots, dk
	}
	p.slots = min(slots, ceil(p.slabs, p.scoreBlocks*strands))
	p.scoreRoom += 4 * slabTeams * strands * p.slots // biases
	p.scoreRing = strands * p.slots * slabTeams * ceil(row, 128) * 128
}

// forWide reports whether teams_score_wide, with Hopper's products of warpgroups, is
// for keys of dk columns.
func (p *teamsPlan) forWide(dk, capability int) bool {
	return capability == hopper && p.eight == 0 && p.group <= wideHeads && dk > narrowKey && dk%64 == 0
}

// planWide is planScore for teams_score_wide, which scores beside teams_attend where
// there is room for all representatives at once.
func (p *teamsPlan) planWide(heads, dk, multiprocessors int) {
	panels, runs := dk/64, ceil(p.slabs*slabTeams, wideTeams)
	each := func(blocks int) int { return ceil(runs, blocks*wideGroups) * panels } // of a warpgroup
	p.scoreBlocks = max(1, min(multiprocessors/p.keyHeads, runs))
	if beside := (multiprocessors - heads*p.cluster) / p.keyHeads; beside > 0 && each(beside) <= wideStages {
		p.scoreBlocks = min(beside, runs)
	}
	p.slots = min(wideStages, each(p.scoreBlocks))
	p.scoreRing = wideGroups * p.slots * 128 * wideTeams
	p.scoreRoom = 2048*panels + wideGroups*(2*16*(slabTeams+4)*4+16*p.slots+8) + 16 // the query; sums, barriers; a barrier, a count
}

type teamsScoreArgs struct {
	reps            driver.TensorMap
	y, top          mat
	seen            vec
	phi, q          cube
	bias, offsets   mat
	seed, pos, read vec
	factor          vec
	step            int64
	teams, words    int32
	layer           uint32
	scale           float32
	early           int32
	_               [12]byte // a TensorMap's alignment
}

type teamsWideArgs struct {
	reps, query     driver.TensorMap
	y, top          mat
	seen            vec
	phi             cube
	bias, offsets   mat
	seed, pos, read vec
	teams, words    int32
	layer           uint32
	scale           float32
	early           int32
	_               [52]byte // a TensorMap's alignment
}

// scores is the kernel that scores teams.
func (p *teamsPlan) scores() string {
	if p.wide {
		return "teams_score_wide"
	}
	return "teams_score"
}

// scoreTeams launches it. It leaves perturbed scores in y [heads, slabs · 32], the largest
// of groups in top [heads, groups], and so many words a key head zero.
func (c *call) scoreTeams(a device.TeamsArgs, p teamsPlan, y, top mat, zero vec, words int, early int32) error {
	if p.wide {
		return c.scoreWide(a, p, y, top, zero, words, early)
	}
	c.as("ELEMENT", a.Q.DType).set("EIGHT", p.eight).set("DK", a.Q.Shape[2]).set("HEADS", p.group).set("SPLIT", p.split).set("SLOTS", p.slots)
	c.set("GROUP", p.perGroup).set("ROOM", p.scoreRoom).set("REPORT", given(a.Phi))
	args := teamsScoreArgs{
		reps: c.boxes(a.Reps, 1, slabTeams, 64), y: y, top: top, seen: zero, phi: c.cubeIf(a.Phi), q: c.cube(a.Q), bias: c.mat(a.Bias), offsets: c.mat(a.Offsets),
		seed: c.vec(a.Draw.Seed), pos: c.vec(a.Draw.Pos), read: c.vec(a.Routed), teams: int32(a.Reps.Shape[1]), words: int32(words), layer: uint32(a.Draw.Layer), scale: a.Scale, early: early,
	}
	args.factor, args.step = c.factors(a.Reps)
	grid := driver.Grid{X: p.scoreBlocks, Y: p.keyHeads, Z: 1, Threads: 32 * scoreWarps, Early: true}
	return launch(c, "teams_score", grid, p.scoreShared(), &args)
}

// scoreWide is scoreTeams for teams_score_wide.
func (c *call) scoreWide(a device.TeamsArgs, p teamsPlan, y, top mat, zero vec, words int, early int32) error {
	c.as("ELEMENT", a.Q.DType).set("DK", a.Q.Shape[2]).set("HEADS", p.group).set("WARPGROUPS", wideGroups).set("STAGES", p.slots).set("PACE", widePace)
	c.set("GROUP", p.perGroup).set("ROOM", p.scoreRoom).set("REPORT", given(a.Phi))
	args := teamsWideArgs{
		reps: c.boxes(a.Reps, 1, wideTeams, 64), query: c.boxes(a.Q, 1, wideHeads, 64), y: y, top: top, seen: zero, phi: c.cubeIf(a.Phi), bias: c.mat(a.Bias), offsets: c.mat(a.Offsets),
		seed: c.vec(a.Draw.Seed), pos: c.vec(a.Draw.Pos), read: c.vec(a.Routed), teams: int32(a.Reps.Shape[1]), words: int32(words), layer: uint32(a.Draw.Layer), scale: a.Scale, early: early,
	}
	grid := driver.Grid{X: p.scoreBlocks, Y: p.keyHeads, Z: 1, Threads: 160*wideGroups + 32, Early: true}
	return launch(c, "teams_score_wide", grid, p.scoreShared(), &args)
}
