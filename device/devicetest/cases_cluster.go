package devicetest

import (
	"fmt"
	"math"
	"slices"

	"blitzen/device"
)

func clusterCases() []testCase {
	var cs []testCase
	add := func(run func(b *bench), format string, args ...any) {
		cs = append(cs, testCase{fmt.Sprintf(format, args...), run})
	}
	for _, s := range []struct{ n, k, d int }{{1, 1, 1}, {17, 2, 17}, {111, 9, 64}, {65, 7, 128}, {300, 63, 8}, {200, 70, 128}} {
		for _, picked := range []bool{false, true} {
			add(func(b *bench) { nearest(b, s.n, s.k, s.d, picked) }, "Nearest/%d of %d, %d wide, picked %v", s.n, s.k, s.d, picked)
		}
	}
	add(nearestTies, "Nearest/ties")
	add(notLive, "Nearest/not live")
	for _, s := range []struct{ n, m, k, d, trials int }{{1, 1, 1, 1, 2}, {5, 9, 4, 3, 1}, {40, 40, 17, 64, 4}, {150, 200, 25, 128, 9}, {90, 70, 30, 17, 17}} {
		for _, grid := range []bool{false, true} {
			add(func(b *bench) { spread(b, s.n, s.m, s.k, s.d, s.trials, grid) }, "SpreadCenters/%d of %d from %d rows, %d wide, grid %v", s.k, s.m, s.n, s.d, grid)
		}
	}
	for _, s := range []struct{ n, rows, k, d int }{{1, 1, 1, 1}, {20, 0, 3, 5}, {40, 90, 7, 64}, {300, 700, 33, 128}, {50, 0, 60, 17}} {
		add(func(b *bench) { moveCenters(b, s.n, s.rows, s.k, s.d) }, "MoveCenters/%d of %d to %d, %d wide", s.rows, s.n, s.k, s.d)
	}
	for _, s := range []struct{ n, parents, most, d int }{{1, 1, 1, 1}, {33, 3, 4, 1}, {40, 9, 4, 17}, {200, 14, 4, 64}, {150, 2, 3, 128}, {60, 60, 1, 8}, {500, 33, 8, 128}} {
		for _, grid := range []bool{false, true} {
			add(func(b *bench) { divide(b, s.n, s.parents, s.most, s.d, grid) }, "DivideTeams/%d rows in %d of %d, %d wide, grid %v", s.n, s.parents, s.most, s.d, grid)
		}
	}
	add(divideNotFinite, "DivideTeams/not finite")
	return cs
}

// clusterSizes are the problems in each tensor of rows.
var clusterSizes = []int{2, 1}

const clusterProblems = 3

// rowSets are three problems in two tensors, of normal numbers or of small
// integers, whose sums and products are exact in any order.
func (b *bench) rowSets(n, d int, grid bool) (sets device.RowSets, values [][]float64) {
	for _, size := range clusterSizes {
		v := b.normal(size*n*d, 1)
		if grid {
			for i := range v {
				v[i] = float64(b.rng.IntN(5) - 2)
			}
		}
		sets = append(sets, b.tensor("x", b.act(), v, size, n, d))
		for p := range size {
			values = append(values, v[p*n*d:][:n*d])
		}
	}
	return sets, values
}

// picks are indices below n, some several times.
func (b *bench) picks(count, n int) []int {
	v := make([]int, count)
	for i := range v {
		v[i] = b.rng.IntN(n)
	}
	return v
}

