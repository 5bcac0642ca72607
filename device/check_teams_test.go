package device_test

import (
	"testing"

	"blitzen/device"
)

func TestAttendTeams(t *testing.T) {
	with := func(edit func(a *device.TeamsArgs)) func(o *device.Ops) {
		a := device.TeamsArgs{Out: b16("out", 1, 6, 4), Q: b16("q", 1, 6, 8), K: b16("k", 2, 9, 8), V: b16("v", 2, 9, 4), Reps: b16("reps", 2, 5, 8),
			Bias: f32("bias", 2, 5), Offsets: i32("offsets", 2, 6), From: i32("from", 1), Scale: 1, Drawn: 2,
			Draw: device.Draw{Seed: u32("seed", 2), Pos: i32("pos", 1)}}
		edit(&a)
		return func(o *device.Ops) { o.AttendTeams(a) }
	}
	check(t, []checked{
		{with(func(a *device.TeamsArgs) {}), ``},
		{with(func(a *device.TeamsArgs) { a.V = a.K.Slice(2, 0, 4) }), ``},
		{with(func(a *device.TeamsArgs) {
			a.Phi, a.Teams, a.LogC = f32("phi", 1, 6, 5), i32("teams", 1, 6, 2), f32("logC", 1, 6, 2)
			a.Routed, a.Rows, a.Suffix = i64("routed", 1), i64("rows", 1), i64("suffix", 1)
		}), ``},
		{with(func(a *device.TeamsArgs) { a.Out = b16("out", 1, 6, 5) }), `AttendTeams: out is out BF16[1 6 5], want shape [1 6 4]`},
		{with(func(a *device.TeamsArgs) { a.K = b16("k", 2, 9, 7) }), `AttendTeams: k is k BF16[2 9 7], want shape [? ? 8]`},
		{with(func(a *device.TeamsArgs) { a.V = b16("v", 2, 8, 4) }), `AttendTeams: v is v BF16[2 8 4], want shape [2 9 ?]`},
		{with(func(a *device.TeamsArgs) { a.Q, a.Out = b16("q", 1, 5, 8), b16("out", 1, 5, 4) }), `AttendTeams: 5 query heads cannot share 2 key heads evenly`},
		{with(func(a *device.TeamsArgs) { a.Reps = b16("reps", 1, 5, 8) }), `AttendTeams: reps is reps BF16[1 5 8], want shape [2 ? 8]`},
		{with(func(a *device.TeamsArgs) { a.Bias = f32("bias", 2, 6) }), `AttendTeams: bias is bias F32[2 6], want shape [2 5]`},
		{with(func(a *device.TeamsArgs) { a.Offsets = i32("offsets", 2, 5) }), `AttendTeams: offsets is offsets I32[2 5], want shape [2 6]`},
		{with(func(a *device.TeamsArgs) { a.From = nil }), `AttendTeams: from is nil`},
		{with(func(a *device.TeamsArgs) { a.Drawn = 0 }), `AttendTeams: 0 teams are to be drawn: K must be at least 1`},
		{with(func(a *device.TeamsArgs) { a.Draw.Pos = i32("pos", 2) }), `AttendTeams: pos is pos I32[2], want shape [1]`},
		{with(func(a *device.TeamsArgs) { a.Rows = i32("rows", 1) }), `AttendTeams: rows is rows I32[1], want I64`},
		{with(func(a *device.TeamsArgs) { a.Teams = i32("teams", 1, 6, 2) }), `AttendTeams: teams and logc go together`},
		{with(func(a *device.TeamsArgs) { a.Teams, a.LogC = i32("teams", 1, 6, 3), f32("logC", 1, 6, 2) }), `AttendTeams: teams is teams I32[1 6 3], want shape [1 6 2]`},
	})
}
