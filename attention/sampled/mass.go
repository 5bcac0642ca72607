package sampled

import (
	"blitzen/attention"
	"blitzen/device"
)

// massSteps is memory for what passes between the operations of attendByMass.
type massSteps struct {
	scores *device.Tensor // F32 [1, heads, prompt rows]: a·q·k
	bias   *device.Tensor // F32 [kv heads, prompt rows] of zeros
	device.TeamsSteps
}

func (b *Backend) newMassSteps() error {
	heads, most := b.cfg.Heads, 0
	for _, l := range b.layers {
		if l.logN != nil {
			most = max(most, l.logN.Shape[1])
		}
	}
	part := func() device.Partial {
		return device.Partial{Out: b.owned.New("part", device.F32, 1, heads, b.spec.ValueDim), LSE: b.owned.New("lse", device.F32, 1, heads)}
	}
	b.mass = massSteps{
		scores: b.owned.New("scores", device.F32, 1, heads, b.prompt),
		bias:   b.owned.New("bias", device.F32, b.spec.KVHeads, b.prompt),
		TeamsSteps: device.TeamsSteps{
			Phi:    b.owned.New("phi", device.F32, 1, heads, most),
			Teams:  b.owned.New("teams", device.I32, 1, heads, b.drawn),
			LogC:   b.owned.New("logc", device.F32, 1, heads, b.drawn),
			Prompt: part(), Suffix: part(),
		},
	}
	return b.owned.Err()
}

// attendByMass is AttendTeams with the exact mass of a group for its score.
func (b *Backend) attendByMass(ops *device.Ops, in attention.Input) {
	a, m := b.Args(in), b.mass
	steps := m.TeamsSteps
	steps.Phi = m.Phi.Slice(2, 0, a.Bias.Shape[1])
	if a.Teams != nil { // observed
		steps.Teams, steps.LogC = a.Teams, a.LogC
	}
	ops.Route(device.RouteArgs{Phi: m.scores, Q: a.Q, Reps: a.K.Slice(1, 0, b.prompt), Bias: m.bias, Scale: a.Scale, Read: a.Routed})
	ops.GroupMass(steps.Phi, m.scores, a.Offsets)
	for _, stage := range steps.Stages(a)[1:] { // all but scoring by keys
		stage.Issue(ops)
	}
}
