package cuda

import (
	"slices"
	"testing"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// planner calls operations without a GPU and collects what they would run.
type planner struct {
	kernels  *kernels
	programs map[string]program
	next     driver.Address
}

func newPlanner(capability int) *planner {
	p := &planner{programs: map[string]program{}, next: 1 << 20}
	p.kernels = &kernels{gpu: &gpu{}, card: card{capability: capability, multiprocessors: 132}, plan: func(program program) { p.programs[program.key()] = program }}
	return p
}

// tensor has an address and no memory.
func (p *planner) tensor(t device.DType, shape ...int) *device.Tensor {
	v := device.NewTensor("t", t, &buffer{at: p.next}, shape...)
	p.next += driver.Address((v.Bytes() + 1<<20) &^ (align - 1))
	return v
}

// model are the sizes that decide which kernels a model needs.
type model struct {
	heads, keyHeads, dk, dv int
}

// issue calls every operation with a type for activations and weights.
func (p *planner) issue(t device.DType, m model, tokens int, odd bool) error {
	ops := device.NewOps(p.kernels, nil)
	f := func(shape ...int) *device.Tensor { return p.tensor(device.F32, shape...) }
	i := func(shape ...int) *device.Tensor { return p.tensor(device.I32, shape...) }
	x := func(shape ...int) *device.Tensor {
		if odd { // rows that begin at odd elements
			last := len(shape) - 1
			wide := slices.Clone(shape)
			wide[last] += 2
			return p.tensor(t, wide...).Slice(last, 1, 1+shape[last])
		}
		return p.tensor(t, shape...)
	}
	bytes := func(rows, n int) *device.Tensor {
		from, wide := 0, n
		if odd {
			from, wide = 1, n+2
		}
		v, size := device.NewInt8Tensor("w", &buffer{at: p.next}, rows, wide)
		p.next += driver.Address((size + 1<<20) &^ (align - 1))
		return v.Slice(1, from, from+n)
	}
	const hidden, teams, vocab = 256, 100, 1000
	pos, seed := i(tokens), p.tensor(device.U32, 2)
	q, k, v := x(tokens, m.heads, m.dk), x(m.keyHeads, 4096, m.dk), x(m.keyHeads, 4096, m.dv)
	w := device.Weight{Parts: []*device.Tensor{x(hidden, hidden), x(64, hidden)}}
	biased := device.Weight{Parts: w.Parts, Bias: []*device.Tensor{x(hidden), x(64)}}
	expert := device.Expert{GateUp: device.Weight{Parts: []*device.Tensor{x(64, hidden), x(64, hidden)}}, Down: device.Weight{Parts: []*device.Tensor{x(hidden, 64)}}}

	w8 := device.Weight{Parts: []*device.Tensor{bytes(hidden, hidden), bytes(64, hidden)}}
	expert8 := device.Expert{GateUp: device.Weight{Parts: []*device.Tensor{bytes(64, hidden), bytes(64, hidden)}}, Down: device.Weight{Parts: []*device.Tensor{bytes(hidden, 64)}}}

	ops.Embed(x(tokens, hidden), x(vocab, hidden), pos)
	ops.RMSNorm(x(tokens, hidden), x(tokens, hidden), x(hidden), 1e-6)
	ops.Linear(x(tokens, hidden+64), x(tokens, hidden), biased)
	ops.LinearAdd(f(tokens, hidden+64), x(tokens, hidden), w)
	ops.LinearAdd(p.tensor(device.BF16, tokens, hidden+64), x(tokens, hidden), biased)
	ops.Linear(x(tokens, hidden+64), x(tokens, hidden), device.Weight{Parts: w8.Parts, Bias: biased.Bias})
	ops.LinearAdd(f(tokens, hidden+64), x(tokens, hidden), w8)
	ops.HeadLinear(x(tokens, m.heads, 64), q, bytes(m.heads*64, m.dk).Unflatten(0, m.heads, 64), false)
	ops.HeadLinear(x(tokens, m.heads, 64), q, bytes(m.heads*m.dk, 64).Unflatten(0, m.heads, m.dk), true)
	ops.Experts(device.ExpertsArgs{Dst: x(tokens, hidden), X: x(tokens, hidden), IDs: i(tokens, 2), Weights: f(tokens, 2), Experts: []device.Expert{expert8, expert8}})
	norm := device.Norm{Gamma: x(hidden), Eps: 1e-6}
	ops.NormLinear(x(tokens, hidden+64), x(tokens, hidden), f(tokens, hidden), norm, device.Weight{Parts: w8.Parts, Bias: biased.Bias})
	ops.NormLinear(f(tokens, hidden+64), x(tokens, hidden), f(tokens, hidden), norm, w8)
	ops.NormSwiGLU(x(tokens, hidden), x(tokens, 2*hidden), x(tokens, hidden), f(tokens, hidden), norm, device.Weight{Parts: []*device.Tensor{w8.Parts[0], w8.Parts[0]}})
	ops.NormLinear(x(tokens, hidden+64), x(tokens, hidden), f(tokens, hidden), norm, biased)
	ops.NormLinear(f(tokens, hidden+64), x(tokens, hidden), f(tokens, hidden), norm, w)
	ops.NormSwiGLU(x(tokens, hidden), x(tokens, 2*hidden), x(tokens, hidden), f(tokens, hidden), norm, device.Weight{Parts: []*device.Tensor{x(hidden, hidden), x(hidden, hidden)}})
	ops.HeadLinear(x(tokens, m.heads, 64), q, x(m.heads, 64, m.dk), false)
	ops.HeadLinear(x(tokens, m.heads, 64), q, x(m.heads, m.dk, 64), true)
	ops.Rotate(q, pos, device.RoPE{InvFreq: f(m.dk / 2), Scale: 1})
	ops.SwiGLU(x(tokens, 64), x(tokens, 128))
	ops.Router(device.RouterArgs{IDs: i(tokens, 2), Weights: f(tokens, 2), X: x(tokens, hidden), Gate: x(4, hidden), Groups: 1, TopGroups: 1})
	ops.Experts(device.ExpertsArgs{Dst: x(tokens, hidden), X: x(tokens, hidden), IDs: i(tokens, 2), Weights: f(tokens, 2), Experts: []device.Expert{expert, expert}})
	ops.MoE(device.MoEArgs{X: f(tokens, hidden), Norm: norm, Router: device.RouterArgs{IDs: i(tokens, 2), Weights: f(tokens, 2), X: x(tokens, hidden), Gate: x(4, hidden), Groups: 1, TopGroups: 1},
		Experts: []device.Expert{expert, expert, expert, expert}, Shared: expert, GateUp: x(tokens, 128), Inner: x(tokens, 64)})
	ops.Copy(f(tokens, hidden), x(tokens, hidden))
	ops.Append(k, x(tokens, m.keyHeads, m.dk), pos, i(m.keyHeads, 8))
	ops.RotateAppend(device.RotateAppendArgs{Q: q, K: x(tokens, m.keyHeads, m.dk), V: x(tokens, m.keyHeads, m.dv), Pos: pos,
		RoPE: device.RoPE{InvFreq: f(m.dk / 2), Scale: 1}, Keys: k, Values: v, Slots: i(m.keyHeads, 8)})
	ops.RotateAppend(device.RotateAppendArgs{Q: x(tokens, m.heads, m.dk/4), K: x(tokens, 1, m.dk), Norm: device.Norm{Gamma: x(m.dk - m.dk/4)}, Pos: pos,
		RoPE: device.RoPE{InvFreq: f(m.dk / 8), Scale: 1, Pairing: device.Interleaved}, Turned: x(tokens, m.heads, m.dk/4), Keys: x(1, 4096, m.dk)})
	ops.RotateAppend(device.RotateAppendArgs{Q: x(tokens, m.heads, m.dk/4), K: x(tokens, 1, m.dk), Norm: device.Norm{Gamma: x(m.dk - m.dk/4)}, Pos: pos,
		RoPE: device.RoPE{InvFreq: f(m.dk / 8), Scale: 1, Pairing: device.Interleaved}, Keys: x(1, 4096, m.dk), Beside: &device.HeadProduct{Dst: x(tokens, m.heads, 64), X: q, W: x(m.heads, m.dk, 64), Transpose: true}})
	ops.PermuteRows(k, i(m.keyHeads, 32), false, 0)
	ops.PermuteRows(k, i(m.keyHeads, 32), false, 16)
	keys := p.tensor(device.F8, m.keyHeads, teams, m.dk)
	keys.Scale = f(m.keyHeads).Repeat(1, teams)
	ops.Quantize(keys, x(m.keyHeads, teams, m.dk))
	ops.Copy(keys, keys)
	if m.dk == m.dv { // a new row, then attention
		ops.RotateAppend(device.RotateAppendArgs{Q: q, K: x(tokens, m.keyHeads, m.dk), V: x(tokens, m.keyHeads, m.dv), Pos: pos, RoPE: device.RoPE{InvFreq: f(m.dk / 2), Scale: 1}, Keys: k, Values: v})
		ops.Attend(device.AttendArgs{Out: device.Partial{Out: x(tokens, m.heads, m.dv)}, Q: q, K: k, V: v, Pos: pos, Scale: 1})
	}
	p.issueAttention(ops, x, m, tokens)
	ops.GatherRows(x(m.keyHeads, teams, m.dk), k, i(m.keyHeads, teams))
	sets := device.RowSets{k.Slice(1, 0, 256).Slice(2, 0, min(m.dk, 512))} // of a latent, the part that is compared
	heads, width := m.keyHeads, min(m.dk, 512)
	ops.SpreadCenters(device.SpreadArgs{Chosen: i(heads, 16), Near: f(heads, 256), Pot: f(heads), X: sets, IDs: i(256), Words: p.tensor(device.U32, 16, 4, 2), To: 16})
	ops.Nearest(device.NearestArgs{Labels: i(heads, 256), Inertia: f(heads), X: sets, Centers: f(heads, 16, width)})
	ops.MoveCenters(device.MoveArgs{Centers: f(heads, 16, width), Counts: f(heads, 16), X: sets, Labels: i(heads, 256)})
	ops.DivideTeams(device.DivideArgs{X: sets, Parent: i(heads, 256), Parents: 16, Most: 4, Teams: i(heads), Reps: i(heads, 64), LogN: f(heads, 64), Offsets: i(heads, 65), Slots: i(heads, 256)})
	ops.Sample(device.SampleArgs{ID: i(1), Logits: f(vocab), Seen: i(vocab), Settings: f(device.NumSettings), Seed: seed, Pos: i(1)})
	ops.TopLogProbs(device.LogProbArgs{IDs: i(5), LogProbs: f(5), Chosen: f(1), Logits: f(vocab), ID: i(1)})
	ops.MarkSeen(i(vocab), pos)
	ops.Increment(pos)
	if err := p.kernels.fetch(&landing{}, 0, 4); err != nil {
		return err
	}
	for _, from := range []device.DType{device.F32, device.F16, device.BF16} {
		if err := p.kernels.roundRows(bytes(hidden, hidden), p.tensor(from, hidden, hidden)); err != nil {
			return err
		}
	}
	return ops.Err()
}

// issueAttention calls the operations of attention, x making what is queries, rows
// and results.
func (p *planner) issueAttention(ops *device.Ops, x func(shape ...int) *device.Tensor, m model, tokens int) {
	f := func(shape ...int) *device.Tensor { return p.tensor(device.F32, shape...) }
	i := func(shape ...int) *device.Tensor { return p.tensor(device.I32, shape...) }
	const teams, drawn = 100, 16
	pos, seed, read := i(tokens), p.tensor(device.U32, 2), p.tensor(device.I64, 1)
	out := device.Partial{Out: x(tokens, m.heads, m.dv), LSE: f(tokens, m.heads)}
	q, k, v := x(tokens, m.heads, m.dk), x(m.keyHeads, 4096, m.dk), x(m.keyHeads, 4096, m.dv)
	if m.keyHeads == 1 && tokens <= fewTokens { // a shared latent
		v = k.Slice(2, 0, m.dv)
	}
	ops.Attend(device.AttendArgs{Out: out, Q: q, K: k, V: v, From: i(1), Pos: pos, Scale: 1, Read: read})
	if out.Out.DType != device.F16 {
		ops.Attend(device.AttendArgs{Out: out, Q: q, K: k, V: v, Pos: pos, Scale: 1, Then: &device.HeadProduct{Dst: x(tokens, m.heads, 64), X: out.Out, W: x(m.heads, 64, m.dv)}})
	}
	ops.Merge(out.Out, out, out)
	ops.Route(device.RouteArgs{Phi: f(tokens, m.heads, teams), Q: q, Reps: x(m.keyHeads, teams, m.dk), Bias: f(m.keyHeads, teams), Scale: 1, Read: read})
	ops.SampleTopK(device.TopKArgs{Teams: i(tokens, m.heads, drawn), LogC: f(tokens, m.heads, drawn), Phi: f(tokens, m.heads, teams), Draw: device.Draw{Seed: seed, Pos: pos}})
	ops.SampleWithReplacement(device.ReplacementArgs{Teams: i(tokens, m.heads, drawn), LogC: f(tokens, m.heads, drawn), Phi: f(tokens, m.heads, teams), Draw: device.Draw{Seed: seed, Pos: pos}})
	ops.GroupMass(f(tokens, m.heads, 10), f(tokens, m.heads, teams), i(m.keyHeads, 11))
	ops.AttendSelected(device.SelectedArgs{Out: out, Q: q, K: k, V: v, Offsets: i(m.keyHeads, teams+1), Teams: i(tokens, m.heads, drawn), LogC: f(tokens, m.heads, drawn), Scale: 1, Read: read})
	for _, s := range [][2]int{{31, 1000}, {31, 2000}, {31, 8000}, {31, 32000}, {64, 8000}, {128, 8000}, {512, 8000}} { // drawn, of teams
		ops.AttendTeams(device.TeamsArgs{Out: out.Out, Q: q, K: k, V: v, Reps: x(m.keyHeads, s[1], m.dk), Bias: f(m.keyHeads, s[1]), Offsets: i(m.keyHeads, s[1]+1),
			From: i(1), Scale: 1, Drawn: s[0], Draw: device.Draw{Seed: seed, Pos: pos}, Rows: read})
	}
	for _, n := range []int{8000, 32000} { // representatives as F8
		keys := p.tensor(device.F8, m.keyHeads, n, m.dk)
		keys.Scale = f(m.keyHeads).Repeat(1, n)
		ops.Route(device.RouteArgs{Phi: f(tokens, m.heads, n), Q: q, Reps: keys, Bias: f(m.keyHeads, n), Scale: 1})
		ops.AttendTeams(device.TeamsArgs{Out: out.Out, Q: q, K: k, V: v, Reps: keys, Bias: f(m.keyHeads, n), Offsets: i(m.keyHeads, n+1),
			From: i(1), Scale: 1, Drawn: 31, Draw: device.Draw{Seed: seed, Pos: pos}, Rows: read})
	}
}

// issueSmall calls the operations of a small layer.
func (p *planner) issueSmall(m model, hidden, inner int) error {
	ops := device.NewOps(p.kernels, nil)
	for _, issue := range p.wholeLayer(m, hidden, inner).operations() {
		issue(ops)
	}
	return ops.Err()
}

// issueHalf calls the operations that take F16.
func (p *planner) issueHalf(m model, tokens int) error {
	ops := device.NewOps(p.kernels, nil)
	half := func(shape ...int) *device.Tensor { return p.tensor(device.F16, shape...) }
	p.issueAttention(ops, half, m, tokens)
	for _, t := range []device.DType{device.F32, device.BF16} {
		ops.Copy(half(tokens, m.heads), p.tensor(t, tokens, m.heads))
		ops.Copy(p.tensor(t, tokens, m.heads), half(tokens, m.heads))
	}
	return ops.Err()
}

// The models that run; every operation is planned for their sizes.
var models = map[string]model{
	"qwen2.5-0.5b":     {14, 2, 64, 64},
	"qwen2.5-7b":       {28, 4, 128, 128},
	"v2-lite absorbed": {16, 1, 576, 512},
	"v2-lite expanded": {16, 16, 192, 128},
	"needle-dsv2":      {6, 1, 160, 128},
	"dsv2 expanded":    {6, 6, 96, 64},
	"golden":           {4, 2, 8, 8},
}

// plan collects the programs of models on a card, for decode and prefill.
func plan(t *testing.T, capability int, ty device.DType, names ...string) map[string]program {
	t.Helper()
	p := newPlanner(capability)
	for _, name := range names {
		if m := models[name]; name == "qwen2.5-0.5b" && ty == device.BF16 {
			if err := p.issueSmall(m, 896, 4864); err != nil {
				t.Fatalf("%s %v, a layer: %v", name, ty, err)
			}
		}
		for _, tokens := range []int{1, 9} {
			issue := func() error { return p.issue(ty, models[name], tokens, false) }
			if ty == device.F16 {
				issue = func() error { return p.issueHalf(models[name], tokens) }
			}
			if err := issue(); err != nil {
				t.Fatalf("%s %v, %d tokens: %v", name, ty, tokens, err)
			}
		}
	}
	if ty == device.F16 {
		return p.programs
	}
	if err := p.issue(ty, models["golden"], 5, true); err != nil {
		t.Fatalf("odd rows: %v", err)
	}
	return p.programs
}

// weight is a weight of parts with so many outputs.
func (p *planner) weight(in int, outs ...int) (w device.Weight) {
	for _, n := range outs {
		w.Parts = append(w.Parts, p.tensor(device.BF16, n, in))
	}
	return w
}

// TestTeamsFitTogether has blocks of both kernels of AttendTeams on a multiprocessor at once where a warp has several slabs,
// and never two of teams_score, which would take the memory of others.
func TestTeamsFitTogether(t *testing.T) {
	p := newPlanner(90)
	for _, c := range []struct {
		heads, keyHeads, dk, dv, teams, drawn int
		reps                                  device.DType
		want                                  bool
	}{
		{28, 4, 128, 128, 8448, 32, device.BF16, false}, {28, 4, 128, 128, 8449, 32, device.BF16, true}, {28, 4, 128, 128, 32000, 1, device.BF16, true},
		{28, 4, 128, 128, 32000, 64, device.BF16, true}, {28, 4, 128, 128, 32000, 128, device.BF16, true}, {28, 4, 128, 128, 32000, 512, device.BF16, false},
		{28, 4, 128, 128, 32000, 32, device.F8, true}, {28, 4, 128, 128, 8449, 32, device.F8, false}, {14, 2, 64, 64, 32000, 32, device.BF16, false},
		{16, 1, 576, 512, 32000, 32, device.BF16, false},
	} {
		plan, ok := p.kernels.planTeams(device.TeamsArgs{
			Q: p.tensor(device.BF16, 1, c.heads, c.dk), K: p.tensor(device.BF16, c.keyHeads, 4*c.teams, c.dk), V: p.tensor(device.BF16, c.keyHeads, 4*c.teams, c.dv),
			Reps: p.tensor(c.reps, c.keyHeads, c.teams, c.dk), Drawn: c.drawn,
		})
		if !ok || plan.crowded != c.want {
			t.Errorf("%+v: planned %v, together %v", c, ok, plan.crowded)
		}
		if plan.crowded && plan.scoreShared()+plan.attendShared()+2*blockShared > allShared {
			t.Errorf("%+v: %d and %d bytes are too many", c, plan.scoreShared(), plan.attendShared())
		}
	}
}

// TestTeamsWideBlocks has teams_score_wide in blocks where attention leaves it no multiprocessors of its own, too.
func TestTeamsWideBlocks(t *testing.T) {
	p := newPlanner(90)
	for _, c := range []struct{ multiprocessors, heads, keyHeads, teams, want int }{
		{132, 16, 1, 100, 2}, {132, 16, 1, 8000, 68}, {132, 16, 1, 32000, 132}, // representatives fit beside attention, or not
		{132, 132, 12, 100, 2}, {132, 256, 16, 100, 2}, {8, 16, 1, 100, 2},
	} {
		p.kernels.card.multiprocessors = c.multiprocessors
		plan, ok := p.kernels.planTeams(device.TeamsArgs{
			Q: p.tensor(device.BF16, 1, c.heads, 576), K: p.tensor(device.BF16, c.keyHeads, 4*c.teams, 576), V: p.tensor(device.BF16, c.keyHeads, 4*c.teams, 512),
			Reps: p.tensor(device.BF16, c.keyHeads, c.teams, 576), Drawn: 31,
		})
		if !ok || !plan.wide || plan.scoreBlocks != c.want {
			t.Errorf("%+v: planned %v, wide %v, %d blocks", c, ok, plan.wide, plan.scoreBlocks)
		}
	}
}
