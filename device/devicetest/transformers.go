package devicetest

import (
	"cmp"
	"math"
	"slices"

	"blitzen/device"
)

// transformersProbabilities is the distribution that the logits processors of
// Hugging Face transformers leave, in the steps of their own code, which are
// not those of the reference: it checks both.
//
// Source: transformers, generation/logits_process.py: RepetitionPenalty-,
// Temperature-, TopK-, TopP- and MinP- classes, with min_tokens_to_keep 1.
func transformersProbabilities(logits, seen, settings []float64) []float64 {
	scores := slices.Clone(logits)
	n := len(scores)
	for i, s := range scores {
		if seen[i] != 0 {
			if s < 0 {
				scores[i] = s * settings[device.SetRepetition]
			} else {
				scores[i] = s / settings[device.SetRepetition]
			}
		}
		scores[i] /= settings[device.SetTemperature]
	}
	remove := func(remove func(position int) bool) {
		ascending := upTo(n)
		slices.SortStableFunc(ascending, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
		for position, id := range ascending {
			if position < n-1 && remove(position) {
				scores[id] = math.Inf(-1)
			}
		}
	}
	if k := int(settings[device.SetTopK]); k > 0 {
		sorted := slices.Sorted(slices.Values(scores))
		least := sorted[n-min(k, n)]
		remove(func(position int) bool { return sorted[position] < least })
	}
	if p := settings[device.SetTopP]; p < 1 {
		cumulative := softmax(slices.Sorted(slices.Values(scores)))
		for i := 1; i < n; i++ {
			cumulative[i] += cumulative[i-1]
		}
		remove(func(position int) bool { return cumulative[position] <= 1-p })
	}
	if p := settings[device.SetMinP]; p > 0 {
		sorted := softmax(slices.Sorted(slices.Values(scores)))
		remove(func(position int) bool { return sorted[position] < p*sorted[n-1] })
	}
	return softmax(scores)
}
