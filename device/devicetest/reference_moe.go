package devicetest

import (
	"cmp"
	"math"
	"slices"

	"blitzen/device"
)

func (kernels) Router(a device.RouterArgs) error {
	k := a.IDs.Shape[1]
	gate := device.Weight{Parts: []*device.Tensor{a.Gate}}
	for t, scores := range product(gate, rows(a.X)) {
		scores = softmax(scores)
		chosen := largest(allowedExperts(scores, a.Groups, a.TopGroups), scores)[:k]
		scale := float64(a.Scale)
		if a.Normalize && k > 1 {
			sum := 0.0
			for _, e := range chosen {
				sum += scores[e]
			}
			scale = 1 / sum
		}
		for j, e := range chosen {
			setNumber(a.IDs, float64(e), t, j)
			setNumber(a.Weights, scores[e]*scale, t, j)
		}
	}
	return nil
}

// allowedExperts are those of the top groups by best score.
func allowedExperts(scores []float64, groups, top int) []int {
	size := len(scores) / groups
	best := make([]float64, groups)
	for g := range best {
		best[g] = slices.Max(scores[g*size : (g+1)*size])
	}
	var allowed []int
	for _, g := range largest(upTo(groups), best)[:top] {
		for e := g * size; e < (g+1)*size; e++ {
			allowed = append(allowed, e)
		}
	}
	return allowed
}

func (kernels) Experts(a device.ExpertsArgs) error {
	for t := range a.X.Shape[0] {
		x, sum := row(a.X, t), row(a.Dst, t)
		for j := range a.IDs.Shape[1] {
			id, err := rowNumber(a.IDs, len(a.Experts), t, j)
			if err != nil {
				return err
			}
			e := a.Experts[id]
			inner := swiGLU(product(e.GateUp, [][]float64{x})[0])
			for i, y := range product(e.Down, [][]float64{inner})[0] {
				sum[i] += number(a.Weights, t, j) * y
			}
		}
		setRow(a.Dst, sum, t)
	}
	return nil
}

// largest sorts ids by falling score, the lower id first among equals.
func largest(ids []int, score []float64) []int {
	slices.SortFunc(ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b))
	})
	return ids
}

func upTo(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return ids
}

// softmax is exp(x) over its sum; entries of −Inf become 0.
func softmax(x []float64) []float64 {
	top, sum := slices.Max(x), 0.0
	p := make([]float64, len(x))
	for i := range x {
		p[i] = math.Exp(x[i] - top)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
