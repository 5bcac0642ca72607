package host

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"blitzen/device"
	"blitzen/host/kernels"
)

// routeTeams is the number of teams that a thread scores at once.
const routeTeams = 256

// Route implements device.Kernels.
func (k *hostKernels) Route(args device.RouteArgs) error {
	a := routed(args)
	if ok, err := k.startHalf(outputs{a.Phi, a.Read}, a.Q, a.Reps, a.Reps.Scale, a.Bias, a.Last); !ok {
		return err
	}
	w := twins{k: k}
	if a.Q = w.in(a.Q); w.err != nil {
		return w.err
	}
	tokens, kv, teams := a.Q.Shape[0], a.Reps.Shape[0], a.Reps.Shape[1]
	group, blocks := a.Q.Shape[1]/kv, pieces(teams, routeTeams)
	own := kernels.GroupScratch(group)
	if err := k.pool.lend(own + teamScratch(a.Reps)); err != nil {
		return err
	}
	k.pool.run(tokens*kv*blocks, func(thread, i int) {
		t, h, s := i/(kv*blocks), i/blocks%kv, piece(i%blocks, teams, routeTeams)
		phi := kernels.Matrix{P: shift(f32(a.Phi, t, h*group), s.from), LD: a.Phi.Stride[1]}
		bias, n := shift(f32(a.Bias, h), s.from), max(0, min(s.len(), a.teams(t)-s.from))
		scale := a.Scale
		if a.Reps.DType == device.F8 {
			scale *= *f32(a.Reps.Scale, h)
		}
		reps := teamKeys(a.Reps, h, s.from, slice(bias, n), shift(k.pool.floats(thread), own))
		kernels.Route(phi, f32(a.Q, t, h*group), a.Q.Stride[1], reps, bias, group, n, a.Reps.Shape[2], scale, k.pool.floats(thread))
		for g := range group {
			for i := s.from + n; i < s.to; i++ {
				row[float32](a.Phi, t, h*group+g)[i] = float32(math.Inf(-1))
			}
		}
	})
	if a.Read == nil {
		return nil
	}
	for t := range tokens {
		for h := range kv {
			for _, b := range row[float32](a.Bias, h)[:a.teams(t)] {
				if !absent(b) {
					*at[int64](a.Read)++
				}
			}
		}
	}
	return nil
}

// teamScratch is the floats that teamKeys works in.
func teamScratch(reps *device.Tensor) int {
	if reps.DType == device.F32 {
		return 0
	}
	return routeTeams * reps.Shape[2]
}

// teamKeys are the elements of representatives of key head h from one on, as
// float32; without those of teams that are not there.
func teamKeys(reps *device.Tensor, h, from int, bias []float32, mem *float32) kernels.Matrix {
	if reps.DType == device.F32 {
		return below(head(reps, h), from)
	}
	d := reps.Shape[2]
	for i := range bias {
		if !absent(bias[i]) {
			wideRow(shift(mem, i*d), reps, h, from+i)
		}
	}
	return kernels.Matrix{P: mem, LD: d}
}

// routed is Route's arguments.
type routed device.RouteArgs

// teams is how many teams token t may have.
func (a routed) teams(t int) int {
	n := a.Reps.Shape[1]
	if a.Last == nil {
		return n
	}
	return max(0, min(n, int(row[int32](a.Last)[t])+1))
}

// SampleTopK implements device.Kernels.
func (k *hostKernels) SampleTopK(a device.TopKArgs) error {
	if ok, err := k.start(outputs{a.Teams, a.LogC}, a.Phi, a.Draw.Seed, a.Draw.Pos); !ok {
		return err
	}
	heads, teams, chosen := a.Phi.Shape[1], a.Phi.Shape[2], a.Teams.Shape[2]
	if err := k.pool.lend(2*teams + chosen + 1); err != nil {
		return err
	}
	seed := row[uint32](a.Draw.Seed)
	k.pool.run(a.Phi.Shape[0]*heads, func(thread, i int) {
		t, h := i/heads, i%heads
		y := k.pool.doubles(thread)
		heap := (*int32)(unsafe.Pointer(shift(y, teams)))
		pos := row[int32](a.Draw.Pos)[t]
		kernels.Perturb(y, f32(a.Phi, t, h), teams, uint32(h), uint32(a.Draw.Layer), uint32(pos), [2]uint32{seed[0], seed[1]})
		order := topN(slice(heap, chosen+1)[:0], slice(y, teams), chosen+1)
		fillTeams(row[int32](a.Teams, t, h), row[float32](a.LogC, t, h), row[float32](a.Phi, t, h), slice(y, teams), order)
	})
	return nil
}

