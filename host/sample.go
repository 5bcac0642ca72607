package host

import (
	"cmp"
	"math"
	"slices"

	"blitzen/device"
)

// Sample implements device.Kernels.
func (k *hostKernels) Sample(a device.SampleArgs) error {
	if ok, err := k.start(outputs{a.ID}, a.Logits, a.Seen, a.Settings, a.Seed, a.Pos); !ok {
		return err
	}
	set := row[float32](a.Settings)
	logits := penalised(row[float32](a.Logits), row[int32](a.Seen), set[device.SetRepetition])
	top := largest(logits)
	switch {
	case top < 0:
		*at[int32](a.ID) = -1
		return nil
	case set[device.SetTemperature] == 0:
		*at[int32](a.ID) = int32(top)
		return nil
	}
	t := float64(set[device.SetTemperature])
	for i := range logits {
		logits[i] /= t
	}
	restrict(logits, set)
	seed := row[uint32](a.Seed)
	word := device.Philox([4]uint32{0, 0, device.TokenLayer, uint32(*at[int32](a.Pos))}, [2]uint32{seed[0], seed[1]})[0]
	*at[int32](a.ID) = int32(draw(logits, logits[top], device.Uniform(word)))
	return nil
}

// penalised copies logits with the repetition penalty applied.
func penalised(logits []float32, seen []int32, penalty float32) []float64 {
	out := make([]float64, len(logits))
	p := float64(penalty)
	for i, x := range logits {
		out[i] = float64(x)
		switch {
		case seen[i] == 0:
		case x > 0:
			out[i] /= p
		default:
			out[i] *= p
		}
	}
	return out
}

// largest is the index of the largest logit, the lower among equals; −1 when there is a NaN, a +Inf or nothing above −Inf.
func largest(x []float64) int {
	top, at := math.Inf(-1), -1
	for i, v := range x {
		if v > top {
			top, at = v, i
		}
		if v != v || v > math.MaxFloat64 {
			return -1
		}
	}
	return at
}

// restrict sets the logits of tokens that top-k, top-p and min-p leave out to −Inf.
func restrict(logits []float64, set []float32) {
	topK, topP, minP := int(set[device.SetTopK]), float64(set[device.SetTopP]), float64(set[device.SetMinP])
	if topK > 0 && topK < len(logits) {
		keepAbove(logits, falling(logits)[topK-1])
	}
	if topP < 1 {
		keepAbove(logits, nucleus(falling(logits), topP))
	}
	if minP > 0 {
		keepAbove(logits, slices.Max(logits)+math.Log(minP))
	}
}

func keepAbove(logits []float64, least float64) {
	for i, x := range logits {
		if x < least {
			logits[i] = math.Inf(-1)
		}
	}
}

func falling(x []float64) []float64 {
	order := slices.Clone(x)
	slices.SortFunc(order, func(a, b float64) int { return cmp.Compare(b, a) })
	return order
}

// nucleus is the smallest logit whose larger ones hold less than p of the probability together; equal ones stand or fall together.
func nucleus(order []float64, p float64) float64 {
	total := 0.0
	for _, x := range order {
		total += math.Exp(x - order[0])
	}
	least, larger := order[0], 0.0
	for i := 0; i < len(order) && (i == 0 || larger < p); {
		least = order[i]
		for i < len(order) && order[i] == least {
			larger += math.Exp(order[i]-order[0]) / total
			i++
		}
	}
	return least
}

// draw is the first token whose running sum of probabilities passes u.
func draw(logits []float64, top, u float64) int {
	total := 0.0
	for _, x := range logits {
		total += math.Exp(x - top)
	}
	sum, last := 0.0, 0
	for id, x := range logits {
		p := math.Exp(x-top) / total
		if p == 0 {
			continue
		}
		sum, last = sum+p, id
		if sum > u {
			break
		}
	}
	return last
}

// TopLogProbs implements device.Kernels.
func (k *hostKernels) TopLogProbs(a device.LogProbArgs) error {
	if ok, err := k.start(outputs{a.IDs, a.LogProbs, a.Chosen}, a.Logits, a.ID); !ok {
		return err
	}
	logits := row[float32](a.Logits)
	top := float64(slices.Max(logits))
	total := 0.0
	for _, x := range logits {
		total += math.Exp(float64(x) - top)
	}
	whole := top + math.Log(total)
	order := make([]int32, len(logits))
	for i := range order {
		order[i] = int32(i)
	}
	byScore(order, logits)
	ids, probs := row[int32](a.IDs), row[float32](a.LogProbs)
	for j := range ids {
		ids[j], probs[j] = order[j], float32(float64(logits[order[j]])-whole)
	}
	chosen := math.NaN()
	if id := int(*at[int32](a.ID)); id >= 0 && id < len(logits) {
		chosen = float64(logits[id]) - whole
	}
	*at[float32](a.Chosen) = float32(chosen)
	return nil
}

// MarkSeen implements device.Kernels. Ids outside the vocabulary are ignored.
func (k *hostKernels) MarkSeen(seen, ids *device.Tensor) error {
	if ok, err := k.start(outputs{seen}, ids); !ok {
		return err
	}
	s := row[int32](seen)
	for _, id := range row[int32](ids) {
		if id >= 0 && int(id) < len(s) {
			s[id] = 1
		}
	}
	return nil
}
