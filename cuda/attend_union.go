package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// Numbers of kernels/teams_union.cu.
const (
	manyDrawn  = 385 // teams, of which heads have so many in common that rows are read once for all
	mostParts  = 16
	mostPasses = 4
)

// unionPlan is how teams_union divides the work.
type unionPlan struct {
	teamsPlan
	parts  int // of a key head's teams, for as many blocks as there are heads; and of the columns
	each   int // scores of a thread
	unit   int // of these that the first histogram takes for one
	passes int // of a block over its teams
}

// planUnion plans to read rows once for all heads of a key head; false where that
// is not for these arguments. All blocks are on the card at once, one a
// multiprocessor: they wait for each other.
func (k *kernels) planUnion(a device.TeamsArgs) (p unionPlan, ok bool) {
	teams, keyHeads, dk, dv := a.Reps.Shape[1], a.K.Shape[0], a.Q.Shape[2], a.V.Shape[2]
	p.keyHeads, p.group, p.slabs = keyHeads, a.Q.Shape[1]/keyHeads, ceil(teams, slabTeams)
	heads := keyHeads * p.group
	quads := ceil(teams, 4)
	// Fewer drawn will do where there is not a quad for each: teams_attend, which looks at quads' largest scores, would then
	// look for the border by bits.
	least := min(manyDrawn, max(quads, fewDrawn+1))
	if a.Drawn < least || quads > mostQuads*attendThreads || p.group < 2 || p.group > groupedHeads || heads > k.card.multiprocessors ||
		dk != dv || dk != 64 && dk != 128 {
		return p, false
	}
	if a.Reps.DType == device.F8 {
		p.eight = 1
	}
	p.planScore(dk, k.card.multiprocessors)
	for p.parts = 1; p.parts < mostParts && 2*p.parts*heads <= k.card.multiprocessors; { // they divide the columns
		p.parts *= 2
	}
	blocks := p.parts * p.group
	p.each = 4 * ceil(teams, 4*attendThreads)
	p.unit = 1
	if quads >= 2*(a.Drawn+1) {
		p.unit = 4
	}
	p.passes = ceil(quads, blocks*(attendThreads/8))
	p.depth = 2
	p.attendRoom = 24576 + 8192*p.passes // struct Memory, of which a pass has 256 teams' corrections for 8 heads
	p.attendRing = p.depth * attendThreads * dk
	return p, p.passes <= mostPasses
}

type teamsUnionArgs struct {
	out, teams, logc, q, k, v cube
	y, offsets                mat
	parts, told               vec
	seed, from, pos           vec
	rows, suffix              vec
	there, drawn, capacity    int32
	layer                     uint32
	scale                     float32
	early                     int32
}

// attendTeamsUnion issues teams_score and teams_union.
func (k *kernels) attendTeamsUnion(a device.TeamsArgs, p unionPlan) error {
	heads, d, blocks := a.Q.Shape[1], a.Q.Shape[2], p.parts*p.group
	c := k.call("teams_score")
	early := c.frozen(a.Reps, a.Reps.Scale, a.Bias, a.Offsets, a.From, a.Draw.Seed, a.Draw.Pos)
	s := c.scratch(4*heads*p.slabs*slabTeams, 4*heads*blocks*(d+2), 8*p.keyHeads*(blocks+1))
	y := mat{s[0], int64(p.slabs * slabTeams)}
	if err := c.scoreTeams(a, p.teamsPlan, y, mat{}, s[2], 2*(blocks+1), early); err != nil {
		return err
	}
	c = k.call("teams_union").as("ELEMENT", a.K.DType).as("DST", a.Out.DType).set("D", d).set("HEADS", p.group).set("PARTS", p.parts)
	c.set("EACH", p.each).set("UNIT", p.unit).set("PASSES", p.passes).set("DEPTH", p.depth).set("ROOM", p.attendRoom).set("REPORT", given(a.Teams))
	args := teamsUnionArgs{
		out: c.cube(a.Out), teams: c.cubeIf(a.Teams), logc: c.cubeIf(a.LogC), q: c.cube(a.Q), k: c.cube(a.K), v: c.cube(a.V), y: y, offsets: c.mat(a.Offsets),
		parts: s[1], told: s[2], seed: c.vec(a.Draw.Seed), from: c.vec(a.From), pos: c.vec(a.Draw.Pos), rows: c.vec(a.Rows), suffix: c.vec(a.Suffix),
		there: int32(a.Reps.Shape[1]), drawn: int32(a.Drawn), capacity: int32(a.K.Shape[1]), layer: uint32(a.Draw.Layer), scale: a.Scale, early: early,
	}
	grid := driver.Grid{X: blocks, Y: p.keyHeads, Z: 1, Threads: attendThreads, Early: true}
	return launch(c, "teams_union", grid, p.attendRoom+p.attendRing, &args)
}
