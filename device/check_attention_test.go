package device_test

import (
	"testing"

	"blitzen/device"
)

func TestAppend(t *testing.T) {
	cache, rows, pos := b16("cache", 2, 9, 8), f32("rows", 3, 2, 8), i32("pos", 3)
	check(t, []checked{
		{func(o *device.Ops) { o.Append(cache, rows, pos, nil) }, ``},
		{func(o *device.Ops) { o.Append(cache, rows, pos, i32("slots", 2, 5)) }, ``},
		{func(o *device.Ops) { o.Append(cache, f32("rows", 3, 3, 8), pos, nil) }, `Append: cache is cache BF16[2 9 8], want shape [3 ? 8]`},
		{func(o *device.Ops) { o.Append(cache, f32("rows", 3, 2, 7), pos, nil) }, `Append: cache is cache BF16[2 9 8], want shape [2 ? 7]`},
		{func(o *device.Ops) { o.Append(cache, f32("rows", 3, 16), pos, nil) }, `Append: rows is rows F32[3 16], want shape [? ? ?]`},
		{func(o *device.Ops) { o.Append(cache, rows, i32("pos", 2), nil) }, `Append: pos is pos I32[2], want shape [3]`},
		{func(o *device.Ops) { o.Append(cache, rows, pos, i32("slots", 3, 5)) }, `Append: slots is slots I32[3 5], want shape [2 ?]`},
		{func(o *device.Ops) { o.Append(cache, rows, nil, nil) }, `Append: pos is nil`},
	})
}

func TestPermuteRows(t *testing.T) {
	check(t, []checked{
		{func(o *device.Ops) { o.PermuteRows(b16("t", 2, 9, 8), i32("order", 2, 9), true, 0) }, ``},
		{func(o *device.Ops) { o.PermuteRows(b16("t", 2, 9, 8), i32("order", 2, 10), true, 0) }, `PermuteRows: order has 10 rows, t 9`},
		{func(o *device.Ops) { o.PermuteRows(b16("t", 2, 9, 8), i32("order", 1, 9), true, 0) }, `PermuteRows: order is order I32[1 9], want shape [2 ?]`},
		{func(o *device.Ops) { o.PermuteRows(b16("t", 2, 9, 8), i32("order", 2, 9), true, -4) }, `PermuteRows: rows stay within blocks of -4`},
		{func(o *device.Ops) { o.PermuteRows(b16("t", 9, 8), i32("order", 2, 9), true, 0) }, `PermuteRows: t is t BF16[9 8], want shape [? ? ?]`},
	})
}

func TestAttend(t *testing.T) {
	with := func(edit func(a *device.AttendArgs)) func(o *device.Ops) {
		a := device.AttendArgs{Out: device.Partial{Out: f32("out", 3, 6, 4), LSE: f32("lse", 3, 6)}, Q: b16("q", 3, 6, 8),
			K: b16("k", 2, 9, 8), V: b16("v", 2, 9, 4), Pos: i32("pos", 3), Scale: 1}
		edit(&a)
		return func(o *device.Ops) { o.Attend(a) }
	}
	check(t, []checked{
		{with(func(a *device.AttendArgs) {}), ``},
		{with(func(a *device.AttendArgs) { a.Out.LSE, a.From, a.Read = nil, i32("from", 1), i64("read", 1) }), ``},
		{with(func(a *device.AttendArgs) { a.V = a.K.Slice(2, 0, 4) }), ``},
		{with(func(a *device.AttendArgs) {
			a.Then = &device.HeadProduct{Dst: b16("dst", 3, 6, 2), X: a.Out.Out, W: b16("w", 6, 2, 4)}
		}), ``},
		{with(func(a *device.AttendArgs) {
			a.Then = &device.HeadProduct{Dst: b16("dst", 3, 6, 2), X: a.Out.Out, W: b16("w", 6, 2, 5)}
		}), `Attend: w is w BF16[6 2 5], want shape [6 2 4]`},
		{with(func(a *device.AttendArgs) {
			a.Then = &device.HeadProduct{Dst: b16("dst", 3, 6, 2), X: f32("x", 3, 6, 4), W: b16("w", 6, 2, 4)}
		}), `Attend: the product after attention is of x F32[3 6 4], not of its results`},
		{with(func(a *device.AttendArgs) { a.Q = b16("q", 3, 6, 7) }), `Attend: k is k BF16[2 9 8], want shape [? ? 7]`},
		{with(func(a *device.AttendArgs) {
			a.Q, a.Out.Out, a.Out.LSE = b16("q", 3, 5, 8), f32("out", 3, 5, 4), f32("lse", 3, 5)
		}), `Attend: 5 query heads cannot share 2 key heads evenly`},
		{with(func(a *device.AttendArgs) { a.V = b16("v", 2, 8, 4) }), `Attend: v is v BF16[2 8 4], want shape [2 9 ?]`},
		{with(func(a *device.AttendArgs) { a.V = b16("v", 2, 9, 5) }), `Attend: out is out F32[3 6 4], want shape [3 6 5]`},
		{with(func(a *device.AttendArgs) { a.K, a.V = b16("k", 0, 9, 8), b16("v", 0, 9, 4) }), `Attend: 6 query heads cannot share 0 key heads evenly`},
		{with(func(a *device.AttendArgs) { a.Out.Out = nil }), `Attend: out is nil`},
		{with(func(a *device.AttendArgs) { a.Out.LSE = b16("lse", 3, 6) }), `Attend: lse is lse BF16[3 6], want F32`},
		{with(func(a *device.AttendArgs) { a.Pos = i32("pos", 1) }), `Attend: pos is pos I32[1], want shape [3]`},
		{with(func(a *device.AttendArgs) { a.From = i32("from", 3) }), `Attend: from is from I32[3], want shape [1]`},
		{with(func(a *device.AttendArgs) { a.Read = i32("read", 1) }), `Attend: read is read I32[1], want I64`},
	})
}

