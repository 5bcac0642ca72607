package cuda

import (
	"blitzen/device"
)

// Numbers of kernels/teams_attend.cu, and what the kernels of AttendTeams are planned by.
const (
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
	slabs, slots           int  // of teams; slabs of a strand, or with wide panels of a ring, in shared memory
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

// planTeams divides the work of teams_score or teams_score_wide, and of teams_attend; false where there are too many teams for it.
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
	if p.wide = p.forWide(dk, k.card.capability); p.wide {
		p.planWide(heads, dk, k.card.multiprocessors)
	} else {
		p.planScore(dk, k.card.multiprocessors)
	}
	p.crowded = p.fitTogether()
	return p, p.groups <= mostGroups && a.K.Shape[1] <= mostRows
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

// planAttend decides how many blocks attend for a query head, and what they have in shared
// memory besides what planSelect has asked for: rows of dk and dv columns.
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
