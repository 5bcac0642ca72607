package devicetest

import (
	"math"
	"slices"

	"blitzen/device"
)

func (kernels) Sample(a device.SampleArgs) error {
	logits, seen, settings := row(a.Logits), row(a.Seen), row(a.Settings)
	if broken(logits) {
		setNumber(a.ID, -1, 0)
		return nil
	}
	if settings[device.SetTemperature] == 0 {
		penalise(logits, seen, settings[device.SetRepetition])
		setNumber(a.ID, float64(largest(upTo(len(logits)), logits)[0]), 0)
		return nil
	}
	seed := [2]uint32{uint32(number(a.Seed, 0)), uint32(number(a.Seed, 1))}
	word := device.Philox([4]uint32{0, 0, device.TokenLayer, uint32(number(a.Pos, 0))}, seed)[0]
	setNumber(a.ID, float64(drawToken(keptProbabilities(logits, seen, settings), device.Uniform(word))), 0)
	return nil
}

// keptProbabilities is the distribution that a token is drawn from at a
// temperature above 0.
func keptProbabilities(logits, seen, settings []float64) []float64 {
	logits = slices.Clone(logits)
	penalise(logits, seen, settings[device.SetRepetition])
	for i := range logits {
		logits[i] /= settings[device.SetTemperature]
	}
	if k := int(settings[device.SetTopK]); k > 0 && k < len(logits) {
		keepTopK(logits, k)
	}
	if p := settings[device.SetTopP]; p < 1 {
		keepTopP(logits, p)
	}
	if p := settings[device.SetMinP]; p > 0 {
		keepMinP(logits, p)
	}
	return softmax(logits)
}

// broken reports a NaN, a +Inf or no token above −Inf.
func broken(logits []float64) bool {
	top := slices.Max(logits) // NaN if any is
	return math.IsNaN(top) || math.IsInf(top, 0)
}

func penalise(logits, seen []float64, penalty float64) {
	for i := range logits {
		switch {
		case seen[i] == 0:
		case logits[i] > 0:
			logits[i] /= penalty
		default:
			logits[i] *= penalty
		}
	}
}

// drop takes the tokens below a logit out of the draw.
func drop(logits []float64, below float64) {
	for i := range logits {
		if logits[i] < below {
			logits[i] = math.Inf(-1)
		}
	}
}

// keepTopK keeps the tokens with fewer than k larger ones.
func keepTopK(logits []float64, k int) {
	drop(logits, falling(logits)[k-1])
}

// keepTopP keeps the tokens whose larger ones hold less than p together, and
// the largest in any case.
func keepTopP(logits []float64, p float64) {
	order := falling(logits)
	prob := softmax(order)
	least, larger := order[0], 0.0 // the border so far; the mass above the current logit
	for i := 0; i < len(order); {
		if i > 0 && larger >= p {
			break
		}
		least = order[i]
		for i < len(order) && order[i] == least {
			larger += prob[i]
			i++
		}
	}
	drop(logits, least)
}

// keepMinP keeps the tokens at least p times as probable as the largest.
func keepMinP(logits []float64, p float64) {
	drop(logits, slices.Max(logits)+math.Log(p))
}

// drawToken is the first token whose running sum of probabilities passes u.
func drawToken(prob []float64, u float64) int {
	total := 0.0
	for _, p := range prob {
		total += p
	}
	sum, last := 0.0, 0
	for id, p := range prob {
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

func falling(x []float64) []float64 {
	order := slices.Clone(x)
	slices.Sort(order)
	slices.Reverse(order)
	return order
}

func (kernels) TopLogProbs(a device.LogProbArgs) error {
	logits := row(a.Logits)
	whole := logSumExp(logits)
	for j, id := range largest(upTo(len(logits)), logits)[:a.IDs.Shape[0]] {
		setNumber(a.IDs, float64(id), j)
		setNumber(a.LogProbs, logits[id]-whole, j)
	}
	chosen := math.NaN()
	if id := integer(a.ID, 0); id >= 0 && id < len(logits) {
		chosen = logits[id] - whole
	}
	setNumber(a.Chosen, chosen, 0)
	return nil
}

func (kernels) MarkSeen(seen, ids *device.Tensor) error {
	for _, id := range row(ids) {
		if id >= 0 && int(id) < seen.Shape[0] {
			setNumber(seen, 1, int(id))
		}
	}
	return nil
}
