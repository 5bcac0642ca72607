package devicetest

import (
	"fmt"
	"math"

	"blitzen/device"
)

func (kernels) GatherRows(dst, src, ids *device.Tensor) error {
	for h := range dst.Shape[0] {
		if err := (kernels{}).gather(dst.Index(0, h), src.Index(0, h), ids.Index(0, h)); err != nil {
			return err
		}
	}
	return nil
}

// problem is the rows of one problem, [n][d].
type problem [][]float64

// problems reads the rows of every problem; ids, if any, picks them.
func problems(x device.RowSets, ids *device.Tensor) ([]problem, error) {
	var all []problem
	for _, t := range x {
		for h := range t.Shape[0] {
			p := problem(rows(t, h))
			if ids != nil {
				var picked problem
				for i := range ids.Shape[1] {
					id, err := rowNumber(ids, len(p), len(all), i)
					if err != nil {
						return nil, err
					}
					picked = append(picked, p[id])
				}
				p = picked
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// distance is that of k-means++: the product of the rows and their squares are
// rounded to float64, the result to float32.
func distance(x, y []float64) float64 {
	return float64(float32(max(0, (-2*dot(x, y)+dot(x, x))+dot(y, y))))
}

func (kernels) SpreadCenters(a device.SpreadArgs) error {
	all, err := problems(a.X, nil)
	if err != nil {
		return err
	}
	for p, x := range all {
		var y problem
		for i := range a.IDs.Shape[0] {
			id, err := rowNumber(a.IDs, len(x), i)
			if err != nil {
				return err
			}
			y = append(y, x[id])
		}
		near, pot, chosen := row(a.Near, p), number(a.Pot, p), row(a.Chosen, p)
		for c := a.From; c < a.To; c++ {
			if c == 0 {
				chosen[0] = float64(a.First)
				for j := range y {
					near[j] = math.Inf(1)
				}
				near, pot = y.closer(near, a.First)
				continue
			}
			before, total := near, pot
			for t := range a.Words.Shape[1] {
				u := device.Double(uint32(number(a.Words, c, t, 0)), uint32(number(a.Words, c, t, 1)))
				candidate := reach(before, u*total)
				if n, v := y.closer(before, candidate); t == 0 || v < pot {
					near, pot, chosen[c] = n, v, float64(candidate)
				}
			}
		}
		setRow(a.Near, near, p)
		setNumber(a.Pot, pot, p)
		setRow(a.Chosen, chosen, p)
	}
	return nil
}

// closer is the distances to the nearest center when row c becomes one, and
// their sum.
func (y problem) closer(near []float64, c int) (now []float64, pot float64) {
	for j, v := range near {
		now = append(now, min(v, distance(y[c], y[j])))
		pot += now[j]
	}
	return now, float64(float32(pot))
}

// reach is the first index at which the running float32 sum is at least r.
func reach(v []float64, r float64) int {
	var sum float32
	for j := range v {
		if sum += float32(v[j]); float64(sum) >= r {
			return j
		}
	}
	return len(v) - 1
}

func (kernels) Nearest(a device.NearestArgs) error {
	all, err := problems(a.X, a.IDs)
	if err != nil {
		return err
	}
	for p, x := range all {
		if a.Live != nil && integer(a.Live, p) == 0 {
			continue
		}
		centers := rows(a.Centers, p)
		norms := make([]float32, len(centers))
		for j, center := range centers {
			for _, c := range center {
				norms[j] += float32(c) * float32(c)
			}
		}
		var inertia float32
		for i, v := range x {
			nearest, least := 0, float32(0)
			for j, center := range centers {
				d := float32(float64(norms[j]) - 2*dot(v, center))
				if j == 0 || d < least {
					nearest, least = j, d
				}
			}
			inertia += squares(v, centers[nearest])
			base := 0
			if a.Base != nil {
				base = integer(a.Base, p)
			}
			setNumber(a.Labels, float64(base+nearest), p, i)
		}
		if a.Inertia != nil {
			setNumber(a.Inertia, float64(inertia), p)
		}
	}
	return nil
}

// squares adds four squares at a time, in float32.
func squares(x, c []float64) (sum float32) {
	square := func(i int) float32 { d := float32(x[i]) - float32(c[i]); return d * d }
	i := 0
	for ; i+4 <= len(x); i += 4 {
		sum += float32(float32(square(i)+square(i+1))+square(i+2)) + square(i+3)
	}
	for ; i < len(x); i++ {
		sum += square(i)
	}
	return sum
}

func (kernels) MoveCenters(a device.MoveArgs) error {
	all, err := problems(a.X, a.IDs)
	if err != nil {
		return err
	}
	for p, x := range all {
		if a.Live != nil && integer(a.Live, p) == 0 {
			continue
		}
		counts, labels := row(a.Counts, p), row(a.Labels, p)
		for c := range counts {
			var members problem
			for i, v := range x {
				switch label := int(labels[i]); {
				case label >= len(counts):
					return fmt.Errorf("label %d of %d", label, len(counts))
				case label == c:
					members = append(members, v)
				}
			}
			if len(members) > 0 {
				count := float32(counts[c])
				center := row(a.Centers, p, c)
				counts[c] += float64(len(members))
				for j := range center {
					sum := float32(center[j]) * count
					for _, v := range members {
						sum += float32(v[j])
					}
					center[j] = float64(sum * (1 / float32(counts[c])))
				}
				setRow(a.Centers, center, p, c)
			}
		}
		setRow(a.Counts, counts, p)
	}
	return nil
}

func (kernels) DivideTeams(a device.DivideArgs) error {
	all, err := problems(a.X, nil)
	if err != nil {
		return err
	}
	for p, x := range all {
		if bad := x.notFinite(); bad >= 0 {
			setNumber(a.Teams, float64(-1-bad), p)
			continue
		}
		var reps []float64
		var teams [][]int
		parents := row(a.Parent, p)
		for parent := range a.Parents {
			var members []int
			for i := range x {
				if int(parents[i]) == parent {
					members = append(members, i)
				}
			}
			chosen := x.represent(members, a.Most)
			for i, team := range x.join(members, chosen) {
				reps, teams = append(reps, float64(chosen[i])), append(teams, team)
			}
		}
		setNumber(a.Teams, float64(len(teams)), p)
		place := 0
		setNumber(a.Offsets, 0, p, 0)
		for g := range a.Reps.Shape[1] {
			rep, logN := 0.0, math.Inf(-1)
			if g < len(teams) {
				rep, logN = reps[g], math.Log(float64(len(teams[g])))
				for _, i := range teams[g] {
					setNumber(a.Slots, float64(place), p, i)
					place++
				}
			}
			setNumber(a.Reps, rep, p, g)
			setNumber(a.LogN, logN, p, g)
			setNumber(a.Offsets, float64(place), p, g+1)
		}
	}
	return nil
}

func (x problem) notFinite() int {
	for i, v := range x {
		for _, e := range v {
			if special(e) {
				return i
			}
		}
	}
	return -1
}

// apart is the squared distance, every step rounded.
func apart(a, b []float64) float64 {
	var sum [2]float64
	for j := range a {
		d := a[j] - b[j]
		sum[j/8%2] += float64(d * d)
	}
	return sum[0] + sum[1]
}

// represent chooses members by the definition: the score of the first is its
// closeness to the mean, of the others their distance from the nearest chosen.
func (x problem) represent(members []int, most int) (chosen []int) {
	taken := map[int]bool{}
	mean := x.mean(members)
	for len(chosen) < min(most, len(members)) {
		best, highest := -1, 0.0
		for _, i := range members {
			if taken[i] {
				continue
			}
			score := math.Inf(1)
			for _, c := range chosen {
				score = min(score, apart(x[i], x[c]))
			}
			if len(chosen) == 0 {
				score = -apart(x[i], mean)
			}
			if best < 0 || score > highest {
				best, highest = i, score
			}
		}
		chosen, taken[best] = append(chosen, best), true
	}
	return chosen
}

func (x problem) mean(members []int) []float64 {
	m := make([]float64, len(x[0]))
	if len(members) == 0 {
		return m
	}
	for _, i := range members {
		for j, v := range x[i] {
			m[j] += v
		}
	}
	for j := range m {
		m[j] /= float64(len(members))
	}
	return m
}

// join is the members of each chosen one's team.
func (x problem) join(members, chosen []int) [][]int {
	teams := make([][]int, len(chosen))
	for _, i := range members {
		nearest := 0
		for t, c := range chosen {
			if c == i {
				nearest = t
				break
			}
			if apart(x[i], x[c]) < apart(x[i], x[chosen[nearest]]) {
				nearest = t
			}
		}
		teams[nearest] = append(teams[nearest], i)
	}
	return teams
}
