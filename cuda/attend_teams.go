package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// AttendTeams implements device.Kernels: in two kernels where the card and the
// tensors allow it, else by the operations that it fuses.
func (k *kernels) AttendTeams(a device.TeamsArgs) error {
	if k.forTeams(a) {
		if p, ok := k.planUnion(a); ok {
			return k.attendTeamsUnion(a, p)
		}
		if p, ok := k.planTeams(a); ok {
			return k.attendTeamsFused(a, p)
		}
	}
	return k.attendTeamsBySteps(a)
}

// attendTeamsBySteps issues the operations. What passes between them lies in a
// block of its own: each of them takes the scratch block anew.
func (k *kernels) attendTeamsBySteps(a device.TeamsArgs) error {
	var made []*buffer
	total := 0
	steps, err := device.NewTeamsSteps(a, func(name string, t device.DType, shape ...int) (*device.Tensor, error) {
		v := device.NewTensor(name, t, nil, shape...)
		b := &buffer{at: driver.Address(total), size: v.Bytes()}
		v.Buffer = b
		made = append(made, b)
		total += (v.Bytes() + align - 1) / align * align
		return v, nil
	})
	if err != nil {
		return err
	}
	if k.plan == nil {
		block, err := k.gpu.steps.take(total, k.gpu.recording != nil)
		if err != nil {
			return k.gpu.explain(err, total)
		}
		k.use(block)
		for _, b := range made {
			b.at += block.at
		}
	}
	return device.AttendTeamsBySteps(k, a, steps)
}

// Numbers of kernels/teams_score.cu and kernels/teams_attend.cu.
const (
	slabTeams     = 32
	scoreWarps    = 8
	wideTeams     = 64 // that a warpgroup of teams_score_wide multiplies
	wideGroups    = 2  // warpgroups
	wideStages    = 11 // panels of 64 columns that one has in shared memory, at most
	widePace      = 5  // of these under way before the query is there
	wideHeads     = 16 // of a key head
	narrowKey     = 192
	scoreSlots    = 2 // slabs of a strand in shared memory, at most; twice as many of F8
	attendThreads = 512
	mostDrawn     = 1024 // by a query head
	fewDrawn      = 32   // that are ranked by counting
	directDrawn   = 64   // the same, where a thread looks at teams one by one
	mostQuads     = 4    // of teams that a thread looks at one by one
	leastDirect   = 1920 // teams, so that all sets but few have some
	candidates    = 256  // where few are drawn
	candidateSize = 28   // bytes: struct Team, key and count
	mostGroups    = 4096
	mostRows      = 1 << 24            // that are counted beside a rank of 8 bits
	lookedAt      = 16 * attendThreads // teams in groups that reach the border
	leastRound    = 16 << 10           // bytes: a block may select by them
	widestKey     = 576
	mostSharing   = 32        // query heads of a key head
	smallShared   = 120       // compute capability
	allShared     = 228 << 10 // bytes of a multiprocessor
	blockShared   = 1 << 10   // that a block takes besides its own
)

// teamsPlan is how the two kernels divide the work.
type teamsPlan struct {
	group, keyHeads        int  // query heads of a key head; key heads
	split                  int  // warps that share a slab
	wide                   bool // teams_score_wide
	slabs, slots           int
	scoreBlocks            int  // of a key head
	scoreRoom, scoreRing   int  // bytes of shared memory
	most                   int  // drawn teams that there is room for
	sets, quads            int  // of few teams drawn; quads of scores that a thread looks at, 0: in groups
	perGroup, groups       int  // teams that share a largest score
	tops                   int  // groups that there is room for
	scratch                int  // bytes that teams_attend selects with, and that the last round of rows then overwrites
	cluster, depth         int  // blocks of a query head; rounds of rows on their way
	eight                  int  // 1: representatives are F8
	prefix                 int  // 1: values are the first columns of the keys
	attendRoom, attendRing int  // bytes of shared memory
	crowded                bool // blocks of both kernels are to be on a multiprocessor together
}

// forTeams reports whether the fused kernels take these arguments: one token,
// BF16 or F16, keys of whole 64 bytes; Hopper or newer, but not the cards with 99 KiB
// of shared memory.
func (k *kernels) forTeams(a device.TeamsArgs) bool {
	dk, dv := a.Q.Shape[2], a.V.Shape[2]
	return k.card.capability >= hopper && k.card.capability < smallShared && inHalfVectors(a.Q, a.K, a.V) && forScores(a.Reps, a.Q) &&
		a.Q.Shape[0] == 1 && a.Reps.Shape[1] > 0 && a.Drawn <= mostDrawn && a.Q.Shape[1]/a.K.Shape[0] <= mostSharing &&
		dk%32 == 0 && dk <= widestKey && dv%64 == 0 && dv <= attendThreads
}

