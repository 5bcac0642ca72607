package attentiontest

import (
	"slices"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/device"
)

// Chain is a sampled backend's Attend by the operations that it comes to; tests
// look at what passes between them.
type Chain struct {
	*sampled.Backend
	device.TeamsSteps
	Args   device.TeamsArgs
	layer  *Layer
	scores *device.Tensor // of rows, where groups are scored by their mass
	bias   *device.Tensor
}

// NewChain makes the memory.
func NewChain(t testing.TB, l *Layer, b *sampled.Backend) *Chain {
	t.Helper()
	c := &Chain{Backend: b, Args: b.Args(l.Input()), layer: l}
	a := c.Args
	if a.Reps == nil { // by mass
		n := l.Cache.Frozen()
		c.scores = Tensor(t, l.Dev, make([]float64, l.Heads*n), 1, l.Heads, n)
		c.bias = Tensor(t, l.Dev, make([]float64, a.K.Shape[0]*n), a.K.Shape[0], n)
		a.Reps = a.K.Slice(1, 0, a.Bias.Shape[1]) // for its length alone
	}
	var err error
	c.TeamsSteps, err = device.NewTeamsSteps(a, l.Dev.New)
	Check(t, err)
	return c
}

// Route scores the groups.
func (c *Chain) Route(ops *device.Ops) {
	a := c.Args
	if c.scores == nil {
		ops.Route(device.RouteArgs{Phi: c.Phi, Q: a.Q, Reps: a.Reps, Bias: a.Bias, Scale: a.Scale, Read: a.Routed})
		return
	}
	ops.Route(device.RouteArgs{Phi: c.scores, Q: a.Q, Reps: a.K.Slice(1, 0, c.scores.Shape[2]), Bias: c.bias, Scale: a.Scale, Read: a.Routed})
	ops.GroupMass(c.Phi, c.scores, a.Offsets)
}

// Draw draws groups by Phi.
func (c *Chain) Draw(ops *device.Ops) {
	ops.SampleTopK(device.TopKArgs{Teams: c.Teams, LogC: c.LogC, Phi: c.Phi, Draw: c.Args.Draw})
}

// Read attends to the rows of Teams and to the suffix.
func (c *Chain) Read(ops *device.Ops) {
	a := c.Args
	ops.AttendSelected(device.SelectedArgs{Out: c.Prompt, Q: a.Q, K: a.K, V: a.V, Offsets: a.Offsets, Teams: c.Teams, LogC: c.LogC, Scale: a.Scale, Read: a.Rows})
	ops.Attend(device.AttendArgs{Out: c.Suffix, Q: a.Q, K: a.K, V: a.V, From: a.From, Pos: a.Draw.Pos, Scale: a.Scale, Read: a.Suffix})
	ops.Merge(a.Out, c.Prompt, c.Suffix)
}

// All is the whole step.
func (c *Chain) All(ops *device.Ops) {
	c.Route(ops)
	c.Draw(ops)
	c.Read(ops)
}

// CheckFused compares Attend with the chain: the same bits and counts, since
// the host composes the one of the other.
func (c *Chain) CheckFused(t testing.TB) {
	t.Helper()
	l := c.layer
	results := func(fn func(ops *device.Ops)) ([]float64, []int64) {
		l.Clear(t, c)
		Check(t, l.Dev.Run(fn))
		return Floats(t, l.Dev, l.Out), l.Counts(t, c)
	}
	want, wantCounts := results(c.All)
	got, gotCounts := results(func(ops *device.Ops) { c.Attend(ops, l.Input()) })
	if !slices.Equal(got, want) || !slices.Equal(gotCounts, wantCounts) {
		t.Errorf("Attend gives %v and counts %v, the chain of its operations %v and %v", got, gotCounts, want, wantCounts)
	}
	l.CheckThen(t, c.Backend)
}
