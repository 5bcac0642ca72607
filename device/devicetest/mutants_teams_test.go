package devicetest

import (
	"errors"

	"blitzen/device"
)

// fusedMutants make one mistake in one of the operations that AttendTeams
// fuses, or in how it puts them together.
func fusedMutants() []mutant {
	var k kernels
	within := func(set func(c *changed)) func(c *changed) {
		return func(c *changed) {
			c.attendTeams = func(a device.TeamsArgs) error { return attendTeams(with(set), a) }
		}
	}
	teams := func(edit func(a *device.TeamsArgs)) func(c *changed) {
		return func(c *changed) {
			c.attendTeams = func(a device.TeamsArgs) error {
				edit(&a)
				return k.AttendTeams(a)
			}
		}
	}
	return []mutant{
		{"AttendTeams: one team too few", teams(func(a *device.TeamsArgs) {
			if a.Teams == nil && a.Drawn > 1 {
				a.Drawn--
			}
		})},
		{"AttendTeams: another layer", teams(func(a *device.TeamsArgs) { a.Draw.Layer++ })},
		{"AttendTeams: seed halves exchanged", teams(func(a *device.TeamsArgs) { a.Draw.Seed = swapped(a.Draw.Seed) })},
		{"AttendTeams: the suffix from the second row", teams(func(a *device.TeamsArgs) { a.From = edited(a.From, plus(1)) })},
		{"AttendTeams: rows not counted", teams(func(a *device.TeamsArgs) { a.Rows = nil })},
		{"AttendTeams: all heads draw as the first", within(func(c *changed) {
			c.attendSelected = func(a device.SelectedArgs) error {
				heads := a.Teams.Shape[1]
				a.Teams, a.LogC = a.Teams.Index(1, 0).Repeat(1, heads), a.LogC.Index(1, 0).Repeat(1, heads)
				return k.AttendSelected(a)
			}
		})},
		{"AttendTeams: no correction", within(func(c *changed) {
			c.attendSelected = func(a device.SelectedArgs) error {
				a.LogC = edited(a.LogC, times(0))
				return k.AttendSelected(a)
			}
		})},
		{"AttendTeams: the K-th for the (K+1)-th", within(func(c *changed) { c.sampleTopK = laxThreshold })},
		{"AttendTeams: rows counted for every head", within(func(c *changed) { c.attendSelected = countEveryHead })},
		{"AttendTeams: the suffix corrected", within(func(c *changed) {
			c.attend = func(a device.AttendArgs) error {
				return errors.Join(k.Attend(a), setEdited(a.Out.LSE, plus(0.5)))
			}
		})},
		{"AttendTeams: the mean of both parts", within(func(c *changed) {
			c.merge = func(dst *tensor, a, b device.Partial) error {
				a.LSE, b.LSE = edited(a.LSE, times(0)), edited(b.LSE, times(0))
				return k.Merge(dst, a, b)
			}
		})},
	}
}
