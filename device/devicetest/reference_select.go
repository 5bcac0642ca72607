package devicetest

import (
	"math"
	"slices"

	"blitzen/device"
)

func (kernels) Route(a device.RouteArgs) error {
	tokens, kvHeads := a.Q.Shape[0], a.Reps.Shape[0]
	group := a.Q.Shape[1] / kvHeads
	for kv := range kvHeads {
		bias := row(a.Bias, kv)
		reps := make([][]float64, len(bias)) // nil: no team
		for g := range reps {
			if !math.IsInf(bias[g], -1) {
				reps[g] = row(a.Reps, kv, g)
				addTo(a.Read, tokens)
			}
		}
		for t := range tokens {
			for h := kv * group; h < (kv+1)*group; h++ {
				q, phi := row(a.Q, t, h), slices.Clone(bias)
				for g, rep := range reps {
					if rep != nil {
						phi[g] += float64(a.Scale) * dot(q, rep)
					}
				}
				setRow(a.Phi, phi, t, h)
			}
		}
	}
	return nil
}

func (kernels) SampleTopK(a device.TopKArgs) error {
	seed := [2]uint32{uint32(number(a.Draw.Seed, 0)), uint32(number(a.Draw.Seed, 1))}
	for t := range a.Phi.Shape[0] {
		for h := range a.Phi.Shape[1] {
			phi := row(a.Phi, t, h)
			noise := func(team int) float64 {
				return device.TeamGumbel(seed, team, h, a.Draw.Layer, integer(a.Draw.Pos, t))
			}
			teams, logC := sampleTopK(phi, noise, a.Teams.Shape[2])
			setRow(a.Teams, teams, t, h)
			setRow(a.LogC, logC, t, h)
		}
	}
	return nil
}

// sampleTopK returns the k teams of largest phi + noise and the log of their
// inclusion probabilities.
func sampleTopK(phi []float64, noise func(team int) float64, k int) (teams, logC []float64) {
	var there []int
	y := make([]float64, len(phi))
	for g := range phi {
		if !math.IsInf(phi[g], -1) {
			there = append(there, g)
			y[g] = phi[g] + noise(g)
		}
	}
	there = largest(there, y)
	for j := range k {
		switch {
		case j >= len(there):
			teams, logC = append(teams, -1), append(logC, 0)
		case k >= len(there):
			teams, logC = append(teams, float64(there[j])), append(logC, 0)
		default:
			tau := y[there[k]]
			teams = append(teams, float64(there[j]))
			logC = append(logC, logInclusion(phi[there[j]]-tau))
		}
	}
	return teams, logC
}

// logInclusion is ln(1 − exp(−exp(delta))) in the three branches that float32
// devices use.
func logInclusion(delta float64) float64 {
	switch {
	case delta < -20:
		return delta
	case delta > 20:
		return 0
	}
	return math.Log(-math.Expm1(-math.Exp(delta)))
}

func (kernels) AttendSelected(a device.SelectedArgs) error {
	tokens, heads, kvHeads := a.Q.Shape[0], a.Q.Shape[1], a.K.Shape[0]
	group := heads / kvHeads
	for t := range tokens {
		for kv := range kvHeads {
			read := map[int]bool{}
			for h := kv * group; h < (kv+1)*group; h++ {
				var part softSum
				q := row(a.Q, t, h)
				for j, team := range row(a.Teams, t, h) {
					if team < 0 {
						continue
					}
					for i := integer(a.Offsets, kv, int(team)); i < integer(a.Offsets, kv, int(team)+1); i++ {
						logit := float64(a.Scale)*dot(q, row(a.K, kv, i)) - number(a.LogC, t, h, j)
						part.add(logit, row(a.V, kv, i))
						read[i] = true
					}
				}
				part.store(a.Out, t, h)
			}
			addTo(a.Read, len(read))
		}
	}
	return nil
}
