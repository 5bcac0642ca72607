package device

import "fmt"

// RowSets are problems of one size that are solved side by side: problem p has
// the rows of the p-th [n, d] of the tensors, taken in order. Of a cache that
// is every key head of every layer.
type RowSets []*Tensor // each [problems, n, d], of one type

// Problems is how many there are.
func (s RowSets) Problems() int {
	p := 0
	for _, t := range s {
		if t != nil && t.Rank() == 3 {
			p += t.Shape[0]
		}
	}
	return p
}

// Name says whose rows those of problem p are, for errors.
func (s RowSets) Name(p int) string {
	for _, t := range s {
		if p < t.Shape[0] {
			return fmt.Sprintf("%s, head %d", t.Name, p)
		}
		p -= t.Shape[0]
	}
	return "no head"
}

// SpreadArgs are the arguments of Ops.SpreadCenters.
type SpreadArgs struct {
	Chosen *Tensor // I32 [problems, k]: index into IDs of each center
	Near   *Tensor // F32 [problems, m]: squared distance of each row from its nearest center so far
	Pot    *Tensor // F32 [problems]: Σ of Near
	X      RowSets
	IDs    *Tensor // I32 [m]: the rows of every problem that take part, in order; a row may occur twice
	Words  *Tensor // U32 [k, trials, 2]: random words of the trials for each center; those for center 0 are not used
	From   int     // first center to choose; 0 begins anew, else Near and Pot are as the call before left them
	To     int     // the center to stop before
	First  int     // center 0, an index into IDs
}

// SpreadCenters chooses some of k centers among m rows by greedy k-means++. For
// center c, trial t draws the row with the first index j at which the running
// float32 sum of Near reaches u·Pot, u = (⌊w₀/2⁵⌋·2²⁶ + ⌊w₁/2⁶⌋)/2⁵³ in float64
// (the last row if none does). The trial that leaves the smallest Pot wins, the
// first among equals. Squared distances are max(0, (−2·x·y + |x|²) + |y|²) in
// float64 rounded once, Pot is a float64 sum rounded once.
//
// Source: scikit-learn, _kmeans_plusplus; Arthur and Vassilvitskii (2007).
func (o *Ops) SpreadCenters(a SpreadArgs) {
	c := o.begin("SpreadCenters", a.From, a.To, a.First)
	p, _, _ := c.rowSets(a.X)
	m := c.dims("ids", a.IDs, i32, 1)[0]
	w := c.dims("words", a.Words, u32, 3)
	c.arg("words", a.Words, u32, -1, -1, 2)
	c.arg("chosen", a.Chosen, i32, p, w[0])
	c.arg("near", a.Near, f32, p, m)
	c.arg("pot", a.Pot, f32, p)
	c.require(w[1] >= 1, "words is %v: there must be a trial", a.Words)
	c.require(0 <= a.First && a.First < m, "first center %d of %d rows", a.First, m)
	c.require(0 <= a.From && a.From <= a.To && a.To <= w[0], "centers %d to %d of %d", a.From, a.To, w[0])
	c.run(func(k Kernels) error { return k.SpreadCenters(a) })
}

// NearestArgs are the arguments of Ops.Nearest.
type NearestArgs struct {
	Labels  *Tensor // I32 [problems, rows]
	Inertia *Tensor // F32 [problems]: Σ of squared distances to the nearest center; nil for none
	X       RowSets
	IDs     *Tensor // I32 [problems, rows]: the rows to label; nil: all, in order
	Centers *Tensor // F32 [problems, k, d]
	Base    *Tensor // I32 [problems]: added to the labels of a problem; nil for 0
	Live    *Tensor // I32 [problems]: 0 where nothing is to be done; nil: all
}

// Nearest labels rows by their nearest center: argminⱼ |centers[j]|² −
// 2·x·centers[j], the lower center among equals. The product is summed in
// float64, |centers[j]|² in float32 in the order of the coordinates, their
// difference rounded once to float32. Inertia is in float32: a row's squares are
// added four by four, ((d₀² + d₁²) + d₂²) + d₃², what is left one by one, and the
// rows in order.
func (o *Ops) Nearest(a NearestArgs) {
	c := o.begin("Nearest")
	p, n, d := c.rowsOf(a.X, a.IDs)
	c.arg("labels", a.Labels, i32, p, n)
	c.optional("inertia", a.Inertia, f32, p)
	k := c.dims("centers", a.Centers, f32, 3)[1]
	c.arg("centers", a.Centers, f32, p, -1, d)
	c.optional("base", a.Base, i32, p)
	c.optional("live", a.Live, i32, p)
	c.require(k >= 1, "there are no centers")
	c.run(func(kn Kernels) error { return kn.Nearest(a) })
}