// forScores reports whether representatives can be multiplied with queries: they
// are of one type, or F8 in whole 64 bytes, and can be read by 16 bytes.
func forScores(reps, q *device.Tensor) bool {
	if reps.DType == device.F8 {
		return reps.Shape[2]%64 == 0 && vectorOf(16, reps) == 16
	}
	return alike(q, reps)
}

// planTeams divides the work; false where there are too many teams for it.
func (k *kernels) planTeams(a device.TeamsArgs) (teamsPlan, bool) {
	heads, dk, dv := a.Q.Shape[1], a.Q.Shape[2], a.V.Shape[2]
	p := teamsPlan{keyHeads: a.K.Shape[0], group: heads / a.K.Shape[0], slabs: ceil(a.Reps.Shape[1], slabTeams)}
	if sameRows(a.K, a.V) {
		p.prefix = 1
	}
	if a.Reps.DType == device.F8 {
		p.eight = 1
	}
	p.planSelect(a.Drawn, a.Reps.Shape[1])
	p.planAttend(heads, dk, dv, k.card.multiprocessors)
	if k.card.capability == hopper && p.eight == 0 && p.group <= wideHeads && dk > narrowKey && dk%64 == 0 {
		p.planWide(heads, dk, k.card.multiprocessors)
	} else {
		p.planScore(dk, k.card.multiprocessors)
	}
	p.crowded = p.fitTogether()
	return p, p.groups <= mostGroups && a.K.Shape[1] <= mostRows
}

