package report

import (
	"math"
	"strconv"
)

// scale maps values to places on an axis.
type scale struct {
	low, high float64 // values
	from, to  float64 // places
}

func (s scale) at(v float64) float64 {
	return s.from + (v-s.low)/(s.high-s.low)*(s.to-s.from)
}

// tick is a marked value.
type tick struct {
	At   float64
	Text string
}

// around widens [low, high] to whole steps of 1, 2 or 5 times a power of ten,
// four to six of them, and returns that step.
func around(low, high float64) (from, to, step float64) {
	if !(high > low) {
		low, high = low-1, high+1
	}
	unit := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	step = unit
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * unit; (high-low)/step <= 6 {
			break
		}
	}
	return math.Floor(low/step) * step, math.Ceil(high/step) * step, step
}

// ticks are the multiples of step on s.
func (s scale) ticks(step float64) []tick {
	var out []tick
	for i := 0; ; i++ {
		v := s.low + float64(i)*step
		if v > s.high+step/1000 {
			return out
		}
		out = append(out, tick{round(s.at(v)), strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)})
	}
}

// round keeps a place to a hundredth of a pixel.
func round(v float64) float64 { return math.Round(v*100) / 100 }