// nearest leaves out rows whose two nearest centers differ by less than the
// error of float32 products; with rows picked, inertia too is compared.
func nearest(b *bench, n, k, d int, picked bool) {
	x, values := b.rowSets(n, d, false)
	centers := make([]float64, 0, clusterProblems*k*d)
	for range clusterProblems * k * d {
		centers = append(centers, float64(float32(b.rng.NormFloat64())))
	}
	rows, ids, pick := n, (*device.Tensor)(nil), func(p, i int) int { return i }
	if picked {
		rows = n + n/2
		list := b.picks(clusterProblems*rows, n)
		ids = b.ints("ids", list, clusterProblems, rows)
		pick = func(p, i int) int { return list[p*rows+i] }
	}
	var skip []bool
	for p := range clusterProblems {
		mine := centers[p*k*d:][:k*d]
		norm := maxNorm(mine, d)
		e := f32Error(norm*norm + 2*norm*maxNorm(values[p], d))
		for i := range rows {
			score := make([]float64, k)
			for j := range score {
				c := mine[j*d:][:d]
				score[j] = 2*dot(values[p][pick(p, i)*d:][:d], c) - dot(c, c)
			}
			skip = append(skip, gapAfter(score, 1) <= 2*e)
		}
	}
	b.decided(skip, 0.1)
	labels := b.blank("labels", device.I32, clusterProblems, rows)
	b.wantBut("labels", labels, tolerance{}, skip)
	args := device.NearestArgs{Labels: labels, X: x, IDs: ids, Centers: b.tensor("centers", device.F32, centers, clusterProblems, k, d)}
	if picked {
		args.Base = b.ints("base", []int{0, 100, 7}, clusterProblems)
		args.Inertia = b.blank("inertia", device.F32, clusterProblems)
		// A near tie moves it by an error of its own.
		b.want("inertia", args.Inertia, tolerance{round: 1e-5})
	}
	b.run(func(o *device.Ops) { o.Nearest(args) })
}

// nearestTies uses small integers, whose sums are exact in any order: every
// center occurs three times, and some rows lie halfway between two.
func nearestTies(b *bench) {
	const n, k, d = 65, 51, 17
	centers := make([]float64, clusterProblems*k*d)
	for at := range centers {
		j, i := at/d%k%(k/3), at%d
		centers[at] = float64((j*j+3*i*j+at/d/k)%7 - 3)
	}
	x, _ := b.rowSets(n, d, true)
	labels, inertia := b.blank("labels", device.I32, clusterProblems, n), b.blank("inertia", device.F32, clusterProblems)
	b.want("labels", labels, tolerance{})
	b.want("inertia", inertia, tolerance{})
	cs := b.tensor("centers", device.F32, centers, clusterProblems, k, d)
	b.run(func(o *device.Ops) {
		o.Nearest(device.NearestArgs{Labels: labels, Inertia: inertia, X: x, Centers: cs})
	})
}

// notLive leaves one problem alone, in both operations.
func notLive(b *bench) {
	const n, k, d = 30, 7, 64
	x, _ := b.rowSets(n, d, true)
	labels := b.ints("labels", b.picks(clusterProblems*n, k), clusterProblems, n)
	counts, inertia := b.tensor("counts", device.F32, make([]float64, clusterProblems*k), clusterProblems, k), b.blank("inertia", device.F32, clusterProblems)
	centers := b.tensor("centers", device.F32, b.normal(clusterProblems*k*d, 1), clusterProblems, k, d)
	live := b.ints("live", []int{3, 0, 1}, clusterProblems)
	for _, t := range []*device.Tensor{labels, counts, inertia, centers} {
		b.want(t.Name, t, tolerance{})
	}
	b.run(func(o *device.Ops) {
		o.MoveCenters(device.MoveArgs{Centers: centers, Counts: counts, X: x, Labels: labels, Live: live})
		o.Nearest(device.NearestArgs{Labels: labels, Inertia: inertia, X: x, Centers: centers, Live: live})
	})
}

// spread goes on where a first call stopped.
func spread(b *bench, n, m, k, d, trials int, grid bool) {
	x, values := b.rowSets(n, d, grid)
	words := make([]float64, k*trials*2)
	for i := range words {
		words[i] = float64(b.rng.Uint32())
	}
	a := device.SpreadArgs{
		Chosen: b.blank("chosen", device.I32, clusterProblems, k), Near: b.blank("near", device.F32, clusterProblems, m), Pot: b.blank("pot", device.F32, clusterProblems),
		X: x, IDs: b.ints("ids", b.picks(m, n), m), Words: b.tensor("words", device.U32, words, k, trials, 2), First: m / 2,
	}
	b.want("chosen", a.Chosen, tolerance{})
	tol := tolerance{}
	if !grid {
		// Terms of up to (|x|+|y|)² are summed in float64, u = 2⁻⁵³, in another order;
		// the result is rounded once, now and then the other way.
		norm := 0.0
		for _, v := range values {
			norm = max(norm, maxNorm(v, d))
		}
		tol = tolerance{round: 2 * unit(device.F32), abs: safety * 0x1p-53 * 4 * norm * norm}
	}
	b.want("near", a.Near, tol)
	b.want("pot", a.Pot, tol)
	b.run(func(o *device.Ops) {
		first, second := a, a
		first.To, second.From, second.To = (k+1)/2, (k+1)/2, k
		o.SpreadCenters(first)
		o.SpreadCenters(second)
	})
}

