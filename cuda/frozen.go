package cuda

import "blitzen/device"

// What kernels may read before those ahead of them have ended: what no operation of
// the step being recorded can have written. A recording keeps the buffers that kernels
// other than onlyReads were given, and the position at which each cache gets its row.
// A step that is issued eagerly has neither, and reads nothing early but weights and,
// to be checked later, limits.

// onlyReads are files of kernels that write caches, activations and scratch memory, and
// only read all else: these do not count as written.
var onlyReads = map[string]bool{
	"rope": true, "append": true, "rotate_append": true, "absorb": true,
	"attend_few": true, "attend_many": true, "attend_decode": true, "attend_one": true, "attend_latent": true, "attend_merge": true,
	"small_attend": true, "small_up": true, "small_down": true, "teams_score": true, "teams_score_wide": true, "teams_attend": true, "teams_union": true,
}

// frozen is 1 where no operation of the step being recorded can have written the
// tensors, but for rows that it appends to a cache.
func (c *call) frozen(ts ...*device.Tensor) int32 {
	r := c.k.gpu.recording
	if r == nil {
		return 0
	}
	for _, t := range ts {
		if t == nil {
			continue
		}
		if b, err := bufferOf(t); err != nil || r.touched[b] {
			return 0
		}
	}
	return 1
}

// appends notes that the step being recorded appends rows to a cache. One row at its
// position leaves those before it as they are; else it is as if all were written.
func (c *call) appends(cache, pos, slots *device.Tensor) {
	r := c.k.gpu.recording
	if r == nil || cache == nil {
		return
	}
	b, err := bufferOf(cache)
	if err != nil {
		return
	}
	at := c.vec(pos)
	if before, ok := r.appended[b]; slots != nil || pos.Shape[0] > 1 || ok && before != at {
		r.touched[b] = true
	}
	r.appended[b] = at
}

// frozenBefore is 1 where the rows of a cache before the position are as they were
// before the step.
func (c *call) frozenBefore(cache, pos *device.Tensor) int32 {
	early := c.frozen(cache, pos)
	if early == 1 {
		b, err := bufferOf(cache)
		if at, ok := c.k.gpu.recording.appended[b]; err != nil || ok && at != c.vec(pos) {
			return 0
		}
	}
	return early
}
