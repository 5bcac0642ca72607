package host

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"blitzen/device"
	"blitzen/host/kernels"
)

// routeTeams is the number of teams that a thread scores at once.
const routeTeams = 256

// Route implements device.Kernels.
func (k *hostKernels) Route(a device.RouteArgs) error {
	if ok, err := k.start(outputs{a.Phi, a.Read}, a.Q, a.Reps, a.Bias); !ok {
		return err
	}
	tokens, kv, teams := a.Q.Shape[0], a.Reps.Shape[0], a.Reps.Shape[1]
	group, blocks := a.Q.Shape[1]/kv, pieces(teams, routeTeams)
	if err := k.pool.lend(kernels.GroupScratch(group)); err != nil {
		return err
	}
	k.pool.run(tokens*kv*blocks, func(thread, i int) {
		t, h, s := i/(kv*blocks), i/blocks%kv, piece(i%blocks, teams, routeTeams)
		phi := kernels.Matrix{P: shift(f32(a.Phi, t, h*group), s.from), LD: a.Phi.Stride[1]}
		kernels.Route(phi, f32(a.Q, t, h*group), a.Q.Stride[1], below(head(a.Reps, h), s.from), shift(f32(a.Bias, h), s.from), group, s.to-s.from,
			a.Reps.Shape[2], a.Scale, (*float32)(k.pool.scratch[thread].mem))
	})
	if a.Read != nil {
		there := 0
		for h := range kv {
			for _, b := range row[float32](a.Bias, h) {
				if !absent(b) {
					there++
				}
			}
		}
		*at[int64](a.Read) += int64(tokens) * int64(there)
	}
	return nil
}

// SampleTopK implements device.Kernels.
func (k *hostKernels) SampleTopK(a device.TopKArgs) error {
	if ok, err := k.start(outputs{a.Teams, a.LogC}, a.Phi, a.Draw.Seed, a.Draw.Pos); !ok {
		return err
	}
	heads, teams := a.Phi.Shape[1], a.Phi.Shape[2]
	if err := k.pool.lend(2 * teams); err != nil {
		return err
	}
	seed := row[uint32](a.Draw.Seed)
	k.pool.run(a.Phi.Shape[0]*heads, func(thread, i int) {
		t, h := i/heads, i%heads
		y := (*float64)(k.pool.scratch[thread].mem)
		pos := row[int32](a.Draw.Pos)[t]
		kernels.Perturb(y, f32(a.Phi, t, h), teams, uint32(h), uint32(a.Draw.Layer), uint32(pos), [2]uint32{seed[0], seed[1]})
		topTeams(row[int32](a.Teams, t, h), row[float32](a.LogC, t, h), row[float32](a.Phi, t, h), slice(y, teams))
	})
	return nil
}

// topTeams chooses the teams of largest y and computes the log of their inclusion probabilities.
func topTeams(teams []int32, logC, phi []float32, y []float64) {
	order := make([]int32, 0, len(phi))
	for g := range phi {
		if !absent(phi[g]) {
			order = append(order, int32(g))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(y[b], y[a]), cmp.Compare(a, b)) })
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

// AttendSelected implements device.Kernels. The teams of the query heads of a key head are joined, and each is read once; a head that did not draw a team
// has the bias −Inf there.
func (k *hostKernels) AttendSelected(a device.SelectedArgs) error {
	if ok, err := k.start(outputs{a.Out.Out, a.Out.LSE, a.Read}, a.Q, a.K, a.V, a.Offsets, a.Teams, a.LogC); !ok {
		return err
	}
	kv := a.K.Shape[0]
	group := a.Q.Shape[1] / kv
	for t := range a.Q.Shape[0] {
		plans := make([]plan, kv)
		for h := range plans {
			p, rows, err := union(a, t, h, group)
			if err != nil {
				return err
			}
			plans[h] = p
			if a.Read != nil {
				*at[int64](a.Read) += int64(rows)
			}
		}
		if err := k.attendPlans(plans, a.Out, a.Q, a.K, a.V, t, a.Scale); err != nil {
			return err
		}
	}
	return nil
}

// union joins the teams that a group of query heads drew, in rising order.
func union(a device.SelectedArgs, t, h, group int) (p plan, rows int, err error) {
	offsets := row[int32](a.Offsets, h)
	var teams []int32
	for g := range group {
		for _, team := range row[int32](a.Teams, t, h*group+g) {
			if team >= int32(len(offsets)-1) {
				return p, 0, fmt.Errorf("token %d, head %d drew team %d of %d", t, h*group+g, team, len(offsets)-1)
			}
			if team >= 0 {
				teams = append(teams, team)
			}
		}
	}
	slices.Sort(teams)
	teams = slices.Compact(teams)
	p.ldb = len(teams)
	p.bias = make([]float32, group*p.ldb)
	for i := range p.bias {
		p.bias[i] = float32(math.Inf(-1))
	}
	for g := range group {
		logC := row[float32](a.LogC, t, h*group+g)
		for j, team := range row[int32](a.Teams, t, h*group+g) {
			if i, found := slices.BinarySearch(teams, team); found {
				p.bias[g*p.ldb+i] = logAdd(p.bias[g*p.ldb+i], -logC[j])
			}
		}
	}
	for i, team := range teams {
		first, end := offsets[team], offsets[team+1]
		if first < 0 || end < first || int(end) > a.K.Shape[1] {
			return p, 0, fmt.Errorf("team %d of head %d is the rows [%d, %d) of %d", team, h, first, end, a.K.Shape[1])
		}
		p.segments = append(p.segments, kernels.Segment{First: first, Count: end - first, Team: int32(i)})
		rows += int(end - first)
	}
	return p, rows, nil
}

// logAdd is ln(eᵃ + eᵇ): a head that drew a team twice counts it twice.
func logAdd(a, b float32) float32 {
	if absent(a) {
		return b
	}
	return max(a, b) + float32(math.Log1p(math.Exp(-math.Abs(float64(a-b)))))
}
