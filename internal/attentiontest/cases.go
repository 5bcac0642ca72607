package attentiontest

import (
	"math"
	"testing"

	"blitzen/device"
	"blitzen/internal/golden"

	"gonum.org/v1/gonum/floats"
)

// Case is a layer with the arrays that it was filled with.
type Case struct {
	*Layer
	Queries      [][]float64   // [heads][d]
	Keys, Values [][][]float64 // [kv heads][rows][d]
	Rows         int           // of the prompt
	Softmax      float64       // the scale
}

// Grouped is a case of 14 query heads on 2 key heads with 57 prompt rows, from
// testdata/santa in the folder given.
func Grouped(t testing.TB, dev device.Device, folder string) Case {
	t.Helper()
	f := golden.Open(t, folder+"gqa7.safetensors")
	c := Case{
		Queries: f.Rows("Q"), Keys: [][][]float64{f.Rows("K", 0), f.Rows("K", 1)}, Values: [][][]float64{f.Rows("V", 0), f.Rows("V", 1)},
		Rows: 57,
	}
	c.Softmax = 1 / math.Sqrt(float64(len(c.Queries[0])))
	c.Layer = Fill(t, dev, c.Queries, c.Keys, c.Values, c.Rows, c.Softmax)
	return c
}

// Single is one query head over 96 prompt rows and a suffix, from testdata/santa
// in the folder given, and the file, which has the sums that are estimated: Z and
// U of exact attention.
func Single(t testing.TB, dev device.Device, folder string) (*Layer, *golden.File) {
	t.Helper()
	f := golden.Open(t, folder+"unbiased.safetensors")
	return Fill(t, dev, [][]float64{f.Floats("q")}, [][][]float64{f.Rows("K")}, [][][]float64{f.Rows("V")}, 96, 0.25), f
}

// KeyHead is that of a query head.
func (c Case) KeyHead(head int) int { return head / (c.Heads / len(c.Keys)) }

// Prompt is the prompt's keys that a query head looks at, [rows][d].
func (c Case) Prompt(head int) [][]float64 { return c.Keys[c.KeyHead(head)][:c.Rows] }

// Reach is the largest scale·Σ|q·k| over keys: what a score cannot be above. In
// float32 a score, of d products, is off by less than (d+2)·2⁻²⁴ of it.
func Reach(q []float64, keys [][]float64, scale float64) float64 {
	reach := 0.0
	for _, k := range keys {
		sum := 0.0
		for i := range k {
			sum += scale * math.Abs(q[i]*k[i])
		}
		reach = max(reach, sum)
	}
	return reach
}

// Rounding is how far float32 may take attention of a query over rows from
// float64.
type Rounding struct {
	Score  float64 // of a score with its bias
	Mass   float64 // of the log mass
	Output float64 // of a number of the output
}

// NewRounding derives it as device/devicetest does for Attend: a score has the
// error e = 8u·(1 + scale·|q|·|k| + |bias|), u = 2⁻²⁴, and so have the logarithms of a
// weight and of the sum of weights, which take the output 2e of the largest value
// along; n terms add 8u·√n. bias is the largest of ln n or ln c.
func NewRounding(q []float64, keys, values [][]float64, scale, bias float64) Rounding {
	const step = 8 * 0x1p-24
	key, value := 0.0, 0.0
	for _, k := range keys {
		key = max(key, floats.Norm(k, 2))
	}
	for _, v := range values {
		value = max(value, floats.Norm(v, math.Inf(1)))
	}
	e, sum := step*(1+scale*floats.Norm(q, 2)*key+bias), step*math.Sqrt(float64(len(keys)))
	return Rounding{Score: e, Mass: e + sum, Output: value * (2*e + sum)}
}

// CheckScores has the groups scored on the device and compares the scores of
// every query head with want; off is how far one may be off.
func (c *Chain) CheckScores(t testing.TB, want func(head int) []float64, off func(head int, score float64) float64) {
	t.Helper()
	Check(t, c.layer.Dev.Run(c.Route))
	got, most := Floats(t, c.layer.Dev, c.Phi), c.Phi.Shape[2]
	for h := range c.layer.Heads {
		for g, score := range want(h) {
			if have := got[h*most+g]; !(math.Abs(have-score) <= off(h, score)) {
				t.Errorf("head %d, group %d scores %v, want %v within %v", h, g, have, score, off(h, score))
			}
		}
	}
}
