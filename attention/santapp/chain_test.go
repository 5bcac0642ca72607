package santapp

import (
	"slices"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/device"
)

// chain is Attend by the operations that AttendTeams fuses; the tests look at
// what passes between them.
type chain struct {
	*sampled.Backend
	device.TeamsSteps
	a device.TeamsArgs
}

func newChain(t testing.TB, l *layerCase, b *sampled.Backend) *chain {
	t.Helper()
	a := b.Args(l.input())
	s, err := device.NewTeamsSteps(a, l.dev.New)
	check(t, err)
	return &chain{b, s, a}
}

func (c *chain) route(ops *device.Ops) {
	ops.Route(device.RouteArgs{Phi: c.Phi, Q: c.a.Q, Reps: c.a.Reps, Bias: c.a.Bias, Scale: c.a.Scale, Read: c.a.Routed})
}

func (c *chain) draw(ops *device.Ops) {
	ops.SampleTopK(device.TopKArgs{Teams: c.Teams, LogC: c.LogC, Phi: c.Phi, Draw: c.a.Draw})
}

func (c *chain) read(ops *device.Ops) {
	a := c.a
	ops.AttendSelected(device.SelectedArgs{Out: c.Prompt, Q: a.Q, K: a.K, V: a.V, Offsets: a.Offsets, Teams: c.Teams, LogC: c.LogC, Scale: a.Scale, Read: a.Rows})
	ops.Attend(device.AttendArgs{Out: c.Suffix, Q: a.Q, K: a.K, V: a.V, From: a.From, Pos: a.Draw.Pos, Scale: a.Scale, Read: a.Suffix})
	ops.Merge(a.Out, c.Prompt, c.Suffix)
}

func (c *chain) attend(ops *device.Ops) {
	c.route(ops)
	c.draw(ops)
	c.read(ops)
}

// checkFused compares Attend with the chain: the same bits and counts, since
// the host composes the one of the other.
func checkFused(t *testing.T, l *layerCase, c *chain) {
	t.Helper()
	results := func(fn func(ops *device.Ops)) ([]float32, []int64) {
		c.clear(t, l.dev)
		check(t, l.dev.Run(fn))
		out, err := device.Read[float32](l.dev, l.out)
		check(t, err)
		counts, err := device.Read[int64](l.dev, c.Counters())
		check(t, err)
		return out, counts
	}
	want, wantCounts := results(c.attend)
	got, gotCounts := results(func(ops *device.Ops) { c.Attend(ops, l.input()) })
	if !slices.Equal(got, want) || !slices.Equal(gotCounts, wantCounts) {
		t.Errorf("Attend gives %v and counts %v, the chain of its operations %v and %v", got, gotCounts, want, wantCounts)
	}
}

// clear sets the counters to 0.
func (c *chain) clear(t testing.TB, dev device.Device) {
	t.Helper()
	check(t, device.Write(dev, c.Counters(), make([]int64, c.Counters().Len())))
}
