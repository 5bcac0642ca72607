package host

import (
	"blitzen/device"
	"blitzen/host/kernels"
)

// decodeRows is the number of rows of one piece of work in decode: fixed, so
// that the order of sums never depends on threads.
const decodeRows = 128

// plan is what one key head reads for one token: segments of rows, cut in
// pieces of work of decodeRows rows.
type plan struct {
	segments []kernels.Segment
	ends     []int // of the pieces in segments
	room     int32 // rows that the last piece may still take
	rows     int
	bias     []float32 // [group, ldb], indexed by a segment's team; empty for none
	ldb      int
}

func (p *plan) reset() {
	*p = plan{segments: p.segments[:0], ends: p.ends[:0], bias: p.bias[:0]}
}

func (p *plan) add(s kernels.Segment) {
	p.rows += int(s.Count)
	for s.Count > 0 {
		if p.room == 0 {
			p.room = decodeRows
			p.ends = append(p.ends, len(p.segments))
		}
		n := min(s.Count, p.room)
		p.segments = append(p.segments, kernels.Segment{First: s.First, Count: n, Team: s.Team})
		p.ends[len(p.ends)-1] = len(p.segments)
		s.First, s.Count, p.room = s.First+n, s.Count-n, p.room-n
	}
}

// piece is the work from one end to the next.
func (p *plan) piece(i int) []kernels.Segment {
	from := 0
	if i > 0 {
		from = p.ends[i-1]
	}
	return p.segments[from:p.ends[i]]
}

// planner keeps plans, and the memory to make them, from one operation to the
// next.
type planner struct {
	plans []plan
	jobs  []job
	mark  []int32 // by team: 1 + its place in the union; all 0 between uses
	union []int32
}

// job is one piece of one key head's plan.
type job struct{ head, piece int }

// fresh returns n empty plans.
func (p *planner) fresh(n int) []plan {
	for len(p.plans) < n {
		p.plans = append(p.plans, plan{})
	}
	for i := range n {
		p.plans[i].reset()
	}
	return p.plans[:n]
}

// attendPlans attends token t by one plan a key head and joins the pieces in
// order.
func (k *hostKernels) attendPlans(plans []plan, t int, out device.Partial, q, keys, values *device.Tensor,
	scale float32) error {
	group, dv := q.Shape[1]/len(plans), values.Shape[2]
	jobs := k.planner.jobs[:0]
	for h := range plans {
		for i := range plans[h].ends {
			jobs = append(jobs, job{h, i})
		}
	}
	k.planner.jobs = jobs
	width := group * kernels.PartWidth(dv)
	parts, err := k.pool.shared.floats(len(jobs) * width)
	if err != nil {
		return err
	}
	own := kernels.GroupScratch(group)
	if err := k.pool.lend(own + pieceScratch(keys, values)); err != nil {
		return err
	}
	k.pool.run(len(jobs), func(thread, i int) {
		h := jobs[i].head
		p := &plans[h]
		var bias *float32
		if len(p.bias) > 0 {
			bias = &p.bias[0]
		}
		rows, segments := pieceRows(keys, values, h, p.piece(jobs[i].piece), shift(k.pool.floats(thread), own))
		kernels.AttendSegments(shift(parts, i*width), f32(q, t, h*group), q.Stride[1], rows,
			segments, bias, p.ldb, group, scale, k.pool.floats(thread))
	})
	done := 0
	for h := range plans {
		lse, _ := lseAt(out, t, h*group)
		n := len(plans[h].ends)
		kernels.Join(f32(out.Out, t, h*group), out.Out.Stride[1], lse, shift(parts, done*width), n, group, dv)
		done += n
	}
	return nil
}
