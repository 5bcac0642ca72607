// Package teams groups the keys of one key head, once after prefill:
//
//	rows → parents (Parents) → representatives and owners (Divide) → Layout
//
// A parent is a set of rows that belong together: a span of tokens or a
// cluster. Inside a parent up to R keys represent it, spread farthest-first,
// and every row joins its nearest representative: a team. Teams partition the
// rows; each has a representative, an actual key, that stands for it when a
// query chooses what to read.
//
// Parents may be made from other vectors than the keys (normalised latents,
// fingerprints under probe queries); Divide always uses the keys.
//
// Source: SANTA++, section 2.2 and Algorithm 2.
package teams

import (
	"fmt"
	"math"
)

// Config says how keys are grouped.
type Config struct {
	ParentSize      int // P, rows of a parent on average
	Representatives int // R, most representatives of a parent
}

// Validate checks that a budget of S rows is a whole number of teams of P/R
// rows, at least one.
func (c Config) Validate(budget int) error {
	p, r := c.ParentSize, c.Representatives
	switch {
	case p < 1:
		return fmt.Errorf("--parent-size %d: must be at least 1", p)
	case r < 1:
		return fmt.Errorf("--representatives %d: must be at least 1", r)
	case budget < 1:
		return fmt.Errorf("--budget %d: must be at least 1", budget)
	case p%r != 0:
		return fmt.Errorf("--representatives %d must divide --parent-size %d", r, p)
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

// Partition divides rows into teams.
type Partition struct {
	Team []int32 // [rows] the team of each row
	Reps []int32 // [teams] the row that represents each team
	N    []int32 // [teams] rows of each team
}

// Validate checks that the partition covers exactly the given number of rows
// and that every team counts its rows and owns its representative.
func (p Partition) Validate(rows int) error {
	if len(p.Team) != rows {
		return fmt.Errorf("teams: %d rows have a team, want %d", len(p.Team), rows)
	}
	if len(p.N) != len(p.Reps) {
		return fmt.Errorf("teams: %d teams have a size, %d a representative", len(p.N), len(p.Reps))
	}
	count := make([]int32, len(p.Reps))
	for row, g := range p.Team {
		if g < 0 || int(g) >= len(count) {
			return fmt.Errorf("teams: row %d is in team %d of %d", row, g, len(count))
		}
		count[g]++
	}
	for g, rep := range p.Reps {
		switch {
		case rep < 0 || int(rep) >= rows:
			return fmt.Errorf("teams: team %d is represented by row %d of %d", g, rep, rows)
		case p.Team[rep] != int32(g):
			return fmt.Errorf("teams: row %d represents team %d and belongs to team %d", rep, g, p.Team[rep])
		case p.N[g] != count[g]:
			return fmt.Errorf("teams: team %d has %d rows, its size says %d", g, count[g], p.N[g])
		}
	}
	return nil
}

// Layout puts the rows of a team side by side.
type Layout struct {
	Order   []int32   // [rows] row that comes to each place: by team, then by token
	Offsets []int32   // [teams+1] team g has the places Offsets[g] … Offsets[g+1]−1
	LogN    []float32 // [teams] natural log of the team's size
}

// Layout orders the rows of a valid partition.
func (p Partition) Layout() Layout { return layout(p.Team, len(p.Reps)) }

// LayoutOf orders rows by their label, numbers from 0 to the largest that each
// occur: groups without representatives, as Parents.Of makes them.
func LayoutOf(label []int32) Layout {
	groups := 0
	for _, g := range label {
		groups = max(groups, int(g)+1)
	}
	return layout(label, groups)
}

func layout(label []int32, groups int) Layout {
	order, offsets := group(label, groups)
	l := Layout{Order: order, Offsets: offsets, LogN: make([]float32, groups)}
	for g := range groups {
		l.LogN[g] = float32(math.Log(float64(offsets[g+1] - offsets[g])))
	}
	return l
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
