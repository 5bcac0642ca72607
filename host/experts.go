package host

import (
	"cmp"
	"fmt"
	"slices"

	"blitzen/device"
	"blitzen/host/kernels"
)

// Router implements device.Kernels.
func (k *hostKernels) Router(a device.RouterArgs) error {
	if ok, err := k.start(outputs{a.IDs, a.Weights}, a.X, a.Gate); !ok {
		return err
	}
	tokens, experts := a.X.Shape[0], a.Gate.Shape[0]
	scores, err := k.pool.shared.floats(tokens * experts)
	if err != nil {
		return err
	}
	all := kernels.Matrix{P: scores, LD: experts}
	logits := product{dst: all, x: matrix(a.X), w: matrix(a.Gate), rows: tokens, outs: experts, in: a.X.Shape[1]}
	if err := k.multiply(logits); err != nil {
		return err
	}
	k.overRows(tokens, func(from, count int) {
		for t := from; t < from+count; t++ {
			p := shift(scores, t*experts)
			kernels.Softmax(p, experts)
			chooseExperts(a, t, slice(p, experts))
		}
	})
	return nil
}

// chooseExperts writes one token's experts and weights from its softmax scores.
func chooseExperts(a device.RouterArgs, t int, scores []float32) {
	k := a.IDs.Shape[1]
	chosen := allowedExperts(scores, a.Groups, a.TopGroups)
	byScore(chosen, scores)
	scale := a.Scale
	if a.Normalize && k > 1 {
		total := float32(0)
		for _, e := range chosen[:k] {
			total += scores[e]
		}
		scale = 1 / total
	}
	ids, weights := row[int32](a.IDs, t), row[float32](a.Weights, t)
	for j, e := range chosen[:k] {
		ids[j], weights[j] = e, scores[e]*scale
	}
}

// allowedExperts are the experts of the top groups by best score.
func allowedExperts(scores []float32, groups, top int) []int32 {
	size := len(scores) / groups
	best, order := make([]float32, groups), make([]int32, groups)
	for g := range best {
		best[g], order[g] = slices.Max(scores[g*size:(g+1)*size]), int32(g)
	}
	byScore(order, best)
	allowed := make([]int32, 0, top*size)
	for _, g := range order[:top] {
		for e := range size {
			allowed = append(allowed, g*int32(size)+int32(e))
		}
	}
	return allowed
}

// byScore sorts ids by falling score, the lower id first among equals.
func byScore(ids []int32, score []float32) {
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b))
	})
}

// Experts implements device.Kernels.
func (k *hostKernels) Experts(a device.ExpertsArgs) error {
	inputs := []*device.Tensor{a.X, a.IDs, a.Weights}
	for _, e := range a.Experts {
		inputs = append(inputs, weightTensors(e.GateUp, e.Down)...)
	}
	if ok, err := k.start(outputs{a.Dst}, inputs...); !ok {
		return err
	}
	users, err := expertUsers(a)
	if err != nil {
		return err
	}
	for e, of := range users {
		if len(of) == 0 {
			continue
		}
		if err := k.expert(a, a.Experts[e], of); err != nil {
			return err
		}
	}
	return nil
}

// use is one token's use of an expert.
type use struct {
	token  int
	weight float32
}

func expertUsers(a device.ExpertsArgs) ([][]use, error) {
	users := make([][]use, len(a.Experts))
	for t := range a.X.Shape[0] {
		weights := row[float32](a.Weights, t)
		for j, e := range row[int32](a.IDs, t) {
			if e < 0 || int(e) >= len(users) {
				return nil, fmt.Errorf("token %d chose expert %d of %d", t, e, len(users))
			}
			users[e] = append(users[e], use{t, weights[j]})
		}
	}
	return users, nil
}

// expert runs the tokens of one expert through it and adds the results.
func (k *hostKernels) expert(a device.ExpertsArgs, e device.Expert, of []use) error {
	n, hidden, width := len(of), a.X.Shape[1], e.GateUp.Out()/2
	mem, err := k.pool.shared.floats(n * (2*hidden + 3*width))
	if err != nil {
		return err
	}
	x := kernels.Matrix{P: mem, LD: hidden}
	gateUp := kernels.Matrix{P: shift(x.P, n*hidden), LD: 2 * width}
	act := kernels.Matrix{P: shift(gateUp.P, n*2*width), LD: width}
	y := kernels.Matrix{P: shift(act.P, n*width), LD: hidden}
	for i, u := range of {
		copy(slice(below(x, i).P, hidden), row[float32](a.X, u.token))
	}
	if err := k.linear(gateUp, x, e.GateUp, n, false); err != nil {
		return err
	}
	k.overRows(n, func(from, count int) { kernels.SwiGLU(below(act, from), below(gateUp, from), count, width) })
	if err := k.linear(y, act, e.Down, n, false); err != nil {
		return err
	}
	for i, u := range of {
		kernels.AddScaled(f32(a.Dst, u.token), below(y, i).P, u.weight, hidden)
	}
	return nil
}