func TestMerge(t *testing.T) {
	part := device.Partial{Out: f32("out", 3, 6, 4), LSE: f32("lse", 3, 6)}
	check(t, []checked{
		{func(o *device.Ops) { o.Merge(b16("dst", 3, 6, 4), part, part) }, ``},
		{func(o *device.Ops) { o.Merge(b16("dst", 3, 6, 5), part, part) }, `Merge: out is out F32[3 6 4], want shape [3 6 5]`},
		{func(o *device.Ops) { o.Merge(b16("dst", 3, 6, 4), part, device.Partial{Out: part.Out}) }, `Merge: a part has no lse`},
		{func(o *device.Ops) {
			o.Merge(b16("dst", 3, 6, 4), device.Partial{Out: part.Out, LSE: f32("lse", 6, 3)}, part)
		}, `Merge: lse is lse F32[6 3], want shape [3 6]`},
		{func(o *device.Ops) { o.Merge(b16("dst", 3, 6, 4), part, device.Partial{}) }, `Merge: out is nil`},
	})
}

func TestRoute(t *testing.T) {
	with := func(edit func(a *device.RouteArgs)) func(o *device.Ops) {
		a := device.RouteArgs{Phi: f32("phi", 3, 6, 5), Q: b16("q", 3, 6, 8), Reps: b16("reps", 2, 5, 8), Bias: f32("bias", 2, 5), Scale: 1}
		edit(&a)
		return func(o *device.Ops) { o.Route(a) }
	}
	check(t, []checked{
		{with(func(a *device.RouteArgs) {}), ``},
		{with(func(a *device.RouteArgs) { a.Read = i64("read", 1) }), ``},
		{with(func(a *device.RouteArgs) { a.Phi = f32("phi", 3, 6, 4) }), `Route: phi is phi F32[3 6 4], want shape [3 6 5]`},
		{with(func(a *device.RouteArgs) { a.Phi = b16("phi", 3, 6, 5) }), `Route: phi is phi BF16[3 6 5], want F32`},
		{with(func(a *device.RouteArgs) { a.Reps = b16("reps", 2, 5, 7) }), `Route: reps is reps BF16[2 5 7], want shape [? ? 8]`},
		{with(func(a *device.RouteArgs) { a.Reps, a.Bias = b16("reps", 4, 5, 8), f32("bias", 4, 5) }), `Route: 6 query heads cannot share 4 key heads evenly`},
		{with(func(a *device.RouteArgs) { a.Bias = f32("bias", 2, 6) }), `Route: bias is bias F32[2 6], want shape [2 5]`},
		{with(func(a *device.RouteArgs) { a.Read = i64("read") }), `Route: read is read I64[], want shape [1]`},
	})
}

func TestSampleTopK(t *testing.T) {
	with := func(edit func(a *device.TopKArgs)) func(o *device.Ops) {
		a := device.TopKArgs{Teams: i32("teams", 3, 6, 2), LogC: f32("logC", 3, 6, 2), Phi: f32("phi", 3, 6, 5),
			Draw: device.Draw{Seed: u32("seed", 2), Pos: i32("pos", 3)}}
		edit(&a)
		return func(o *device.Ops) { o.SampleTopK(a) }
	}
	check(t, []checked{
		{with(func(a *device.TopKArgs) {}), ``},
		{with(func(a *device.TopKArgs) { a.Teams = i32("teams", 3, 5, 2) }), `SampleTopK: teams is teams I32[3 5 2], want shape [3 6 ?]`},
		{with(func(a *device.TopKArgs) { a.LogC = f32("logC", 3, 6, 3) }), `SampleTopK: logc is logC F32[3 6 3], want shape [3 6 2]`},
		{with(func(a *device.TopKArgs) { a.Teams, a.LogC = i32("teams", 3, 6, 0), f32("logC", 3, 6, 0) }), `SampleTopK: teams is teams I32[3 6 0]: K must be at least 1`},
		{with(func(a *device.TopKArgs) { a.Phi = b16("phi", 3, 6, 5) }), `SampleTopK: phi is phi BF16[3 6 5], want F32`},
		{with(func(a *device.TopKArgs) { a.Draw.Seed = i32("seed", 2) }), `SampleTopK: seed is seed I32[2], want U32`},
		{with(func(a *device.TopKArgs) { a.Draw.Pos = i32("pos", 1) }), `SampleTopK: pos is pos I32[1], want shape [3]`},
	})
}