// fillTeams writes the teams that come first in order, and the log of their
// inclusion probabilities.
func fillTeams(teams []int32, logC, phi []float32, y []float64, order []int32) {
	for len(order) > 0 && absent(phi[order[len(order)-1]]) {
		order = order[:len(order)-1]
	}
	for j := range teams {
		switch {
		case j >= len(order):
			teams[j], logC[j] = -1, 0
		case len(teams) >= len(order):
			teams[j], logC[j] = order[j], 0
		default:
			teams[j] = order[j]
			logC[j] = float32(logInclusion(float64(phi[order[j]]) - y[order[len(teams)]]))
		}
	}
}

// logInclusion is ln(1 − exp(−exp(delta))).
func logInclusion(delta float64) float64 {
	switch {
	case delta < -20:
		return delta
	case delta > 20:
		return 0
	}
	return math.Log(-math.Expm1(-math.Exp(delta)))
}

// AttendSelected implements device.Kernels. The teams of the query heads of a
// key head are joined, and each is read once; a head that did not draw a team
// has the bias −Inf there.
func (k *hostKernels) AttendSelected(a device.SelectedArgs) error {
	if ok, err := k.startHalf(outputs{a.Out.Out, a.Out.LSE, a.Read}, a.Q, a.K, a.V, a.Offsets, a.Teams, a.LogC); !ok {
		return err
	}
	w := twins{k: k}
	if a.Q, a.Out.Out = w.in(a.Q), w.out(a.Out.Out); w.err != nil {
		return w.err
	}
	kv := a.K.Shape[0]
	for t := range a.Q.Shape[0] {
		plans := k.planner.fresh(kv)
		for h := range plans {
			if err := k.planner.join(&plans[h], a, t, h); err != nil {
				return err
			}
			if a.Read != nil {
				*at[int64](a.Read) += int64(plans[h].rows)
			}
		}
		if err := k.attendPlans(plans, t, a.Out, a.Q, a.K, a.V, a.Scale); err != nil {
			return err
		}
	}
	return w.done()
}

// join plans the union of the teams that the query heads of key head h drew for
// token t, in rising order.
func (p *planner) join(plan *plan, a device.SelectedArgs, t, h int) error {
	offsets := row[int32](a.Offsets, h)
	group, teams := a.Q.Shape[1]/a.K.Shape[0], len(offsets)-1
	if len(p.mark) < teams {
		p.mark = make([]int32, teams)
	}
	p.union = p.union[:0]
	defer func() {
		for _, team := range p.union {
			p.mark[team] = 0
		}
	}()
	for g := range group {
		for _, team := range row[int32](a.Teams, t, h*group+g) {
			if int(team) >= teams {
				return fmt.Errorf("token %d, head %d drew team %d of %d", t, h*group+g, team, teams)
			}
			if team >= 0 && p.mark[team] == 0 {
				p.mark[team] = 1
				p.union = append(p.union, team)
			}
		}
	}
	slices.Sort(p.union)
	for i, team := range p.union {
		p.mark[team] = int32(i) + 1
		first, end := offsets[team], offsets[team+1]
		if first < 0 || end < first || int(end) > a.K.Shape[1] {
			return fmt.Errorf("team %d of head %d is the rows [%d, %d) of %d", team, h, first, end, a.K.Shape[1])
		}
		plan.add(kernels.Segment{First: first, Count: end - first, Team: int32(i)})
	}
	p.correct(plan, a, t, h*group, group)
	return nil
}

// correct sets each head's bias −ln c for the teams that it drew itself, −Inf
// for the others.
func (p *planner) correct(plan *plan, a device.SelectedArgs, t, head, group int) {
	plan.ldb = len(p.union)
	for range group * plan.ldb {
		plan.bias = append(plan.bias, float32(math.Inf(-1)))
	}
	for g := range group {
		logC, bias := row[float32](a.LogC, t, head+g), plan.bias[g*plan.ldb:]
		for j, team := range row[int32](a.Teams, t, head+g) {
			if team >= 0 {
				i := p.mark[team] - 1
				bias[i] = logAdd(bias[i], -logC[j])
			}
		}
	}
}

// logAdd is ln(eᵃ + eᵇ): a head that drew a team twice counts it twice.
func logAdd(a, b float32) float32 {
	if absent(a) {
		return b
	}
	return max(a, b) + float32(math.Log1p(math.Exp(-math.Abs(float64(a-b)))))
}
