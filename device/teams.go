package device

// TeamsArgs are the arguments of Ops.AttendTeams.
type TeamsArgs struct {
	Out     *Tensor // [tokens, heads, dv]
	Q       *Tensor // [tokens, heads, dk]
	K       *Tensor // [kv heads, capacity, dk]
	V       *Tensor // [kv heads, capacity, dv]; may be a view of K's first columns
	Reps    *Tensor // [kv heads, teams, dk], as Route takes them
	Bias    *Tensor // F32 [kv heads, teams]: ln n, −Inf where there is no team
	Offsets *Tensor // I32 [kv heads, teams+1]: team g is the rows [offsets[g], offsets[g+1])
	From    *Tensor // I32 [1]: first row of the suffix; the last is Draw.Pos
	Scale   float32
	Drawn   int // K: teams drawn by a query head
	Draw    Draw

	// Read, I64 [1] each, added to; nil for no counting: teams scored, distinct
	// rows of drawn teams, and suffix rows, as Route, AttendSelected and Attend
	// count them.
	Routed, Rows, Suffix *Tensor
	// What was drawn, for tests; nil for none. Teams and LogC go together.
	Phi   *Tensor // F32 [tokens, heads, teams]
	Teams *Tensor // I32 [tokens, heads, Drawn]: in any order; −1 beyond the last team there is
	LogC  *Tensor // F32 [tokens, heads, Drawn]: of the team in that place; 0 beyond the last
}

// AttendTeams is one step of SANTA++ decode attention: it scores the teams by
// their representatives, draws Drawn of them for every query head, attends to
// their rows, corrected for the chance of each draw, and to the exact suffix.
// It equals Route, SampleTopK, AttendSelected, Attend over the suffix and
// Merge, with the same random numbers.
//
// Source: SANTA++, Eq. 3 to 7.
func (o *Ops) AttendTeams(a TeamsArgs) {
	c := o.begin("AttendTeams", a.Scale, a.Drawn)
	q, k, v := c.attention(a.Q, a.K, a.V)
	c.arg("out", a.Out, half, q[0], q[1], v[2])
	r := c.dims("reps", a.Reps, scored, 3)
	c.arg("reps", a.Reps, scored, k[0], -1, q[2])
	c.arg("bias", a.Bias, f32, k[0], r[1])
	c.arg("offsets", a.Offsets, i32, k[0], r[1]+1)
	c.arg("from", a.From, i32, 1)
	c.require(a.Drawn >= 1, "%d teams are to be drawn: K must be at least 1", a.Drawn)
	c.draw(a.Draw, q[0])
	c.optional("routed", a.Routed, i64, 1)
	c.optional("rows", a.Rows, i64, 1)
	c.optional("suffix", a.Suffix, i64, 1)
	c.optional("phi", a.Phi, f32, q[0], q[1], r[1])
	c.optional("teams", a.Teams, i32, q[0], q[1], a.Drawn)
	c.optional("logc", a.LogC, f32, q[0], q[1], a.Drawn)
	c.require((a.Teams == nil) == (a.LogC == nil), "teams and logc go together")
	c.run(func(kn Kernels) error { return kn.AttendTeams(a) })
}

// TeamsSteps is memory for the results between the operations that AttendTeams
// fuses.
type TeamsSteps struct {
	Phi            *Tensor // F32 [tokens, heads, teams]
	Teams          *Tensor // I32 [tokens, heads, Drawn]
	LogC           *Tensor // F32 [tokens, heads, Drawn]
	Prompt, Suffix Partial // F32 [tokens, heads, dv] and [tokens, heads]
}

// NewTeamsSteps makes the memory by calls of alloc. The caller's own Phi, Teams
// and LogC are taken where there are any.
func NewTeamsSteps(a TeamsArgs, alloc func(name string, t DType, shape ...int) (*Tensor, error)) (s TeamsSteps, err error) {
	tokens, heads := a.Q.Shape[0], a.Q.Shape[1]
	made := func(given *Tensor, name string, t DType, last ...int) *Tensor {
		if given == nil && err == nil {
			given, err = alloc(name, t, append([]int{tokens, heads}, last...)...)
		}
		return given
	}
	s.Phi = made(a.Phi, "phi", F32, a.Reps.Shape[1])
	s.Teams = made(a.Teams, "teams", I32, a.Drawn)
	s.LogC = made(a.LogC, "logc", F32, a.Drawn)
	for _, p := range []*Partial{&s.Prompt, &s.Suffix} {
		p.Out = made(nil, "part", F32, a.V.Shape[2])
		p.LSE = made(nil, "lse", F32)
	}
	return s, err
}

// Stage is one of the operations that AttendTeams fuses.
type Stage struct {
	Name  string
	Issue func(o *Ops)
}

// Stages are the operations that AttendTeams fuses, in order.
func (s TeamsSteps) Stages(a TeamsArgs) []Stage {
	return []Stage{
		{"route", func(o *Ops) {
			o.Route(RouteArgs{Phi: s.Phi, Q: a.Q, Reps: a.Reps, Bias: a.Bias, Scale: a.Scale, Read: a.Routed})
		}},
		{"draw", func(o *Ops) { o.SampleTopK(TopKArgs{Teams: s.Teams, LogC: s.LogC, Phi: s.Phi, Draw: a.Draw}) }},
		{"read", func(o *Ops) {
			o.AttendSelected(SelectedArgs{
				Out: s.Prompt, Q: a.Q, K: a.K, V: a.V, Offsets: a.Offsets, Teams: s.Teams, LogC: s.LogC, Scale: a.Scale, Read: a.Rows,
			})
		}},
		{"attend", func(o *Ops) {
			o.Attend(AttendArgs{Out: s.Suffix, Q: a.Q, K: a.K, V: a.V, From: a.From, Pos: a.Draw.Pos, Scale: a.Scale, Read: a.Suffix})
		}},
		{"merge", func(o *Ops) { o.Merge(a.Out, s.Prompt, s.Suffix) }},
	}
}

// AttendTeamsBySteps is AttendTeams by the operations that it fuses.
func AttendTeamsBySteps(k Kernels, a TeamsArgs, s TeamsSteps) error {
	ops := NewOps(k, nil)
	for _, stage := range s.Stages(a) {
		stage.Issue(ops)
	}
	return ops.Err()
}
