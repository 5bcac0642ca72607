package devicetest

import (
	"errors"
	"math"

	"blitzen/device"
)

func cacheMutants() []mutant {
	var k kernels
	return []mutant{
		{"Append: slots ignored", func(c *changed) {
			c.append = func(cache, rows, pos, _ *tensor) error { return k.Append(cache, rows, pos, nil) }
		}},
		{"PermuteRows: never inverse", func(c *changed) {
			c.permuteRows = func(t, order *tensor, _ bool, within int) error { return k.PermuteRows(t, order, false, within) }
		}},
		{"PermuteRows: in place without a copy", func(c *changed) { c.permuteRows = permuteCarelessly }},
	}
}

func attendMutants() []mutant {
	var k kernels
	attend := func(edit func(a *device.AttendArgs)) func(c *changed) {
		return func(c *changed) {
			c.attend = func(a device.AttendArgs) error {
				edit(&a)
				return k.Attend(a)
			}
		}
	}
	return []mutant{
		{"Attend: from the first row", attend(func(a *device.AttendArgs) { a.From = nil })},
		{"Attend: without the last row", attend(func(a *device.AttendArgs) { a.Pos = edited(a.Pos, plus(-1)) })},
		{"Attend: one row too many", attend(func(a *device.AttendArgs) { a.Pos = edited(a.Pos, plus(1)) })},
		{"Attend: all tokens to the last row", attend(func(a *device.AttendArgs) {
			last := maxAbs(row(a.Pos))
			a.Pos = edited(a.Pos, func(int, float64) float64 { return last })
		})},
		{"Attend: values without gaps", attend(func(a *device.AttendArgs) { a.V = gapless(a.V) })},
		{"Attend: queries rounded to BF16", attend(func(a *device.AttendArgs) { a.Q = edited(a.Q, toBF16) })},
		{"Attend: reads not counted", attend(func(a *device.AttendArgs) { a.Read = nil })},
		{"Attend: LSE to base 2", func(c *changed) {
			c.attend = func(a device.AttendArgs) error {
				err := k.Attend(a)
				if a.Out.LSE != nil {
					err = errors.Join(err, setEdited(a.Out.LSE, times(1/math.Ln2)))
				}
				return err
			}
		}},
		{"Merge: overflow", func(c *changed) { c.merge = mergeCarelessly }},
		{"Merge: the mean", func(c *changed) {
			c.merge = func(dst *tensor, a, b device.Partial) error {
				a.LSE, b.LSE = edited(a.LSE, times(0)), edited(b.LSE, times(0))
				return k.Merge(dst, a, b)
			}
		}},
	}
}

func selectMutants() []mutant {
	var k kernels
	return []mutant{
		{"Route: teams that are not there are read", func(c *changed) {
			c.route = func(a device.RouteArgs) error {
				phi, there := a.Phi, a.Bias
				a.Bias = edited(a.Bias, func(_ int, v float64) float64 { return max(v, -1e30) })
				if err := k.Route(a); err != nil {
					return err
				}
				perKV := phi.Shape[1] / there.Shape[0]
				return setEdited(phi, func(i int, v float64) float64 {
					g, h := i%phi.Shape[2], i/phi.Shape[2]%phi.Shape[1]
					return v + math.Min(number(there, h/perKV, g), 0)
				})
			}
		}},
		{"Route: the last team left out", func(c *changed) {
			c.route = func(a device.RouteArgs) error {
				if a.Last != nil {
					a.Last = edited(a.Last, plus(-1))
				}
				return k.Route(a)
			}
		}},
		{"Route: queries rounded to BF16", func(c *changed) {
			c.route = func(a device.RouteArgs) error {
				a.Q = edited(a.Q, toBF16)
				return k.Route(a)
			}
		}},
		{"AttendSelected: no correction", func(c *changed) {
			c.attendSelected = func(a device.SelectedArgs) error {
				a.LogC = edited(a.LogC, times(0))
				return k.AttendSelected(a)
			}
		}},
		{"AttendSelected: all heads to the teams of the first", func(c *changed) {
			c.attendSelected = func(a device.SelectedArgs) error {
				heads := a.Teams.Shape[1]
				a.Teams = a.Teams.Index(1, 0).Repeat(1, heads)
				return k.AttendSelected(a)
			}
		}},
		{"AttendSelected: rows counted for every head", func(c *changed) { c.attendSelected = countEveryHead }},
	}
}

// permuteCarelessly overwrites rows that are still to be moved.
func permuteCarelessly(t, order *tensor, inverse bool, _ int) error {
	for h := range order.Shape[0] {
		for i := range order.Shape[1] {
			j := integer(order, h, i)
			if inverse {
				i, j = j, i
			}
			move(t, []int{h, i}, t, []int{h, j})
		}
	}
	return nil
}

// mergeCarelessly takes exp of the log-sum-exps themselves.
func mergeCarelessly(dst *tensor, a, b device.Partial) error {
	for t := range dst.Shape[0] {
		for h := range dst.Shape[1] {
			wa, wb := math.Exp(number(a.LSE, t, h)), math.Exp(number(b.LSE, t, h))
			out, other := row(a.Out, t, h), row(b.Out, t, h)
			for i := range out {
				out[i] = (wa*out[i] + wb*other[i]) / (wa + wb)
			}
			setRow(dst, out, t, h)
		}
	}
	return nil
}

// countEveryHead counts a row once for each head that reads it.
func countEveryHead(a device.SelectedArgs) error {
	read := a.Read
	a.Read = nil
	if read != nil {
		group := a.Q.Shape[1] / a.K.Shape[0]
		for _, index := range indices(a.Teams.Shape) {
			if team := integer(a.Teams, index...); team >= 0 {
				kv := index[1] / group
				addTo(read, integer(a.Offsets, kv, team+1)-integer(a.Offsets, kv, team))
			}
		}
	}
	return kernels{}.AttendSelected(a)
}
