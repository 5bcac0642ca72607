package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// AttendTeams implements device.Kernels: in two kernels where the card and the
// tensors allow it, else by the operations that it fuses.
func (k *kernels) AttendTeams(a device.TeamsArgs) error {
	if k.forTeams(a) {
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
	attendThreads = 512
	attendDepth   = 2    // rows ahead
	mostDrawn     = 1024 // by a query head
	mostGroups    = 4096
	widestKey     = 576
	mostSharing   = 32  // query heads of a key head
	smallShared   = 120 // compute capability
)

// teamsPlan is how the two kernels divide the work.
type teamsPlan struct {
	group, keyHeads      int // query heads of a key head; key heads
	split                int // warps that share a slab
	slabs, slots         int
	scoreBlocks          int // of a key head
	scoreRoom, scoreRing int // bytes of shared memory
	most                 int // drawn teams that there is room for
	perGroup, groups     int // teams that share a largest score
	tops                 int // groups that there is room for
	cluster              int // blocks of a query head
	prefix               int // 1: values are the first columns of the keys
	attendRoom, rowsRing int // bytes of shared memory
}

// forTeams reports whether the fused kernels take these arguments: one token,
// BF16, keys of whole 64 bytes; Hopper or newer, but not the cards with 99 KiB
// of shared memory.
func (k *kernels) forTeams(a device.TeamsArgs) bool {
	dk, dv := a.Q.Shape[2], a.V.Shape[2]
	return k.card.capability >= hopper && k.card.capability < smallShared && inVectors(a.Q, a.K, a.V, a.Reps) &&
		a.Q.Shape[0] == 1 && a.Reps.Shape[1] > 0 && a.Drawn <= mostDrawn && a.Q.Shape[1]/a.K.Shape[0] <= mostSharing &&
		dk%32 == 0 && dk <= widestKey && dv%64 == 0 && dv <= attendThreads
}

// planTeams divides the work; false where there are too many teams for it.
func (k *kernels) planTeams(a device.TeamsArgs) (teamsPlan, bool) {
	heads, dk, dv := a.Q.Shape[1], a.Q.Shape[2], a.V.Shape[2]
	p := teamsPlan{keyHeads: a.K.Shape[0], group: heads / a.K.Shape[0], slabs: ceil(a.Reps.Shape[1], slabTeams)}
	if sameRows(a.K, a.V) {
		p.prefix = 1
	}
	p.planScore(dk, k.card.multiprocessors)
	p.planAttend(a.Drawn, heads, dk, dv, k.card.multiprocessors)
	return p, p.groups <= mostGroups
}

func (p *teamsPlan) planScore(dk, multiprocessors int) {
	p.split, p.scoreRoom = 1, 256
	if dk > 192 { // a warp has no registers for so wide a query
		p.split = 4
		p.scoreRoom = 256 + 4*32*scoreWarps*8*ceil(p.group, 8)
	}
	strands := scoreWarps / p.split
	p.scoreBlocks = max(1, min(multiprocessors/p.keyHeads, p.slabs))
	p.slots = 1
	if p.split == 1 {
		p.slots = min(2, ceil(p.slabs, p.scoreBlocks*strands))
	}
	p.scoreRing = strands * p.slots * slabTeams * ceil(2*dk, 128) * 128
}

func (p *teamsPlan) planAttend(drawn, heads, dk, dv, multiprocessors int) {
	room := map[int]int{64: 21504, 256: 40960, mostDrawn: 86016}
	for p.most = 64; p.most < drawn; {
		p.most *= 4
	}
	// At least twice as many groups as teams drawn, if groups of 4 make so many.
	count := func(perGroup int) int { return p.slabs * (slabTeams / perGroup) }
	for p.perGroup = slabTeams; p.perGroup > 4 && count(p.perGroup) < 2*(drawn+1) && count(p.perGroup/2) <= mostGroups; {
		p.perGroup /= 2
	}
	p.groups = count(p.perGroup)
	p.tops = 1024
	if p.groups > p.tops {
		p.tops = mostGroups
	}
	p.attendRoom = room[p.most] + 4*p.tops
	for p.cluster = 8; p.cluster > 1 && heads*p.cluster > multiprocessors; {
		p.cluster /= 2
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
	p.rowsRing = attendDepth * chunks * attendThreads * 16
}

type teamsScoreArgs struct {
	y, top          mat
	seen            vec
	phi, q, reps    cube
	bias, offsets   mat
	seed, pos, read vec
	teams, words    int32
	layer           uint32
	scale           float32
	early           int32
}

type teamsAttendArgs struct {
	out, teams, logc, q, k, v                    cube
	y, top, offsets                              mat
	seed, from, pos, seen, rows, suffix          vec
	there, groups, drawn, group, capacity, words int32
	layer                                        uint32
	scale                                        float32
}

func (k *kernels) attendTeamsFused(a device.TeamsArgs, p teamsPlan) error {
	heads, dk, teams := a.Q.Shape[1], a.Q.Shape[2], a.Reps.Shape[1]
	c := k.call("teams_score").set("DK", dk).set("HEADS", p.group).set("SPLIT", p.split).set("SLOTS", p.slots)
	c.set("GROUP", p.perGroup).set("ROOM", p.scoreRoom).set("REPORT", given(a.Phi))
	early := c.frozen(a.Reps, a.Bias, a.Offsets, a.Draw.Seed, a.Draw.Pos)
	s := c.scratch(4*heads*p.slabs*slabTeams, 4*heads*p.groups, 4*p.keyHeads*p.slabs)
	y, top, seen := mat{s[0], int64(p.slabs * slabTeams)}, mat{s[1], int64(p.groups)}, s[2]
	score := teamsScoreArgs{
		y, top, seen, c.cubeIf(a.Phi), c.cube(a.Q), c.cube(a.Reps), c.mat(a.Bias), c.mat(a.Offsets), c.vec(a.Draw.Seed), c.vec(a.Draw.Pos),
		c.vec(a.Routed), int32(teams), int32(p.slabs), uint32(a.Draw.Layer), a.Scale, early,
	}
	grid := driver.Grid{X: p.scoreBlocks, Y: p.keyHeads, Z: 1, Threads: 32 * scoreWarps, Early: true}
	if err := launch(c, "teams_score", grid, p.scoreRoom+p.scoreRing, &score); err != nil {
		return err
	}
	c = k.call("teams_attend").as("DST", a.Out.DType).set("DK", dk).set("DV", a.V.Shape[2]).set("V_IN_K", p.prefix).set("CLUSTER", p.cluster)
	c.set("GROUP", p.perGroup).set("MOST", p.most).set("TOPS", p.tops).set("ROOM", p.attendRoom).set("REPORT", given(a.Teams))
	attend := teamsAttendArgs{
		c.cube(a.Out), c.cubeIf(a.Teams), c.cubeIf(a.LogC), c.cube(a.Q), c.cube(a.K), c.cube(a.V), y, top, c.mat(a.Offsets),
		c.vec(a.Draw.Seed), c.vec(a.From), c.vec(a.Draw.Pos), seen, c.vec(a.Rows), c.vec(a.Suffix),
		int32(teams), int32(p.groups), int32(a.Drawn), int32(p.group), int32(a.K.Shape[1]), int32(p.slabs), uint32(a.Draw.Layer), a.Scale,
	}
	grid = driver.Grid{X: p.group * p.cluster, Y: p.keyHeads, Z: 1, Threads: attendThreads, Early: true, Cluster: p.cluster}
	return launch(c, "teams_attend", grid, p.attendRoom+p.rowsRing+4*p.slabs, &attend)
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

// onlyReads are kernels that write caches and activations and read all else.
var onlyReads = map[string]bool{
	"rope": true, "append": true, "rotate_append": true, "attend_few": true, "attend_many": true, "attend_decode": true, "attend_latent": true, "attend_merge": true,
	"teams_score": true, "teams_attend": true,
}

// frozen is 1 where no operation of the step being recorded can have written the
// tensors: then they may be read before the kernels ahead have ended.
func (c *call) frozen(ts ...*device.Tensor) int32 {
	r := c.k.gpu.recording
	if r == nil {
		return 0
	}
	for _, t := range ts {
		if b, err := bufferOf(t); err != nil || r.touched[b] {
			return 0
		}
	}
	return 1
}