func TestSampleWithReplacement(t *testing.T) {
	with := func(edit func(a *device.ReplacementArgs)) func(o *device.Ops) {
		a := device.ReplacementArgs{Teams: i32("teams", 3, 6, 2), LogC: f32("logC", 3, 6, 2), Phi: f32("phi", 3, 6, 5),
			Draw: device.Draw{Seed: u32("seed", 2), Pos: i32("pos", 3)}}
		edit(&a)
		return func(o *device.Ops) { o.SampleWithReplacement(a) }
	}
	check(t, []checked{
		{with(func(a *device.ReplacementArgs) {}), ``},
		{with(func(a *device.ReplacementArgs) { a.Teams = i32("teams", 3, 5, 2) }), `SampleWithReplacement: teams is teams I32[3 5 2], want shape [3 6 ?]`},
		{with(func(a *device.ReplacementArgs) { a.LogC = f32("logC", 3, 6, 3) }), `SampleWithReplacement: logc is logC F32[3 6 3], want shape [3 6 2]`},
		{with(func(a *device.ReplacementArgs) { a.Teams, a.LogC = i32("teams", 3, 6, 0), f32("logC", 3, 6, 0) }), `SampleWithReplacement: teams is teams I32[3 6 0]: S must be at least 1`},
		{with(func(a *device.ReplacementArgs) { a.Draw.Pos = i32("pos", 1) }), `SampleWithReplacement: pos is pos I32[1], want shape [3]`},
	})
}

func TestGroupMass(t *testing.T) {
	check(t, []checked{
		{func(o *device.Ops) { o.GroupMass(f32("phi", 3, 6, 4), f32("scores", 3, 6, 9), i32("offsets", 2, 5)) }, ``},
		{func(o *device.Ops) { o.GroupMass(f32("phi", 3, 6, 4), f32("scores", 3, 5, 9), i32("offsets", 2, 5)) }, `GroupMass: scores is scores F32[3 5 9], want shape [3 6 ?]`},
		{func(o *device.Ops) { o.GroupMass(f32("phi", 3, 6, 4), f32("scores", 3, 6, 9), i32("offsets", 2, 4)) }, `GroupMass: offsets is offsets I32[2 4], want shape [? 5]`},
		{func(o *device.Ops) { o.GroupMass(f32("phi", 3, 6, 4), f32("scores", 3, 6, 9), i32("offsets", 4, 5)) }, `GroupMass: 6 query heads cannot share 4 key heads evenly`},
	})
}

func TestAttendSelected(t *testing.T) {
	with := func(edit func(a *device.SelectedArgs)) func(o *device.Ops) {
		a := device.SelectedArgs{Out: device.Partial{Out: f32("out", 3, 6, 4), LSE: f32("lse", 3, 6)}, Q: b16("q", 3, 6, 8),
			K: b16("k", 2, 9, 8), V: b16("v", 2, 9, 4), Offsets: i32("offsets", 2, 6), Teams: i32("teams", 3, 6, 2), LogC: f32("logC", 3, 6, 2), Scale: 1}
		edit(&a)
		return func(o *device.Ops) { o.AttendSelected(a) }
	}
	check(t, []checked{
		{with(func(a *device.SelectedArgs) {}), ``},
		{with(func(a *device.SelectedArgs) { a.K = b16("k", 2, 9, 7) }), `AttendSelected: k is k BF16[2 9 7], want shape [? ? 8]`},
		{with(func(a *device.SelectedArgs) { a.V = b16("v", 1, 9, 4) }), `AttendSelected: v is v BF16[1 9 4], want shape [2 9 ?]`},
		{with(func(a *device.SelectedArgs) { a.Q = b16("q", 3, 7, 8) }), `AttendSelected: 7 query heads cannot share 2 key heads evenly`},
		{with(func(a *device.SelectedArgs) { a.Out.Out = f32("out", 3, 6, 8) }), `AttendSelected: out is out F32[3 6 8], want shape [3 6 4]`},
		{with(func(a *device.SelectedArgs) { a.Offsets = i32("offsets", 1, 6) }), `AttendSelected: offsets is offsets I32[1 6], want shape [2 ?]`},
		{with(func(a *device.SelectedArgs) { a.Teams = i32("teams", 1, 6, 2) }), `AttendSelected: teams is teams I32[1 6 2], want shape [3 6 ?]`},
		{with(func(a *device.SelectedArgs) { a.LogC = f32("logC", 3, 6, 3) }), `AttendSelected: logc is logC F32[3 6 3], want shape [3 6 2]`},
		{with(func(a *device.SelectedArgs) { a.Read = i64("read", 2) }), `AttendSelected: read is read I64[2], want shape [1]`},
	})
}