func (p *teamsPlan) planScore(dk, multiprocessors int) {
	p.split = 1
	p.scoreRoom = 512 + p.group*(2*dk+64) // barriers, counters; the query
	if dk > narrowKey {                   // a warp has no registers for so wide a one
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

// planWide is planScore for teams_score_wide, which scores beside teams_attend where
// there is room for all representatives at once.
func (p *teamsPlan) planWide(heads, dk, multiprocessors int) {
	panels, runs := dk/64, ceil(p.slabs*slabTeams, wideTeams)
	each := func(blocks int) int { return ceil(runs, max(blocks, 1)*wideGroups) * panels } // of a warpgroup
	p.wide, p.scoreBlocks = true, max(1, min(multiprocessors/p.keyHeads, runs))
	if beside := (multiprocessors - heads*p.cluster) / p.keyHeads; each(beside) <= wideStages {
		p.scoreBlocks = min(beside, runs)
	}
	p.slots = min(wideStages, each(p.scoreBlocks))
	p.scoreRing = wideGroups * p.slots * 128 * wideTeams
	p.scoreRoom = 2048*panels + wideGroups*(2*16*(slabTeams+4)*4+16*p.slots) + 16
}

// planSelect decides how the teams of the largest scores are found. Scratch and room are
// those of the structs Selection and Memory; the kernel says when they are too small.
func (p *teamsPlan) planSelect(drawn, teams int) {
	p.most, p.scratch, p.attendRoom = 256, 18944, 19072
	if drawn > p.most {
		p.most, p.scratch, p.attendRoom = mostDrawn, 28160, 47232
	}
	p.tops = attendThreads
	quads := ceil(teams, 4*attendThreads)
	direct := quads <= mostQuads && teams >= leastDirect
	if drawn <= fewDrawn || direct && drawn <= directDrawn {
		p.sets, p.most, p.attendRoom = 64, directDrawn, 10752
		if drawn > fewDrawn {
			p.sets = 128
		}
		p.scratch = 4*p.sets + candidateSize*candidates
		if direct {
			p.quads = quads
			p.scratch += 4 * (4*attendThreads*quads + 4)
			return
		}
	}
	// At least twice as many groups as teams drawn, if groups of 4 make so many; and so few teams in a third more groups
	// than are drawn that a block can look at them.
	count := func(perGroup int) int { return p.slabs * (slabTeams / perGroup) }
	for p.perGroup = slabTeams; p.perGroup > 4 && count(p.perGroup/2) <= mostGroups; {
		if count(p.perGroup) >= 2*(drawn+1) && p.perGroup*(drawn+1)*4/3 <= lookedAt {
			break
		}
		p.perGroup /= 2
	}
	p.groups = count(p.perGroup)
	for p.tops < p.groups {
		p.tops *= 2
	}
	p.scratch += 4 * p.tops
}

func (p *teamsPlan) planAttend(heads, dk, dv, multiprocessors int) {
	// A card has no room for clusters of 8 on all of its multiprocessors.
	p.cluster = 8
	if heads*p.cluster > multiprocessors*2/3 {
		for p.cluster = 4; p.cluster > 1 && heads*p.cluster > multiprocessors; {
			p.cluster /= 2
		}
	}
	lanes := 32
	switch {
	case dk <= 128:
		lanes = 8
	case dk <= 192:
		lanes = 16
	}
	chunks := ceil(dk/8, lanes)
	if p.prefix == 0 {
		chunks += ceil(dv/8, lanes)
	}
	p.depth = 2
	if lanes == 32 { // a round is 16 rows
		p.depth = 4
	}
	slot := chunks * attendThreads * 16
	if lanes == 32 && p.prefix == 1 && dk%64 == 0 && dv%128 == 0 { // rows in one piece each
		slot = attendThreads / lanes * 2 * dk
	}
	p.attendRing = (p.depth - 1) * slot
	p.attendRoom += ceil(max(p.scratch, slot, leastRound), 128) * 128
}

func (p *teamsPlan) scoreShared() int  { return p.scoreRoom + p.scoreRing }
func (p *teamsPlan) attendShared() int { return p.attendRoom + p.attendRing + 4*p.slabs }

// fitTogether reports whether a multiprocessor whose memory is all shared memory has room for a block of each kernel, so that
// representatives of the next layer come while this one draws and reads, but not for two of teams_score: others would have none.
// A query that warps share leaves no registers.
func (p *teamsPlan) fitTogether() bool {
	score, attend := p.scoreShared()+blockShared, p.attendShared()+blockShared
	return p.split == 1 && 2*score > allShared && score+attend <= allShared
}

// beside asks for that memory where the plan says so.
func (c *call) beside(p teamsPlan) *call {
	if p.crowded {
		c.sharedMemory()
	}
	return c
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

type teamsAttendArgs struct {
	out, teams, logc, q, k, v                    cube
	y, top, offsets                              mat
	seed, from, pos, seen, rows, suffix          vec
	there, groups, drawn, group, capacity, words int32
	layer                                        uint32
	scale                                        float32
	early                                        int32
	_                                            [4]byte
}

func (k *kernels) attendTeamsFused(a device.TeamsArgs, p teamsPlan) error {
	heads, dk, teams := a.Q.Shape[1], a.Q.Shape[2], a.Reps.Shape[1]
	k.crowded = k.crowded || p.crowded
	c := k.call(p.scores()).beside(p)
	early := c.frozen(a.Reps, a.Reps.Scale, a.Bias, a.Offsets, a.From, a.Draw.Seed, a.Draw.Pos)
	s := c.scratch(4*heads*p.slabs*slabTeams, 4*heads*p.groups, 4*p.keyHeads*p.slabs)
	y, top, seen := mat{s[0], int64(p.slabs * slabTeams)}, mat{s[1], int64(p.groups)}, s[2]
	if err := c.scoreTeams(a, p, y, top, seen, p.slabs, early); err != nil {
		return err
	}
	c = k.call("teams_attend").beside(p).as("ELEMENT", a.K.DType).as("DST", a.Out.DType).set("DK", dk).set("DV", a.V.Shape[2]).set("V_IN_K", p.prefix).set("CLUSTER", p.cluster).set("DEPTH", p.depth)
	c.set("SETS", p.sets).set("QUADS", p.quads).set("GROUP", max(p.perGroup, 4)).set("MOST", p.most).set("TOPS", p.tops).set("ROOM", p.attendRoom).set("REPORT", given(a.Teams))
	attend := teamsAttendArgs{
		out: c.cube(a.Out), teams: c.cubeIf(a.Teams), logc: c.cubeIf(a.LogC), q: c.cube(a.Q), k: c.cube(a.K), v: c.cube(a.V), y: y, top: top, offsets: c.mat(a.Offsets),
		seed: c.vec(a.Draw.Seed), from: c.vec(a.From), pos: c.vec(a.Draw.Pos), seen: seen, rows: c.vec(a.Rows), suffix: c.vec(a.Suffix),
		there: int32(teams), groups: int32(p.groups), drawn: int32(a.Drawn), group: int32(p.group), capacity: int32(a.K.Shape[1]), words: int32(p.slabs),
		layer: uint32(a.Draw.Layer), scale: a.Scale, early: early,
	}
	grid := driver.Grid{X: p.group * p.cluster, Y: p.keyHeads, Z: 1, Threads: attendThreads, Early: true, Cluster: p.cluster}
	return launch(c, "teams_attend", grid, p.attendShared(), &attend)
}

// scores is the kernel that scores teams.
func (p *teamsPlan) scores() string {
	if p.wide {
		return "teams_score_wide"
	}
	return "teams_score"
}

// scoreTeams launches it; it leaves so many words a key head zero.
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

// cubeIf is cube for a tensor that may be nil.
func (c *call) cubeIf(t *device.Tensor) cube {
	if t == nil {
		return cube{}
	}
	return c.cube(t)
}

// given is 1 for a tensor that is there.
func given(t *device.Tensor) int {
	if t == nil {
		return 0
	}
	return 1
}
