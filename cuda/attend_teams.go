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

// forTeams reports whether the fused kernels take these arguments: one token,
// BF16 or F16, keys of whole 64 bytes; Hopper or newer, but not the cards with 99 KiB
// of shared memory.
func (k *kernels) forTeams(a device.TeamsArgs) bool {
	dk, dv := a.Q.Shape[2], a.V.Shape[2]
	return k.card.capability >= hopper && k.card.capability < smallShared && inHalfVectors(a.Q, a.K, a.V) && forScores(a.Reps, a.Q) &&
		a.Q.Shape[0] == 1 && a.Reps.Shape[1] > 0 && a.Drawn <= mostDrawn && a.Q.Shape[1]/a.K.Shape[0] <= mostSharing &&
		dk%32 == 0 && dk <= widestKey && dv%64 == 0 && dv <= attendThreads
}

// beside asks for multiprocessors whose memory is shared memory, where the plan has blocks of both kernels on one.
func (c *call) beside(p teamsPlan) *call {
	if p.crowded {
		c.sharedMemory()
	}
	return c
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

// attendTeamsFused issues the kernel that scores teams, and teams_attend.
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
