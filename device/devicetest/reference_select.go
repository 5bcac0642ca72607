package devicetest

import (
	"math"
	"slices"
	"sort"

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
			}
		}
		for t := range tokens {
			last := len(bias) - 1
			if a.Last != nil {
				last = integer(a.Last, t)
			}
			for h := kv * group; h < (kv+1)*group; h++ {
				q, phi := row(a.Q, t, h), slices.Clone(bias)
				for g, rep := range reps {
					switch {
					case g > last:
						phi[g] = math.Inf(-1)
					case rep != nil:
						phi[g] += float64(a.Scale) * dot(q, rep)
					}
				}
				setRow(a.Phi, phi, t, h)
			}
			for g, rep := range reps {
				if rep != nil && g <= last {
					addTo(a.Read, 1)
				}
			}
		}
	}
	return nil
}

func (kernels) Quantize(dst, src *device.Tensor) error {
	for h := range src.Shape[0] {
		top := 0.0
		for i := range src.Shape[1] {
			for _, v := range row(src, h, i) {
				if special(v) {
					top = math.NaN()
				}
				top = max(top, math.Abs(v))
			}
		}
		factor := float64(float32(top / 448))
		setNumber(dst.Scale, factor, h, 0)
		for i := range src.Shape[1] {
			elements := make([]float64, src.Shape[2])
			for j, v := range row(src, h, i) {
				if factor > 0 {
					elements[j] = v / factor
				}
			}
			setRow(dst, elements, h, i)
		}
	}
	return nil
}

func (kernels) SampleWithReplacement(a device.ReplacementArgs) error {
	seed := [2]uint32{uint32(number(a.Draw.Seed, 0)), uint32(number(a.Draw.Seed, 1))}
	draws := a.Teams.Shape[2]
	for t := range a.Phi.Shape[0] {
		for h := range a.Phi.Shape[1] {
			phi := row(a.Phi, t, h)
			lse, sums := logSumExp(phi), runningSums(phi)
			teams, logC := make([]float64, draws), make([]float64, draws)
			for j := range draws {
				word := func(j int) uint32 { return teamWord(seed, j, h, a.Draw.Layer, integer(a.Draw.Pos, t)) }
				u := device.Uniform(word(j))
				if a.Systematic {
					u = (float64(j) + device.Uniform(word(0))) / float64(draws)
				}
				team := drawnBy(u, sums)
				teams[j] = float64(team)
				if team >= 0 {
					logC[j] = math.Log(float64(draws)) + phi[team] - lse
				}
			}
			setRow(a.Teams, teams, t, h)
			setRow(a.LogC, logC, t, h)
		}
	}
	return nil
}

// runningSums are those of the probabilities softmax(phi); nil for no teams.
func runningSums(phi []float64) []float64 {
	lse := logSumExp(phi)
	if math.IsInf(lse, -1) {
		return nil
	}
	sums := make([]float64, len(phi))
	sum := 0.0
	for g, p := range phi {
		sum += math.Exp(p - lse)
		sums[g] = sum
	}
	return sums
}

// drawnBy is the first team whose running sum exceeds u times the last of them;
// −1 for no teams.
func drawnBy(u float64, sums []float64) int {
	if sums == nil {
		return -1
	}
	total := sums[len(sums)-1]
	return sort.Search(len(sums)-1, func(g int) bool { return sums[g] > u*total })
}

func (kernels) GroupMass(phi, scores, offsets *device.Tensor) error {
	group := phi.Shape[1] / offsets.Shape[0]
	for t := range phi.Shape[0] {
		for h := range phi.Shape[1] {
			s, mass := row(scores, t, h), make([]float64, phi.Shape[2])
			for g := range mass {
				mass[g] = logSumExp(s[integer(offsets, h/group, g):integer(offsets, h/group, g+1)])
			}
			setRow(phi, mass, t, h)
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
