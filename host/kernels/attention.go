package kernels

// #include "kernels.h"
import "C"

import "unsafe"

// Cache is the keys and values of one key head and their widths.
type Cache struct {
	K, V   Matrix
	DK, DV int
}

// AttendTile attends tokens × group query rows to the rows from ≤ j ≤ pos[t].
// lse may be nil; ldl is its distance between tokens. scratch holds TileScratch
// floats.
func AttendTile(out Heads, lse *float32, ldl int, q Heads, c Cache, tokens, group, from int, pos *int32,
	scale float32, scratch *float32) {
	C.bk_attend_tile(f(out.P), n(out.Token), n(out.Head), f(lse), n(ldl), f(q.P), n(q.Token), n(q.Head),
		f(c.K.P), n(c.K.LD), f(c.V.P), n(c.V.LD), n(tokens), n(group), n(c.DK), n(c.DV), n(from), i(pos), r(scale), f(scratch))
}

// TileScratch is the number of floats that AttendTile works in.
func TileScratch(tokens, group, dk, dv int) int {
	rows := tokens*group + C.TILE_Q_MAX - 1 // room for a whole last register tile
	return rows*(dk+dv+C.BLOCK+2) + C.BLOCK*dk
}

// Segment is a run of cache rows [First, First+Count) with the corrections
// bias[h, Team].
type Segment struct{ First, Count, Team int32 }

// AttendSegments attends one token's group of heads to segments, with logits
// scale·q·k + bias, and leaves part [group, dv+2] for Join. bias [group, ldb]
// may be nil. scratch holds GroupScratch floats.
func AttendSegments(part *float32, q *float32, ldq int, c Cache, segs []Segment, bias *float32, ldb, group int,
	scale float32, scratch *float32) {
	first := (*C.segment)(unsafe.Pointer(unsafe.SliceData(segs)))
	C.bk_attend_segments(f(part), f(q), n(ldq), f(c.K.P), n(c.K.LD), f(c.V.P), n(c.V.LD), first, n(len(segs)),
		f(bias), n(ldb), n(group), n(c.DK), n(c.DV), r(scale), f(scratch))
}

// GroupScratch is the number of floats that AttendSegments and Route work in.
func GroupScratch(group int) int { return group * C.BLOCK }

// PartWidth is the floats a head of a part of AttendSegments.
func PartWidth(dv int) int { return dv + 2 }

// Join combines parts [count, group, dv+2] in order. lse may be nil.
func Join(out *float32, ldo int, lse *float32, part *float32, count, group, dv int) {
	C.bk_attend_join(f(out), n(ldo), f(lse), f(part), n(count), n(group), n(dv))
}

// Merge joins two normalised parts by their log masses.
func Merge(dst, a *float32, lseA float32, b *float32, lseB float32, width int) {
	C.bk_merge(f(dst), f(a), r(lseA), f(b), r(lseB), n(width))
}

// Route scores the teams [0, teams) for one token's group of heads. scratch
// holds GroupScratch floats.
func Route(phi Matrix, q *float32, ldq int, reps Matrix, bias *float32, group, teams, dk int, scale float32,
	scratch *float32) {
	C.bk_route(f(phi.P), n(phi.LD), f(q), n(ldq), f(reps.P), n(reps.LD), f(bias), n(group), n(teams), n(dk), r(scale),
		f(scratch))
}

// Perturb adds Gumbel noise to phi [teams]; the random words are those of
// Philox with the counters (team/4, head, layer, pos).
func Perturb(y *float64, phi *float32, teams int, head, layer, pos uint32, seed [2]uint32) {
	C.bk_perturb(d(y), f(phi), n(teams), C.uint32_t(head), C.uint32_t(layer), C.uint32_t(pos),
		C.uint32_t(seed[0]), C.uint32_t(seed[1]))
}
