package devicetest

import (
	"math"

	"blitzen/device"
)

func (kernels) Route(a device.RouteArgs) error {
	tokens, heads, kvHeads := a.Q.Shape[0], a.Q.Shape[1], a.Reps.Shape[0]
	for h := range heads {
		kv := h / (heads / kvHeads)
		for g := range a.Reps.Shape[1] {
			bias := number(a.Bias, kv, g)
			for t := range tokens {
				phi := bias
				if !math.IsInf(bias, -1) {
					phi += float64(a.Scale) * dot(row(a.Q, t, h), row(a.Reps, kv, g))
				}
				setNumber(a.Phi, phi, t, h, g)
			}
		}
	}
	teams := 0
	for kv := range kvHeads {
		for _, bias := range row(a.Bias, kv) {
			if !math.IsInf(bias, -1) {
				teams++
			}
		}
	}
	addTo(a.Read, tokens*teams)
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
