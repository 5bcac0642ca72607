package teams

import "fmt"

// Divide splits parents into teams. keys [len(parent), d] are the rows' keys;
// parent gives each row's parent, numbers that no row has are passed over; r ≥ 1
// is the most representatives of a parent.
//
// In a parent with members C, min(r, |C|) members represent: first the one
// nearest the mean of the members, then again and again the one farthest from
// its nearest representative so far; among equals the lower row. Each member
// joins its nearest representative, the earlier among equals; a representative
// joins itself. Distances are squared Euclidean, in float64. A NaN or infinite
// key is an error. Teams are numbered
// parent after parent in the order of selection.
//
// Source: SANTA++, section 2.2 and Algorithm 2; farthest-first traversal, Gonzalez (1985).
func Divide(keys []float32, d int, parent []int32, r int) (Partition, error) {
	n := len(parent)
	if r < 1 {
		return Partition{}, fmt.Errorf("--representatives %d: must be at least 1", r)
	}
	if d < 1 || len(keys) != n*d {
		return Partition{}, fmt.Errorf("teams: %d numbers are not %d keys of width %d", len(keys), n, d)
	}
	for i, x := range keys {
		if x-x != 0 {
			return Partition{}, fmt.Errorf("teams: key %d, column %d is %v", i/d, i%d, x)
		}
	}
	parents := 0
	for row, p := range parent {
		if p < 0 || int(p) >= n {
			return Partition{}, fmt.Errorf("teams: row %d has parent %d: want 0 to %d", row, p, n-1)
		}
		parents = max(parents, int(p)+1)
	}
	order, offsets := group(parent, parents)
	v := divider{keys: keys, d: d, r: r, mean: make([]float64, d)}
	v.out.Team = make([]int32, n)
	for p := range parents {
		if members := order[offsets[p]:offsets[p+1]]; len(members) > 0 {
			v.divide(members)
		}
	}
	return v.out, nil
}

type divider struct {
	keys []float32
	d, r int
	mean []float64 // [d] of the members
	near []float64 // [members] squared distance to the nearest representative, −1 for a representative
	out  Partition
}

func (v *divider) key(row int32) []float32 { return v.keys[int(row)*v.d : (int(row)+1)*v.d] }

// divide makes teams of the members of one parent, which are in row order.
func (v *divider) divide(members []int32) {
	v.near = append(v.near[:0], make([]float64, len(members))...)
	next := v.central(members)
	for s := range min(v.r, len(members)) {
		if s > 0 {
			next = largest(v.near)
		}
		v.represent(members, next, s == 0)
	}
}

// central returns the member nearest the mean of all.
func (v *divider) central(members []int32) int {
	clear(v.mean)
	for _, row := range members {
		for j, x := range v.key(row) {
			v.mean[j] += float64(x)
		}
	}
	for j := range v.mean {
		v.mean[j] /= float64(len(members))
	}
	best, least := 0, 0.0
	for i, row := range members {
		sum := 0.0
		for j, x := range v.key(row) {
			diff := float64(x) - v.mean[j]
			sum += float64(diff * diff)
		}
		if i == 0 || sum < least {
			best, least = i, sum
		}
	}
	return best
}

// represent opens a team for member i; the members that are nearer to it than
// to every earlier representative join, at first all.
func (v *divider) represent(members []int32, i int, first bool) {
	team := int32(len(v.out.Reps))
	v.out.Reps = append(v.out.Reps, members[i])
	v.out.N = append(v.out.N, 0)
	rep := v.key(members[i])
	for m, row := range members {
		if m != i && v.near[m] < 0 {
			continue
		}
		far := squared(v.key(row), rep)
		if m != i && !first && far >= v.near[m] {
			continue
		}
		if !first {
			v.out.N[v.out.Team[row]]--
		}
		v.near[m], v.out.Team[row] = far, team
		v.out.N[team]++
	}
	v.near[i] = -1
}

func largest(near []float64) int {
	best := 0
	for i, x := range near {
		if x > near[best] {
			best = i
		}
	}
	return best
}

func squared(a, b []float32) float64 {
	sum := 0.0
	for j, x := range a {
		diff := float64(x) - float64(b[j])
		sum += float64(diff * diff)
	}
	return sum
}
