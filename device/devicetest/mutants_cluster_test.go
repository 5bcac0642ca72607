package devicetest

import (
	"errors"

	"blitzen/device"
)

func clusterMutants() []mutant {
	var k kernels
	return []mutant{
		{"SpreadCenters: the trial that leaves most wins", func(c *changed) {
			c.spreadCenters = func(a device.SpreadArgs) error {
				a.Words = a.Words.Slice(1, 0, 1)
				return k.SpreadCenters(a)
			}
		}},
		{"SpreadCenters: begins with row 0", func(c *changed) {
			c.spreadCenters = func(a device.SpreadArgs) error {
				a.First = 0
				return k.SpreadCenters(a)
			}
		}},
		{"SpreadCenters: rows for ids", func(c *changed) {
			c.spreadCenters = func(a device.SpreadArgs) error {
				a.IDs = edited(a.IDs, func(i int, _ float64) float64 { return float64(i % a.X[0].Shape[1]) })
				return k.SpreadCenters(a)
			}
		}},
		{"Nearest: the higher among equals", func(c *changed) {
			c.nearest = func(a device.NearestArgs) error {
				n, d := a.Centers.Shape[1], a.Centers.Shape[2]
				all := a.Centers
				a.Centers = edited(all, func(i int, _ float64) float64 { return row(all, i/d/n, n-1-i/d%n)[i%d] })
				a.Base = nil
				return errors.Join(k.Nearest(a), setEdited(a.Labels, func(_ int, v float64) float64 { return float64(n-1) - v }))
			}
		}},
		{"Nearest: no base", func(c *changed) {
			c.nearest = func(a device.NearestArgs) error {
				a.Base = nil
				return k.Nearest(a)
			}
		}},
		{"Nearest: all are live", func(c *changed) {
			c.nearest = func(a device.NearestArgs) error {
				a.Live = nil
				return k.Nearest(a)
			}
		}},
		{"Nearest: all are live when centers move", func(c *changed) {
			c.moveCenters = func(a device.MoveArgs) error {
				a.Live = nil
				return k.MoveCenters(a)
			}
		}},
		{"Nearest: rows for ids", func(c *changed) {
			c.nearest = func(a device.NearestArgs) error {
				if a.IDs != nil {
					a.IDs = edited(a.IDs, func(i int, _ float64) float64 { return float64(i % a.X[0].Shape[1]) })
				}
				return k.Nearest(a)
			}
		}},
		{"MoveCenters: counts are forgotten", func(c *changed) {
			c.moveCenters = func(a device.MoveArgs) error {
				setEdited(a.Counts, times(0))
				return k.MoveCenters(a)
			}
		}},
		{"MoveCenters: rows in another order", func(c *changed) {
			c.moveCenters = func(a device.MoveArgs) error {
				if a.IDs == nil {
					return k.MoveCenters(a)
				}
				n, ids, labels := a.IDs.Shape[1], a.IDs, a.Labels
				a.IDs = edited(ids, func(i int, _ float64) float64 { return row(ids, i/n)[n-1-i%n] })
				a.Labels = edited(labels, func(i int, _ float64) float64 { return row(labels, i/n)[n-1-i%n] })
				return k.MoveCenters(a)
			}
		}},
		{"DivideTeams: a team fewer", func(c *changed) {
			c.divideTeams = func(a device.DivideArgs) error {
				err := k.DivideTeams(a)
				return errors.Join(err, setEdited(a.Teams, plus(-1)))
			}
		}},
		{"DivideTeams: the first member represents first", func(c *changed) {
			c.divideTeams = func(a device.DivideArgs) error {
				for _, x := range a.X {
					setEdited(x, func(i int, v float64) float64 { return v + 1e-3*float64(i%7) })
				}
				return k.DivideTeams(a)
			}
		}},
		{"DivideTeams: places within a parent by row", func(c *changed) {
			c.divideTeams = func(a device.DivideArgs) error {
				err := k.DivideTeams(a)
				return errors.Join(err, setEdited(a.Slots, func(i int, _ float64) float64 { return float64(i % a.Slots.Shape[1]) }))
			}
		}},
		{"GatherRows: source without gaps", func(c *changed) {
			c.gatherRows = func(dst, src, ids *tensor) error { return k.GatherRows(dst, gapless(src), ids) }
		}},
	}
}
