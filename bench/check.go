package bench

import (
	"math"

	"blitzen/attention/sampled"
	"blitzen/device"
)

// Check draws so many times on one layer and returns how far an output in
// float32 is off at most from float64 over the same rows and with the same
// chances of a draw.
//
// Source: SANTA++, Appendix E, sampled-reference validation.
func (o *Operator) Check(drawn, draws int) (worst float64, err error) {
	a := o.args(0, drawn)
	owned := device.Owner{Dev: o.dev}
	defer owned.Free()
	a.Out = owned.New("bench.check.out", device.F32, a.Out.Shape...)
	a.Teams = owned.New("bench.check.teams", device.I32, 1, o.Heads, drawn)
	a.LogC = owned.New("bench.check.logc", device.F32, 1, o.Heads, drawn)
	a.Draw.Seed = owned.New("bench.check.seed", device.U32, 2)
	a.Routed, a.Rows, a.Suffix = nil, nil, nil
	if err := owned.Err(); err != nil {
		return 0, err
	}
	j, err := newJudge(o, a)
	for seed := 0; seed < draws && err == nil; seed++ {
		if err = device.WriteSeed(o.dev, a.Draw.Seed, uint64(seed)); err == nil {
			err = o.dev.Run(func(ops *device.Ops) { ops.AttendTeams(a) })
		}
		if err == nil {
			err = j.compare(&worst)
		}
	}
	return worst, err
}

// judge repeats sums in float64. It has the layer's numbers on the host.
type judge struct {
	o       *Operator
	args    device.TeamsArgs
	q, k, v []float32
	offsets []int32
}

func newJudge(o *Operator, a device.TeamsArgs) (*judge, error) {
	j := &judge{o: o, args: a}
	var err error
	for _, x := range []struct {
		into *[]float32
		from *device.Tensor
	}{{&j.q, a.Q}, {&j.k, a.K}, {&j.v, a.V}} {
		if *x.into, err = device.ReadFloats(o.dev, x.from); err != nil {
			return nil, err
		}
	}
	j.offsets, err = device.Read[int32](o.dev, a.Offsets)
	return j, err
}

// compare raises worst to the largest error of what was drawn last.
func (j *judge) compare(worst *float64) error {
	out, err := device.Read[float32](j.o.dev, j.args.Out)
	if err != nil {
		return err
	}
	teams, err := device.Read[int32](j.o.dev, j.args.Teams)
	if err != nil {
		return err
	}
	logC, err := device.Read[float32](j.o.dev, j.args.LogC)
	if err != nil {
		return err
	}
	width, drawn := j.o.ValueDim, j.args.Drawn
	for h := range j.o.Heads {
		want := j.head(h, teams[h*drawn:][:drawn], logC[h*drawn:][:drawn])
		for i, x := range want {
			*worst = max(*worst, math.Abs(float64(out[h*width+i])-x))
		}
	}
	return nil
}

// head is the output of a query head that drew teams.
func (j *judge) head(h int, teams []int32, logC []float32) []float64 {
	o, kv := j.o, h/(j.o.Heads/j.o.KeyHeads)
	offsets := j.offsets[kv*j.args.Offsets.Shape[1]:]
	var keys, values [][]float64
	var bias []float64
	add := func(first, end int, b float64) {
		for row := first; row < end; row++ {
			at := kv*(o.Rows+o.Suffix) + row
			keys, values, bias = append(keys, doubles(j.k, at, o.KeyDim)), append(values, doubles(j.v, at, o.ValueDim)), append(bias, b)
		}
	}
	for i, g := range teams {
		if g >= 0 {
			add(int(offsets[g]), int(offsets[g+1]), float64(logC[i]))
		}
	}
	add(o.Rows, o.Rows+o.Suffix, 0)
	return sampled.Attend(doubles(j.q, h, o.KeyDim), keys, values, bias, float64(j.args.Scale), o.ValueDim).Out
}

// doubles is the i-th row of n numbers.
func doubles(x []float32, i, n int) []float64 {
	row := make([]float64, n)
	for k, v := range x[i*n:][:n] {
		row[k] = float64(v)
	}
	return row
}
