package host

import (
	"math"
	"slices"

	"blitzen/device"
)

// sampler is the memory that drawing a token works in.
type sampler struct {
	logits, order []float64
	heap          []int32
}

// Sample implements device.Kernels.
func (k *hostKernels) Sample(a device.SampleArgs) error {
	if ok, err := k.start(outputs{a.ID}, a.Logits, a.Seen, a.Settings, a.Seed, a.Pos); !ok {
		return err
	}
	set, seed := row[float32](a.Settings), row[uint32](a.Seed)
	k.sampler.penalise(row[float32](a.Logits), row[int32](a.Seen), set[device.SetRepetition])
	top := largest(k.sampler.logits)
	switch {
	case top < 0:
		*at[int32](a.ID) = -1
	case set[device.SetTemperature] == 0:
		*at[int32](a.ID) = int32(top)
	default:
		word := device.Philox([4]uint32{0, 0, device.TokenLayer, uint32(*at[int32](a.Pos))}, [2]uint32{seed[0], seed[1]})[0]
		k.sampler.restrict(set, top)
		*at[int32](a.ID) = int32(draw(k.sampler.logits, k.sampler.logits[top], device.Uniform(word)))
	}
	return nil
}

// penalise copies logits with the repetition penalty applied.
func (s *sampler) penalise(logits []float32, seen []int32, penalty float32) {
	s.logits = s.logits[:0]
	for i, x := range logits {
		y := float64(x)
		switch {
		case seen[i] == 0:
		case x > 0:
			y /= float64(penalty)
		default:
			y *= float64(penalty)
		}
		s.logits = append(s.logits, y)
	}
}

// largest is the index of the largest logit, the lower among equals; −1 when
// there is a NaN, a +Inf or nothing above −Inf.
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

// restrict applies the temperature and sets the logits of tokens that top-k,
// top-p and min-p leave out to −Inf. top is the index of the largest.
func (s *sampler) restrict(set []float32, top int) {
	for i := range s.logits {
		s.logits[i] /= float64(set[device.SetTemperature])
	}
	if k := int(set[device.SetTopK]); k > 0 && k < len(s.logits) {
		s.heap = topN(s.heap, s.logits, k)
		keepFrom(s.logits, s.logits[s.heap[k-1]])
	}
	if p := float64(set[device.SetTopP]); p < 1 {
		keepFrom(s.logits, s.nucleus(s.logits[top], p))
	}
	if p := float64(set[device.SetMinP]); p > 0 {
		keepFrom(s.logits, s.logits[top]+math.Log(p))
	}
}

func keepFrom(logits []float64, least float64) {
	for i, x := range logits {
		if x < least {
			logits[i] = math.Inf(-1)
		}
	}
}

// nucleus is the smallest logit whose larger ones hold less than p of the
// probability together; equal ones stand or fall together. Few tokens usually
// hold p: only those near the top are sorted, then more if they do not suffice.
func (s *sampler) nucleus(top, p float64) float64 {
	total := 0.0
	for _, x := range s.logits {
		total += math.Exp(x - top)
	}
	for depth := 4.0; ; depth *= 2 {
		s.order = s.order[:0]
		for _, x := range s.logits {
			if x >= top-depth {
				s.order = append(s.order, x)
			}
		}
		slices.Sort(s.order)
		slices.Reverse(s.order)
		least, larger, i := top, 0.0, 0
		for ; i < len(s.order) && (i == 0 || larger < p); i++ {
			for least = s.order[i]; i+1 < len(s.order) && s.order[i+1] == least; i++ {
				larger += math.Exp(least-top) / total
			}
			larger += math.Exp(least-top) / total
		}
		if larger >= p || i == len(s.logits) || depth > 1024 { // below −745 probabilities are 0
			return least
		}
	}
}

// draw is the first token whose running sum of probabilities passes u.
func draw(logits []float64, top, u float64) int {
	total := 0.0
	for _, x := range logits {
		total += math.Exp(x - top)
	}
	sum, last := 0.0, 0
	for id, x := range logits {
		p := math.Exp(x - top)
		if p == 0 {
			continue
		}
		sum, last = sum+p, id
		if sum > u*total {
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
	ids, probs := row[int32](a.IDs), row[float32](a.LogProbs)
	k.sampler.heap = topN(k.sampler.heap, logits, len(ids))
	for j, id := range k.sampler.heap {
		ids[j], probs[j] = id, float32(float64(logits[id])-whole)
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