func TestGatherRows(t *testing.T) {
	check(t, []checked{
		{func(o *device.Ops) { o.GatherRows(b16("dst", 3, 2, 8), b16("src", 3, 9, 8), i32("ids", 3, 2)) }, ``},
		{func(o *device.Ops) { o.GatherRows(b16("dst", 3, 2, 8), b16("src", 3, 9, 7), i32("ids", 3, 2)) }, `GatherRows: src is src BF16[3 9 7], want shape [3 ? 8]`},
		{func(o *device.Ops) { o.GatherRows(b16("dst", 3, 2, 8), b16("src", 3, 9, 8), i32("ids", 1, 2)) }, `GatherRows: ids is ids I32[1 2], want shape [3 2]`},
		{func(o *device.Ops) { o.GatherRows(b16("dst", 3, 2, 8), f32("src", 3, 9, 8), i32("ids", 3, 2)) }, `GatherRows: src F32[3 9 8] and dst BF16[3 2 8] differ in type`},
	})
}

func TestSample(t *testing.T) {
	with := func(edit func(a *device.SampleArgs)) func(o *device.Ops) {
		a := device.SampleArgs{ID: i32("id", 1), Logits: f32("logits", 9), Seen: i32("seen", 9), Settings: f32("settings", device.NumSettings), Seed: u32("seed", 2), Pos: i32("pos", 1)}
		edit(&a)
		return func(o *device.Ops) { o.Sample(a) }
	}
	check(t, []checked{
		{with(func(a *device.SampleArgs) {}), ``},
		{with(func(a *device.SampleArgs) { a.ID = i32("id", 2) }), `Sample: id is id I32[2], want shape [1]`},
		{with(func(a *device.SampleArgs) { a.Logits = f32("logits", 1, 9) }), `Sample: logits is logits F32[1 9], want shape [?]`},
		{with(func(a *device.SampleArgs) { a.Seen = i32("seen", 8) }), `Sample: seen is seen I32[8], want shape [9]`},
		{with(func(a *device.SampleArgs) { a.Settings = f32("settings", 4) }), `Sample: settings is settings F32[4], want shape [5]`},
		{with(func(a *device.SampleArgs) { a.Seed = u32("seed", 1) }), `Sample: seed is seed U32[1], want shape [2]`},
		{with(func(a *device.SampleArgs) { a.Pos = nil }), `Sample: pos is nil`},
	})
}

func TestTopLogProbsAndMarkSeen(t *testing.T) {
	with := func(edit func(a *device.LogProbArgs)) func(o *device.Ops) {
		a := device.LogProbArgs{IDs: i32("ids", 4), LogProbs: f32("probs", 4), Chosen: f32("chosen", 1), Logits: f32("logits", 9), ID: i32("id", 1)}
		edit(&a)
		return func(o *device.Ops) { o.TopLogProbs(a) }
	}
	check(t, []checked{
		{with(func(a *device.LogProbArgs) {}), ``},
		{with(func(a *device.LogProbArgs) { a.LogProbs = f32("probs", 3) }), `TopLogProbs: logprobs is probs F32[3], want shape [4]`},
		{with(func(a *device.LogProbArgs) { a.IDs, a.LogProbs = i32("ids", 10), f32("probs", 10) }), `TopLogProbs: 10 of 9 tokens`},
		{with(func(a *device.LogProbArgs) { a.Chosen = f32("chosen", 2) }), `TopLogProbs: chosen is chosen F32[2], want shape [1]`},
		{with(func(a *device.LogProbArgs) { a.ID = nil }), `TopLogProbs: id is nil`},
		{func(o *device.Ops) { o.MarkSeen(i32("seen", 9), i32("ids", 2)) }, ``},
		{func(o *device.Ops) { o.MarkSeen(f32("seen", 9), i32("ids", 2)) }, `MarkSeen: seen is seen F32[9], want I32`},
		{func(o *device.Ops) { o.MarkSeen(i32("seen", 9), i32("ids", 2, 1)) }, `MarkSeen: ids is ids I32[2 1], want shape [?]`},
	})
}
