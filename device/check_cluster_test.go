package device_test

import (
	"testing"

	"blitzen/device"
)

func TestRowSets(t *testing.T) {
	with := func(edit func(a *device.NearestArgs)) func(o *device.Ops) {
		a := device.NearestArgs{Labels: i32("labels", 5, 9), X: device.RowSets{b16("x", 3, 9, 8), b16("x", 2, 9, 8)}, Centers: f32("centers", 5, 4, 8)}
		edit(&a)
		return func(o *device.Ops) { o.Nearest(a) }
	}
	check(t, []checked{
		{with(func(a *device.NearestArgs) {}), ``},
		{with(func(a *device.NearestArgs) { a.X = nil }), `Nearest: there are no rows`},
		{with(func(a *device.NearestArgs) { a.X[1] = nil }), `Nearest: x is nil`},
		{with(func(a *device.NearestArgs) { a.X[1] = b16("x", 2, 8, 8) }), `Nearest: x is x BF16[2 8 8], want shape [? 9 8]`},
		{with(func(a *device.NearestArgs) { a.X[1] = f32("x", 2, 9, 8) }), `Nearest: x BF16[3 9 8] and x F32[2 9 8] differ in type`},
		{with(func(a *device.NearestArgs) { a.Centers = f32("centers", 4, 4, 8) }), `Nearest: centers is centers F32[4 4 8], want shape [5 ? 8]`},
		{with(func(a *device.NearestArgs) { a.Centers = f32("centers", 5, 0, 8) }), `Nearest: there are no centers`},
		{with(func(a *device.NearestArgs) { a.IDs = i32("ids", 5, 3) }), `Nearest: labels is labels I32[5 9], want shape [5 3]`},
		{with(func(a *device.NearestArgs) { a.IDs = i32("ids", 4, 9) }), `Nearest: ids is ids I32[4 9], want shape [5 ?]`},
		{with(func(a *device.NearestArgs) { a.Base = i32("base", 4) }), `Nearest: base is base I32[4], want shape [5]`},
		{with(func(a *device.NearestArgs) { a.Inertia = f32("inertia", 1) }), `Nearest: inertia is inertia F32[1], want shape [5]`},
	})
}

func TestMoveCenters(t *testing.T) {
	with := func(edit func(a *device.MoveArgs)) func(o *device.Ops) {
		a := device.MoveArgs{X: device.RowSets{b16("x", 3, 9, 8)}, Labels: i32("labels", 3, 9), Centers: f32("centers", 3, 4, 8), Counts: f32("counts", 3, 4)}
		edit(&a)
		return func(o *device.Ops) { o.MoveCenters(a) }
	}
	check(t, []checked{
		{with(func(a *device.MoveArgs) {}), ``},
		{with(func(a *device.MoveArgs) { a.Counts = f32("counts", 3, 5) }), `MoveCenters: counts is counts F32[3 5], want shape [3 4]`},
		{with(func(a *device.MoveArgs) { a.Centers = f32("centers", 3, 4, 7) }), `MoveCenters: centers is centers F32[3 4 7], want shape [3 ? 8]`},
		{with(func(a *device.MoveArgs) { a.IDs = i32("ids", 3, 2) }), `MoveCenters: labels is labels I32[3 9], want shape [3 2]`},
	})
}

func TestSpreadCenters(t *testing.T) {
	with := func(edit func(a *device.SpreadArgs)) func(o *device.Ops) {
		a := device.SpreadArgs{Chosen: i32("chosen", 3, 4), Near: f32("near", 3, 6), Pot: f32("pot", 3), X: device.RowSets{b16("x", 3, 9, 8)},
			IDs: i32("ids", 6), Words: u32("words", 4, 5, 2), To: 4}
		edit(&a)
		return func(o *device.Ops) { o.SpreadCenters(a) }
	}
	check(t, []checked{
		{with(func(a *device.SpreadArgs) {}), ``},
		{with(func(a *device.SpreadArgs) { a.First = 6 }), `SpreadCenters: first center 6 of 6 rows`},
		{with(func(a *device.SpreadArgs) { a.To = 5 }), `SpreadCenters: centers 0 to 5 of 4`},
		{with(func(a *device.SpreadArgs) { a.From, a.To = 3, 2 }), `SpreadCenters: centers 3 to 2 of 4`},
		{with(func(a *device.SpreadArgs) { a.Words = u32("words", 4, 5, 1) }), `SpreadCenters: words is words U32[4 5 1], want shape [? ? 2]`},
		{with(func(a *device.SpreadArgs) { a.Words = u32("words", 4, 0, 2) }), `SpreadCenters: words is words U32[4 0 2]: there must be a trial`},
		{with(func(a *device.SpreadArgs) { a.Chosen = i32("chosen", 3, 5) }), `SpreadCenters: chosen is chosen I32[3 5], want shape [3 4]`},
		{with(func(a *device.SpreadArgs) { a.Near = f32("near", 3, 9) }), `SpreadCenters: near is near F32[3 9], want shape [3 6]`},
		{with(func(a *device.SpreadArgs) { a.Pot = f32("pot", 1) }), `SpreadCenters: pot is pot F32[1], want shape [3]`},
	})
}

func TestDivideTeams(t *testing.T) {
	with := func(edit func(a *device.DivideArgs)) func(o *device.Ops) {
		a := device.DivideArgs{X: device.RowSets{b16("x", 3, 9, 8)}, Parent: i32("parent", 3, 9), Parents: 2, Most: 4, Teams: i32("teams", 3),
			Reps: i32("reps", 3, 8), LogN: f32("log_n", 3, 8), Offsets: i32("offsets", 3, 9), Slots: i32("slots", 3, 9)}
		edit(&a)
		return func(o *device.Ops) { o.DivideTeams(a) }
	}
	check(t, []checked{
		{with(func(a *device.DivideArgs) {}), ``},
		{with(func(a *device.DivideArgs) { a.Parents = 3 }), `DivideTeams: reps is reps I32[3 8], want shape [3 9]`},
		{with(func(a *device.DivideArgs) { a.Parents = 0 }), `DivideTeams: 0 parents of 4 representatives`},
		{with(func(a *device.DivideArgs) { a.Parent = i32("parent", 3, 8) }), `DivideTeams: parent is parent I32[3 8], want shape [3 9]`},
		{with(func(a *device.DivideArgs) { a.Offsets = i32("offsets", 3, 8) }), `DivideTeams: offsets is offsets I32[3 8], want shape [3 9]`},
		{with(func(a *device.DivideArgs) { a.Slots = i32("slots", 3, 8) }), `DivideTeams: slots is slots I32[3 8], want shape [3 9]`},
		{with(func(a *device.DivideArgs) { a.LogN = f32("log_n", 3, 9) }), `DivideTeams: log_n is log_n F32[3 9], want shape [3 8]`},
		{with(func(a *device.DivideArgs) { a.Teams = i32("teams", 2) }), `DivideTeams: teams is teams I32[2], want shape [3]`},
	})
}
