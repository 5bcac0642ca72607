// Package teams groups the keys of many heads, once after prefill:
//
//	rows → parents (Parents) → representatives and owners (device.DivideTeams)
//
// A parent is a set of rows that belong together: a span of tokens or a
// cluster. Inside a parent up to R keys represent it, spread farthest-first,
// and every row joins its nearest representative: a team. Teams partition the
// rows; each has a representative, an actual key, that stands for it when a
// query chooses what to read.
//
// Source: SANTA++, section 2.2 and Algorithm 2.
package teams

import (
	"context"
	"fmt"

	"blitzen/device"
)

// Config says how keys are grouped.
type Config struct {
	ParentSize      int // P, rows of a parent on average
	Representatives int // R, most representatives of a parent
}

// mostParentSize is more rows than a prompt has; products of it with them do not
// overflow.
const mostParentSize = 1 << 30

// Validate checks that a budget of S rows is a whole number of teams of P/R
// rows, at least one.
func (c Config) Validate(budget int) error {
	p, r := c.ParentSize, c.Representatives
	switch {
	case p < 1:
		return fmt.Errorf("--parent-size %d: must be at least 1", p)
	case p > mostParentSize:
		return fmt.Errorf("--parent-size %d: must be at most %d", p, mostParentSize)
	case r < 1:
		return fmt.Errorf("--representatives %d: must be at least 1", r)
	case p%r != 0: // before the budget, which a command without --budget makes of both
		return fmt.Errorf("--representatives %d must divide --parent-size %d: give a number that divides it, or another --parent-size", r, p)
	case budget < 1:
		return fmt.Errorf("--budget %d: must be at least 1", budget)
	case budget%(p/r) != 0:
		return fmt.Errorf("--budget %d must be a multiple of %d, the rows of a team: --parent-size %d over --representatives %d", budget, p/r, p, r)
	}
	return nil
}

// Selected is K, the number of teams that a query head draws out of teams with
// a valid budget of S rows: min(teams, S/(P/R)).
func (c Config) Selected(budget, teams int) int {
	return min(teams, budget/(c.ParentSize/c.Representatives))
}

// Most is the most teams that n rows can have with parents of that kind, with
// contiguous ones how many they have.
func (c Config) Most(n int, kind Parents) int {
	if kind == Contiguous { // the last parent may have fewer rows than R
		return n/c.ParentSize*min(c.Representatives, c.ParentSize) + min(c.Representatives, n%c.ParentSize)
	}
	return device.MostTeams(n, kind.Most(n, c.ParentSize), c.Representatives)
}

// Teams are the teams of the n rows of every head. The tensors are padded to
// the most teams that there can be; Close frees them.
type Teams struct {
	Count   []int          // [heads] teams of each
	Reps    *device.Tensor // I32 [heads, most]: the row that represents each team
	LogN    *device.Tensor // F32 [heads, most]: natural log of its size, −Inf beyond the last
	Offsets *device.Tensor // I32 [heads, most+1]: team g has the places offsets[g] … offsets[g+1]−1
	Slots   *device.Tensor // I32 [heads, n]: the place of each row: by team, then by token
	Within  int            // places stay in their rows' blocks of so many rows; 0: they need not
	owned   device.Owner
}

// Close frees the tensors. It may be called twice, and on nil.
func (t *Teams) Close() {
	if t != nil {
		t.owned.Free()
	}
}

// Partition is how the rows of one head are divided, on the host.
type Partition struct {
	Team    []int32 // [rows] the team of each row
	Reps    []int32 // [teams] the row that represents each team
	N       []int32 // [teams] rows of each team
	Order   []int32 // [rows] row at each place: by team, then by token
	Offsets []int32 // [teams+1] team g has the places Offsets[g] … Offsets[g+1]−1
}

// Partition reads the teams of one head.
func (t *Teams) Partition(head int) (Partition, error) {
	if t == nil || head < 0 || head >= len(t.Count) {
		return Partition{}, fmt.Errorf("there are no teams of head %d", head)
	}
	var all [3][]int32
	for i, x := range []*device.Tensor{t.Reps, t.Offsets, t.Slots} {
		var err error
		if all[i], err = device.Read[int32](t.owned.Dev, x.Index(0, head)); err != nil {
			return Partition{}, err
		}
	}
	count, slots := t.Count[head], all[2]
	p := Partition{Team: make([]int32, len(slots)), Reps: all[0][:count], N: make([]int32, count), Order: make([]int32, len(slots)), Offsets: all[1][:count+1]}
	for row, place := range slots {
		p.Order[place] = int32(row)
	}
	for g := range p.N {
		p.N[g] = p.Offsets[g+1] - p.Offsets[g]
		for _, row := range p.Order[p.Offsets[g]:p.Offsets[g+1]] {
			p.Team[row] = int32(g)
		}
	}
	return p, nil
}

