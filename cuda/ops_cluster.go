package cuda

import (
	"fmt"
	"slices"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// rowSetEntries is how many tensors a launch of kernels/row_sets.cu takes.
const rowSetEntries = 96

type rowSetEntry struct {
	p            vec
	s0, ld       int64
	first, count int32
}

type rowSetsArgs struct {
	table   vec
	n, size int32
	of      [rowSetEntries]rowSetEntry
}

// rowSetSize is the bytes of table for each problem.
const rowSetSize = 16

// rowSets writes to table where the rows of every problem are.
func (k *kernels) rowSets(table vec, x device.RowSets) error {
	c := k.call("row_sets")
	first := 0
	for len(x) > 0 {
		args := rowSetsArgs{table: table, size: int32(x[0].DType.Size())}
		some := x[:min(len(x), rowSetEntries)]
		x = x[len(some):]
		for i, t := range some {
			args.of[i] = rowSetEntry{c.vec(t), int64(t.Stride[0]), int64(t.Stride[1]), int32(first), int32(t.Shape[0])}
			first += t.Shape[0]
		}
		args.n = int32(len(some))
		if err := launch(c, "row_sets", blocks(len(some), 64), 0, &args); err != nil {
			return err
		}
	}
	return nil
}

type nearestArgs struct {
	labels       mat
	x            vec
	ids          mat
	centers      cube
	base, live   vec
	norms, parts vec
	largest      vec
	list, listed vec
	n, k, d, pad int32
}

type inertiaArgs struct {
	inertia         vec
	labels          mat
	x               vec
	ids             mat
	centers         cube
	base, live, far vec
	n, d            int32
}

// Nearest implements device.Kernels.
func (k *kernels) Nearest(a device.NearestArgs) error {
	problems, n, centers, d := a.X.Problems(), a.Labels.Shape[1], a.Centers.Shape[1], a.X[0].Shape[2]
	c := k.call("nearest")
	sizes := []int{rowSetSize * problems, 0, 4 * problems * centers, 0, 0, 0}
	if a.Inertia != nil {
		sizes[1] = 4 * problems * n
	}
	guess := k.guesses(a)
	if guess {
		sizes[3], sizes[4], sizes[5] = 4*problems*centers*d, 8*problems, 4*problems*n
	}
	s := c.scratch(sizes...)
	if err := k.rowSets(s[0], a.X); err != nil {
		return err
	}
	args := nearestArgs{
		c.mat(a.Labels), s[0], c.mat(a.IDs), c.cube(a.Centers), c.vec(a.Base), c.vec(a.Live), s[2], 0, 0, 0, 0, int32(n), int32(centers), int32(d), 0,
	}
	if guess {
		args.parts, args.largest, args.listed, args.list = s[3], s[4], s[4]+vec(4*problems), s[5]
		c.clear(s[4], 8*problems)
	}
	if c.err != nil {
		return c.err
	}
	if err := k.nearest(a, args); err != nil || a.Inertia == nil {
		return err
	}
	c = k.call("inertia").as("SRC", a.X[0].DType).set("VEC", vectorOf(4, append(slices.Clone(a.X), a.Centers)...))
	sum := inertiaArgs{c.vec(a.Inertia), args.labels, args.x, args.ids, args.centers, args.base, args.live, s[1], args.n, args.d}
	if err := launch(c, "apart", driver.Grid{X: ceil(n, threads), Y: problems, Z: 1, Threads: threads}, 0, &sum); err != nil {
		return err
	}
	return launch(c, "inertia", blocks(problems, threads), 0, &sum)
}

// Sizes of kernels/nearest_double.cu; kernels/nearest_bf16.cu has the same tiles.
const (
	doubleRows = 128
	doubleCols = 64
	doubleWide = 128
)

// guesses reports whether kernels/nearest_bf16.cu takes the rows at hand.
func (k *kernels) guesses(a device.NearestArgs) bool {
	return k.forBF16Rows(a.X) && vectorOf(4, a.Centers) == 4
}

// forBF16Rows reports whether rows are what the kernels of grouping that compare them
// in bf16 take.
func (k *kernels) forBF16Rows(x device.RowSets) bool {
	d := x[0].Shape[2]
	return k.card.capability >= oldestBF16 && x[0].DType == device.BF16 && (d == 64 || d == 128) && vectorOf(8, x...) == 8
}

// nearest launches the kernels for the rows at hand.
func (k *kernels) nearest(a device.NearestArgs, args nearestArgs) error {
	size, problems, d := a.X[0].DType.Size(), a.X.Problems(), a.X[0].Shape[2]
	buffers := 1
	if d > doubleWide {
		buffers = 2
	}
	shared := (doubleWide + 8) * (buffers*doubleRows*size + 2*doubleCols*4)
	if k.card.capability < 80 || shared > k.card.sharedMemory() || d%8 != 0 || vectorOf(16/size, a.X...) < 16/size || vectorOf(4, a.Centers) < 4 {
		args.list = 0
		c := k.call("nearest").as("SRC", a.X[0].DType)
		return launch(c, "nearest", driver.Grid{X: ceil(int(args.n), 8), Y: problems, Z: 1, Threads: threads}, 8*8*d, &args)
	}
	tiles := driver.Grid{X: ceil(int(args.n), doubleRows), Y: problems, Z: 1, Threads: threads}
	c := k.call("nearest_double").as("SRC", a.X[0].DType)
	if args.list == 0 {
		if err := launch(c, "norms", driver.Grid{X: ceil(int(args.k), threads), Y: problems, Z: 1, Threads: threads}, 0, &args); err != nil {
			return err
		}
		return launch(c, "nearest", tiles, shared, &args)
	}
	g := k.call("nearest_bf16").as("SRC", a.X[0].DType).set("D", d)
	if err := launch(g, "split", driver.Grid{X: ceil(int(args.k), 8), Y: problems, Z: 1, Threads: threads}, 0, &args); err != nil {
		return err
	}
	if err := launch(g, "guess", tiles, 2*doubleCols*2*d*2, &args); err != nil {
		return err
	}
	return launch(c, "nearest", tiles, shared, &args)
}

// sharedLabels is the most labels that a block counts in shared memory.
const sharedLabels = 40 << 10

// cursors is the bytes to count labels in where shared memory does not do, and
// the bytes of shared memory where it does.
func cursors(labels, problems int) (global, shared int) {
	if labels > sharedLabels {
		return 4 * labels * problems, 0
	}
	return 0, 4 * labels
}

// orNone is 0 where there is no memory to work in.
func orNone(at vec, size int) vec {
	if size == 0 {
		return 0
	}
	return at
}

type moveArgs struct {
	centers                    cube
	counts                     mat
	x                          vec
	ids, labels                mat
	live, order, start, cursor vec
	n, k, d, pad               int32
}

// MoveCenters implements device.Kernels.
func (k *kernels) MoveCenters(a device.MoveArgs) error {
	problems, n, centers, d := a.X.Problems(), a.Labels.Shape[1], a.Centers.Shape[1], a.X[0].Shape[2]
	c := k.call("move_centers").as("SRC", a.X[0].DType).set("VEC", min(4, vectorOf(16/a.X[0].DType.Size(), a.X...)))
	global, shared := cursors(centers, problems)
	s := c.scratch(rowSetSize*problems, 4*problems*n, 4*problems*(centers+1), global)
	if err := k.rowSets(s[0], a.X); err != nil {
		return err
	}
	args := moveArgs{
		c.cube(a.Centers), c.mat(a.Counts), s[0], c.mat(a.IDs), c.mat(a.Labels), c.vec(a.Live), s[1], s[2], orNone(s[3], global),
		int32(n), int32(centers), int32(d), 0,
	}
	if err := launch(c, "group", blocks(problems, 1024), shared, &args); err != nil {
		return err
	}
	return launch(c, "move", driver.Grid{X: ceil(centers, 8), Y: problems, Z: 1, Threads: threads}, 0, &args)
}

type spreadArgs struct {
	chosen, near                             mat
	pot, x, ids                              vec
	words                                    cube
	running, now, squares, sums              vec
	norms, candidates                        vec
	m, d, trials, from, to, first, c, blocks int32
}

type spreadBF16Args struct {
	chosen, near                  mat
	pot, x, ids                   vec
	words                         cube
	work, now                     vec
	m, d, trials, from, to, first int32
}

// Sizes of kernels/spread.cu and, for fewer trials, kernels/spread_bf16.cu.
const (
	mostTrials   = 64
	bf16Trials   = 16
	spreadRows   = 128 // of a block, until there are spreadBlocks
	spreadBlocks = 96
)

// SpreadCenters implements device.Kernels.
func (k *kernels) SpreadCenters(a device.SpreadArgs) error {
	problems, m, trials := a.X.Problems(), a.IDs.Shape[0], a.Words.Shape[1]
	if trials > mostTrials {
		return fmt.Errorf("the GPU device draws at most %d candidates for a center, not %d", mostTrials, trials)
	}
	d := a.X[0].Shape[2]
	if shared := spreadShared(m, d); k.forBF16Rows(a.X) && trials <= bf16Trials && shared <= k.card.sharedMemory() {
		return k.spreadBF16(a, shared)
	}
	wide := min(ceil(m, spreadRows), spreadBlocks)
	c := k.call("spread").as("SRC", a.X[0].DType)
	s := c.scratch(rowSetSize*problems, 4*problems*ceil(m, 32), 4*problems*m*trials, 8*problems*m, 8*problems*wide*trials, 8*problems*trials, 4*problems*trials)
	if err := k.rowSets(s[0], a.X); err != nil {
		return err
	}
	args := spreadArgs{
		c.mat(a.Chosen), c.mat(a.Near), c.vec(a.Pot), s[0], c.vec(a.IDs), c.cube(a.Words), s[1], s[2], s[3], s[4], s[5], s[6],
		int32(m), int32(d), int32(trials), int32(a.From), int32(a.To), int32(a.First), int32(a.From), int32(wide),
	}
	for ; args.c < args.to; args.c++ {
		if err := launch(c, "choose", blocks(problems, 512), 0, &args); err != nil {
			return err
		}
		if err := launch(c, "measure", driver.Grid{X: wide, Y: problems, Z: 1, Threads: 512}, 8*16*trials, &args); err != nil {
			return err
		}
	}
	return launch(c, "choose", blocks(problems, 512), 0, &args)
}

// spreadShared is the bytes of shared memory of kernels/spread_bf16.cu.
func spreadShared(m, d int) int {
	padded := ceil(m, 32) * 32
	return 8*bf16Trials*d + padded*(3*4+2) + padded/32*4
}

func (k *kernels) spreadBF16(a device.SpreadArgs, shared int) error {
	problems, m, d := a.X.Problems(), a.IDs.Shape[0], a.X[0].Shape[2]
	c := k.call("spread_bf16").as("SRC", a.X[0].DType).set("D", d)
	s := c.scratch(rowSetSize*problems, 8*problems*m, 4*problems*m*bf16Trials)
	if err := k.rowSets(s[0], a.X); err != nil {
		return err
	}
	args := spreadBF16Args{
		c.mat(a.Chosen), c.mat(a.Near), c.vec(a.Pot), s[0], c.vec(a.IDs), c.cube(a.Words), s[1], s[2],
		int32(m), int32(d), int32(a.Words.Shape[1]), int32(a.From), int32(a.To), int32(a.First),
	}
	return launch(c, "spread", blocks(problems, 512), shared, &args)
}

type divideArgs struct {
	x                                                   vec
	parent                                              mat
	count                                               vec
	reps, logn, offsets, slots                          mat
	order, start, begin, cursor, owner, bad, left, near vec
	n, d, parents, most, teams, problems                int32
}

// fewMembers is the most members of a parent that kernels/divide_few.cu takes.
const fewMembers = 16

// DivideTeams implements device.Kernels.
func (k *kernels) DivideTeams(a device.DivideArgs) error {
	problems, n, d := a.X.Problems(), a.Parent.Shape[1], a.X[0].Shape[2]
	c := k.call("divide").as("SRC", a.X[0].DType).set("VEC", min(8, vectorOf(16/a.X[0].DType.Size(), a.X...)))
	global, shared := cursors(a.Parents, problems)
	few := k.forBF16Rows(a.X)
	left := 0
	if few {
		left = 4 * problems * a.Parents
	}
	s := c.scratch(rowSetSize*problems, 4*problems*n, 4*problems*(a.Parents+1), 4*problems*(a.Parents+1), global, 4*problems*n, 4*problems, left, 8*problems*n)
	if err := k.rowSets(s[0], a.X); err != nil {
		return err
	}
	args := divideArgs{
		s[0], c.mat(a.Parent), c.vec(a.Teams), c.mat(a.Reps), c.mat(a.LogN), c.mat(a.Offsets), c.mat(a.Slots),
		s[1], s[2], s[3], orNone(s[4], global), s[5], s[6], orNone(s[7], left), s[8],
		int32(n), int32(d), int32(a.Parents), int32(a.Most), int32(a.Reps.Shape[1]), int32(problems),
	}
	if err := launch(c, "group", blocks(problems, 1024), shared, &args); err != nil {
		return err
	}
	parents := driver.Grid{X: ceil(a.Parents, 8), Y: problems, Z: 1, Threads: threads}
	if few {
		if err := launch(k.call("divide_few").as("SRC", device.BF16).set("D", d), "divide_few", parents, 8*(fewMembers*2*(d+16)+4*d), &args); err != nil {
			return err
		}
	}
	if err := launch(c, "divide", parents, 8*8*d, &args); err != nil {
		return err
	}
	return launch(c, "count", blocks(ceil(problems, threads), threads), 0, &args)
}
