package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"blitzen/device"
)

// halfError is the largest error of an output that the paper reports for its
// kernels with F16 inputs, over three draws, against a reference with the same
// rows and the same chances (SANTA++, Appendix E).
const halfError = 4.3e-6

func halfRules() []rule {
	return []rule{{"F16/AttendTeams within 4.3e-6 of float64 over what was drawn", halfTeams}}
}

// halfTeams has the paper's shape and budget, 28 query heads, 4 key heads of 128,
// 31 teams, on 8,192 rows and none after them: normal keys and values, logits
// with a deviation of 2, teams of 1 to 7 rows.
func halfTeams(d device.Device) error {
	const heads, keyHeads, width, rows, drawn, draws = 28, 4, 128, 8192, 31, 3
	rng := rand.New(rand.NewPCG(16, 1))
	normal := func(n int, deviation float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = deviation * rng.NormFloat64()
		}
		return rounded(device.F16, x)
	}
	q, keys, values := normal(heads*width, 2), normal(keyHeads*rows*width, 1), normal(keyHeads*rows*width, 1)
	starts := []float64{0}
	var logN []float64
	for last := 0; last < rows; {
		n := min(1+rng.IntN(7), rows-last)
		last += n
		starts, logN = append(starts, float64(last)), append(logN, math.Log(float64(n)))
	}
	teams := len(logN)
	var reps, bias, offsets []float64
	for kv := range keyHeads {
		bias, offsets = append(bias, logN...), append(offsets, starts...)
		for g := range teams {
			at := (kv*rows + int(starts[g])) * width
			reps = append(reps, keys[at:at+width]...)
		}
	}
	k := &desk{dev: d}
	a := device.TeamsArgs{
		Out: k.new("out", device.F32, nil, 1, heads, width), Q: k.new("q", device.F16, q, 1, heads, width),
		K: k.new("k", device.F16, keys, keyHeads, rows, width), V: k.new("v", device.F16, values, keyHeads, rows, width),
		Reps: k.new("reps", device.F16, reps, keyHeads, teams, width), Bias: k.new("bias", device.F32, bias, keyHeads, teams),
		Offsets: k.new("offsets", device.I32, offsets, keyHeads, teams+1), From: k.new("from", device.I32, []float64{rows}, 1),
		Scale: float32(1 / math.Sqrt(width)), Drawn: drawn,
		Draw:  device.Draw{Seed: k.new("seed", device.U32, nil, 2), Layer: 14, Pos: k.new("pos", device.I32, []float64{rows - 1}, 1)},
		Teams: k.new("teams", device.I32, nil, 1, heads, drawn), LogC: k.new("logC", device.F32, nil, 1, heads, drawn),
	}
	worst := 0.0
	for seed := range draws {
		k.note(device.WriteSeed(d, a.Draw.Seed, uint64(seed)))
		k.note(d.Run(func(o *device.Ops) { o.AttendTeams(a) }))
		got, chosen, logC := k.read(a.Out), k.read(a.Teams), k.read(a.LogC)
		for h := range heads {
			var sum softSum
			kv := h / (heads / keyHeads)
			for i := h * drawn; i < (h+1)*drawn; i++ {
				g := int(chosen[i])
				if g < 0 || g >= teams {
					k.note(fmt.Errorf("head %d drew team %d of %d", h, g, teams))
					return k.done()
				}
				for row := int(starts[g]); row < int(starts[g+1]); row++ {
					at := (kv*rows + row) * width
					sum.add(float64(a.Scale)*dot(q[h*width:][:width], keys[at:][:width])-logC[i], values[at:][:width])
				}
			}
			for j, want := range sum.mean(width) {
				worst = max(worst, math.Abs(got[h*width+j]-want))
			}
		}
	}
	if !(worst <= halfError) {
		k.note(fmt.Errorf("an output is off by %.3g over %d draws", worst, draws))
	}
	return k.done()
}