// Describe gives the vectors [heads, n, width] that the rows of some heads are
// grouped by, beginning with head from, at least one; done frees them.
type Describe func(from int) (x device.RowSets, done func(), err error)

// Group makes the teams of every head of x, [heads, n, d] in one or more
// tensors: the keys, or the part of them that is compared. Parents are made of
// what describe gives, of x where it is nil. progress, if not nil, is told how
// much is done.
func Group(ctx context.Context, dev device.Device, x device.RowSets, describe Describe, kind Parents, cfg Config, progress func(done, of int)) (*Teams, error) {
	switch {
	case cfg.ParentSize < 1 || cfg.Representatives < 1:
		return nil, cfg.Validate(1)
	case x.Problems() == 0 || x[0].Shape[1] == 0:
		return nil, fmt.Errorf("teams: there are no rows to group")
	}
	if describe == nil {
		describe = func(int) (device.RowSets, func(), error) { return x, func() {}, nil }
	}
	t := &Teams{owned: device.Owner{Dev: dev}}
	if err := t.group(ctx, x, describe, kind, cfg, progress); err != nil {
		t.Close()
		return nil, fmt.Errorf("%v teams: %w", kind, err)
	}
	return t, nil
}

func (t *Teams) group(ctx context.Context, x device.RowSets, describe Describe, kind Parents, cfg Config, progress func(done, of int)) error {
	dev, heads, n := t.owned.Dev, x.Problems(), x[0].Shape[1]
	if kind == Contiguous {
		parent, err := spans(dev, n, cfg.ParentSize)
		if err != nil {
			return err
		}
		defer dev.Free(parent)
		t.Within = cfg.ParentSize // as teams lie parent after parent
		return t.divide(x, parent.Repeat(0, heads), kind.Most(n, cfg.ParentSize), cfg.Representatives)
	}
	parent, err := dev.New("teams.parents", device.I32, heads, n)
	if err != nil {
		return err
	}
	defer dev.Free(parent)
	for from := 0; from < heads; {
		if err := ctx.Err(); err != nil {
			return err
		}
		by, done, err := describe(from)
		if err != nil {
			return err
		}
		to := from + by.Problems()
		err = kind.label(ctx, dev, by, cfg.ParentSize, parent.Slice(0, from, to), part(progress, from, to, heads))
		done()
		if err != nil {
			return err
		}
		from = to
	}
	return t.divide(x, parent, kind.Most(n, cfg.ParentSize), cfg.Representatives)
}

// part tells of the progress of some heads as part of the whole.
func part(progress func(done, of int), from, to, heads int) func(done, of int) {
	if progress == nil {
		return nil
	}
	return func(done, of int) { progress(from*of+(to-from)*done, heads*of) }
}

// divide makes at most r teams of each parent.
func (t *Teams) divide(x device.RowSets, parent *device.Tensor, parents, r int) error {
	dev, heads, n := t.owned.Dev, parent.Shape[0], parent.Shape[1]
	most := device.MostTeams(n, parents, r)
	// One piece of memory: a GPU takes its time to give each.
	numbers := t.owned.New("teams.numbers", device.I32, heads*(2*most+1+n+1))
	if t.LogN = t.owned.New("teams.log_n", device.F32, heads, most); t.owned.Err() != nil {
		return t.owned.Err()
	}
	at := 0
	cut := func(width int) *device.Tensor {
		from := at
		at += heads * width
		return numbers.Slice(0, from, at).Unflatten(0, heads, width)
	}
	t.Reps, t.Offsets, t.Slots = cut(most), cut(most+1), cut(n)
	count := numbers.Slice(0, at, at+heads)
	err := dev.Run(func(o *device.Ops) {
		o.DivideTeams(device.DivideArgs{
			X: x, Parent: parent, Parents: parents, Most: r, Teams: count, Reps: t.Reps, LogN: t.LogN, Offsets: t.Offsets, Slots: t.Slots,
		})
	})
	if err != nil {
		return err
	}
	return t.count(x, count)
}

// count reads how many teams there are of the rows x.
func (t *Teams) count(x device.RowSets, count *device.Tensor) error {
	teams, err := device.Read[int32](t.owned.Dev, count)
	if err != nil {
		return err
	}
	for h, n := range teams {
		if n < 0 {
			return fmt.Errorf("%s: row %d is not finite: %w", x.Name(h), -1-n, device.ErrNotFinite)
		}
		t.Count = append(t.Count, int(n))
	}
	return nil
}