// moveCenters has centers without rows, rows without a center, and new centers.
func moveCenters(b *bench, n, rows, k, d int) {
	x, _ := b.rowSets(n, d, false)
	a := device.MoveArgs{X: x}
	if rows > 0 {
		a.IDs = b.ints("ids", b.picks(clusterProblems*rows, n), clusterProblems, rows)
	} else {
		rows = n
	}
	labels := b.picks(clusterProblems*rows, k+1)
	counts := make([]float64, clusterProblems*k)
	for i := range labels {
		labels[i]--
	}
	for i := range counts {
		counts[i] = float64(b.rng.IntN(3) * 5)
	}
	labels[0] = 0 // something moves
	centers := make([]float64, clusterProblems*k*d)
	for i := range centers {
		centers[i] = float64(float32(b.rng.NormFloat64()))
	}
	a.Labels = b.ints("labels", labels, clusterProblems, rows)
	a.Centers, a.Counts = b.tensor("centers", device.F32, centers, clusterProblems, k, d), b.tensor("counts", device.F32, counts, clusterProblems, k)
	b.want("centers", a.Centers, tolerance{})
	b.want("counts", a.Counts, tolerance{})
	b.run(func(o *device.Ops) { o.MoveCenters(a) })
}

// divideArgs are parents of all sizes, some of no rows.
func (b *bench) divideArgs(x device.RowSets, n, parents, most int) device.DivideArgs {
	teams := device.MostTeams(n, parents, most)
	parent := b.picks(clusterProblems*n, parents)
	for i := range parent {
		if parent[i]%5 == 4 { // a large one, and empty ones
			parent[i] = 0
		}
	}
	return device.DivideArgs{
		X: x, Parent: b.ints("parent", parent, clusterProblems, n), Parents: parents, Most: most,
		Teams: b.blank("teams", device.I32, clusterProblems), Reps: b.blank("reps", device.I32, clusterProblems, teams),
		LogN: b.blank("log_n", device.F32, clusterProblems, teams), Offsets: b.blank("offsets", device.I32, clusterProblems, teams+1),
		Slots: b.blank("slots", device.I32, clusterProblems, n),
	}
}

func divide(b *bench, n, parents, most, d int, grid bool) {
	x, _ := b.rowSets(n, d, grid)
	a := b.divideArgs(x, n, parents, most)
	for _, t := range []*device.Tensor{a.Teams, a.Reps, a.Offsets, a.Slots} {
		b.want(t.Name, t, tolerance{})
	}
	b.want("log_n", a.LogN, tolerance{round: 2 * unit(device.F32)})
	b.run(func(o *device.Ops) { o.DivideTeams(a) })
}

// divideNotFinite has a NaN in one problem and an infinity in another; the
// first row of each is told.
func divideNotFinite(b *bench) {
	const n, d = 40, 17
	one, two := b.normal(2*n*d, 1), b.normal(n*d, 1)
	one[(n+33)*d+5], one[(n+7)*d+16], two[0] = math.Inf(1), math.NaN(), math.Inf(-1)
	x := device.RowSets{b.tensor("x", b.act(), one, 2, n, d), b.tensor("x", b.act(), two, 1, n, d)}
	a := b.divideArgs(x, n, 6, 4)
	b.want("teams", a.Teams, tolerance{})
	for _, t := range []*device.Tensor{a.Reps, a.LogN, a.Offsets, a.Slots} {
		b.wantBut(t.Name, t, tolerance{}, slices.Repeat([]bool{true}, t.Len()))
	}
	b.run(func(o *device.Ops) { o.DivideTeams(a) })
}