// MoveArgs are the arguments of Ops.MoveCenters.
type MoveArgs struct {
	Centers *Tensor // F32 [problems, k, d]
	Counts  *Tensor // F32 [problems, k]: rows that made each center
	X       RowSets
	IDs     *Tensor // I32 [problems, rows]: the rows to add; nil: all, in order
	Labels  *Tensor // I32 [problems, rows]: the center of each; −1 for none
	Live    *Tensor // I32 [problems]: 0 where nothing is to be done; nil: all
}

// MoveCenters moves every center that gets rows to the mean of all rows it ever
// got: c·count, plus its rows in order, times 1/(count + rows), all in float32.
// With counts of 0 it is the mean of its rows, and a single row unchanged.
//
// Source: scikit-learn, _k_means_minibatch.pyx.
func (o *Ops) MoveCenters(a MoveArgs) {
	c := o.begin("MoveCenters")
	p, n, d := c.rowsOf(a.X, a.IDs)
	c.arg("labels", a.Labels, i32, p, n)
	k := c.dims("centers", a.Centers, f32, 3)[1]
	c.arg("centers", a.Centers, f32, p, -1, d)
	c.arg("counts", a.Counts, f32, p, k)
	c.optional("live", a.Live, i32, p)
	c.run(func(kn Kernels) error { return kn.MoveCenters(a) })
}

// DivideArgs are the arguments of Ops.DivideTeams.
type DivideArgs struct {
	X       RowSets // keys
	Parent  *Tensor // I32 [problems, n]: the parent of each row, 0 to Parents−1; numbers that no row has are passed over
	Parents int
	Most    int // R, most representatives of a parent

	Teams   *Tensor // I32 [problems]: how many there are; −1−row, the lowest such, where a key is not finite
	Reps    *Tensor // I32 [problems, teams]: row that represents each team; 0 beyond the last
	LogN    *Tensor // F32 [problems, teams]: ln of its size; −Inf beyond the last
	Offsets *Tensor // I32 [problems, teams+1]: team g has the places [offsets[g], offsets[g+1]); n beyond the last
	Slots   *Tensor // I32 [problems, n]: the place of each row: by team, then by row
}

// MostTeams is the most teams that n rows in parents can have.
func MostTeams(n, parents, most int) int { return min(n, parents*most) }

// DivideTeams splits parents into teams. In a parent with members C, min(R, |C|)
// members represent: first the one nearest the mean of the members, then again
// and again the one farthest from its nearest representative so far; among
// equals the lower row. Each member joins its nearest representative, the
// earlier among equals; a representative joins itself. Distances are squared
// Euclidean in float64, differences, squares and means rounded: coordinates j of
// even ⌊j/8⌋ are added in order, and the others, then both sums. Teams are numbered parent after parent in the
// order of selection. Reps, LogN and Offsets have min(n, Parents·R) teams. Where
// Teams is below 0 the other results mean nothing.
//
// Source: SANTA++, section 2.2 and Algorithm 2; farthest-first traversal, Gonzalez (1985).
func (o *Ops) DivideTeams(a DivideArgs) {
	c := o.begin("DivideTeams", a.Parents, a.Most)
	p, n, _ := c.rowSets(a.X)
	teams := MostTeams(n, a.Parents, a.Most)
	c.require(a.Parents >= 1 && a.Most >= 1, "%d parents of %d representatives", a.Parents, a.Most)
	c.arg("parent", a.Parent, i32, p, n)
	c.arg("teams", a.Teams, i32, p)
	c.arg("reps", a.Reps, i32, p, teams)
	c.arg("log_n", a.LogN, f32, p, teams)
	c.arg("offsets", a.Offsets, i32, p, teams+1)
	c.arg("slots", a.Slots, i32, p, n)
	c.run(func(k Kernels) error { return k.DivideTeams(a) })
}

// rowSets checks problems of one size and type and returns their number and
// shape.
func (c *call) rowSets(x RowSets) (problems, n, d int) {
	c.require(len(x) > 0, "there are no rows")
	for i, t := range x {
		s := c.dims("x", t, real, 3)
		if i == 0 {
			n, d = s[1], s[2]
		}
		c.arg("x", t, real, -1, n, d)
		c.require(c.err != nil || t.DType == x[0].DType, "%v and %v differ in type", x[0], t)
		problems += s[0]
	}
	return problems, n, d
}

// rowsOf is rowSets of the rows that ids name in every problem, or of all.
func (c *call) rowsOf(x RowSets, ids *Tensor) (problems, n, d int) {
	problems, n, d = c.rowSets(x)
	if ids != nil {
		n = c.dims("ids", ids, i32, 2)[1]
		c.arg("ids", ids, i32, problems, -1)
	}
	return problems, n, d
}
