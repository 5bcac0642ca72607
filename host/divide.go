package host

import (
	"fmt"
	"math"

	"blitzen/device"
)

// DivideTeams implements device.Kernels. Problems run side by side.
func (k *hostKernels) DivideTeams(a device.DivideArgs) error {
	out := outputs{a.Teams, a.Reps, a.LogN, a.Offsets, a.Slots}
	if ok, err := k.start(out, append([]*device.Tensor{a.Parent}, a.X...)...); !ok {
		return err
	}
	all, err := sets(a.X, nil)
	if err != nil {
		return err
	}
	for p := range all {
		for i, g := range row[int32](a.Parent, p) {
			if g < 0 || int(g) >= a.Parents {
				return fmt.Errorf("problem %d: row %d has parent %d of %d", p, i, g, a.Parents)
			}
		}
	}
	k.pool.run(len(all), func(_, p int) {
		s := all[p]
		teams := at[int32](a.Teams, p)
		if bad := notFinite(s); bad >= 0 {
			*teams = int32(-1 - bad)
			return
		}
		v := divider{
			rowSet: s, most: a.Most, mean: make([]float64, s.d), team: make([]int32, s.n),
			reps: row[int32](a.Reps, p)[:0], sizes: make([]int32, 0, a.Reps.Shape[1]),
		}
		order, offsets := group(row[int32](a.Parent, p), a.Parents)
		for g := range a.Parents {
			if members := order[offsets[g]:offsets[g+1]]; len(members) > 0 {
				v.divide(members)
			}
		}
		*teams = int32(len(v.reps))
		v.layout(row[int32](a.Slots, p), row[int32](a.Offsets, p), row[float32](a.LogN, p))
		clear(row[int32](a.Reps, p)[len(v.reps):])
	})
	return nil
}

// notFinite is the first row with a NaN or an infinity, −1 if there is none.
func notFinite(s rowSet) int {
	for i := range s.n {
		for _, x := range s.row(i) {
			if x-x != 0 {
				return i
			}
		}
	}
	return -1
}

// divider splits the parents of one problem.
type divider struct {
	rowSet
	most  int
	mean  []float64 // [d] of the members
	near  []float64 // [members] squared distance to the nearest representative, −1 for a representative
	team  []int32   // [n]
	reps  []int32   // [teams]
	sizes []int32   // [teams]
}

// divide makes teams of the members of one parent, which are in row order.
func (v *divider) divide(members []int32) {
	v.near = append(v.near[:0], make([]float64, len(members))...)
	next := v.central(members)
	for s := range min(v.most, len(members)) {
		if s > 0 {
			next = farthest(v.near)
		}
		v.represent(members, next, s == 0)
	}
}

// central returns the member nearest the mean of all.
func (v *divider) central(members []int32) int {
	clear(v.mean)
	for _, row := range members {
		for j, x := range v.row(int(row)) {
			v.mean[j] += float64(x)
		}
	}
	for j := range v.mean {
		v.mean[j] /= float64(len(members))
	}
	best, least := 0, 0.0
	for i, row := range members {
		sum := apart(v.row(int(row)), v.mean)
		if i == 0 || sum < least {
			best, least = i, sum
		}
	}
	return best
}

// represent opens a team for member i; the members that are nearer to it than
// to every earlier representative join, at first all.
func (v *divider) represent(members []int32, i int, first bool) {
	team := int32(len(v.reps))
	v.reps, v.sizes = append(v.reps, members[i]), append(v.sizes, 0)
	rep := v.row(int(members[i]))
	for m, row := range members {
		if m != i && v.near[m] < 0 {
			continue
		}
		far := apart(v.row(int(row)), rep)
		if m != i && !first && far >= v.near[m] {
			continue
		}
		if !first {
			v.sizes[v.team[row]]--
		}
		v.near[m], v.team[row] = far, team
		v.sizes[team]++
	}
	v.near[i] = -1
}

// layout puts the rows of a team side by side.
func (v *divider) layout(slots, offsets []int32, logN []float32) {
	order, ends := group(v.team, len(v.reps))
	for place, row := range order {
		slots[row] = int32(place)
	}
	for g := range logN {
		logN[g], offsets[g+1] = float32(math.Inf(-1)), int32(v.n)
		if g < len(v.sizes) {
			logN[g], offsets[g+1] = float32(math.Log(float64(v.sizes[g]))), ends[g+1]
		}
	}
	offsets[0] = 0
}

func farthest(near []float64) int {
	best := 0
	for i, x := range near {
		if x > near[best] {
			best = i
		}
	}
	return best
}

// apart is the squared distance: eight coordinates go to one sum, the next eight
// to the other, as two threads of a GPU add them.
func apart[T float32 | float64](a []float32, b []T) float64 {
	var sum [2]float64
	for j, x := range a {
		diff := float64(x) - float64(b[j])
		sum[j/8%2] += float64(diff * diff)
	}
	return sum[0] + sum[1]
}

// group sorts rows by their label, 0 ≤ label < labels, and within a label by
// row; label g has order[offsets[g]:offsets[g+1]].
func group(label []int32, labels int) (order, offsets []int32) {
	offsets = make([]int32, labels+1)
	for _, g := range label {
		offsets[g+1]++
	}
	for g := range labels {
		offsets[g+1] += offsets[g]
	}
	next := append([]int32(nil), offsets...)
	order = make([]int32, len(label))
	for row, g := range label {
		order[next[g]] = int32(row)
		next[g]++
	}
	return order, offsets
}
