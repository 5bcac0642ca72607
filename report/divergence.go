package report

import (
	"fmt"
	"math"
)

// Divergence is how far a method's distribution is from the base's at each
// token of the base's answer.
type Divergence struct {
	Base, Method string
	Tokens       []string
	Seeds        []uint64
	KLD          [][]float64 // [seeds][tokens], nats
	NLLBase, NLL []float64   // −ln of the token's probability; of the method the mean over seeds
	Control      []float64   // exact attention against itself; nil without
	Figures      Table       // sums over the answer
	Note         string      // what the control is
}

// stats are the least, mean and largest divergence over seeds at a token.
func (d *Divergence) stats(token int) (low, mean, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, seed := range d.KLD {
		v := seed[token]
		low, high = min(low, v), max(high, v)
		mean += v / float64(len(d.KLD))
	}
	return low, mean, high
}

// Place of the plot of divergences, in pixels.
const (
	klHeight, klTop, klBottom = 230, 10, 196
)

// klView is the geometry of the chart, and the tokens as text.
type klView struct {
	Width, Height            float64
	Left, Right, Top, Bottom float64
	YTicks                   []tick
	Columns                  []column
	Control                  string // points of a polyline; "" for none
	Several                  bool   // seeds
}

// column is one token.
type column struct {
	Index          int
	X, Left, Width float64
	Low, Mean, Hi  float64
	Token          string
	Level          int // 0 to 5, by the mean
}

// leastShown is where the axis ends at the latest: float64 knows no smaller
// divergence of distributions.
const leastShown = 1e-16

func (d *Divergence) view() *klView {
	low, high := d.decades()
	y := scale{low, high, klBottom, klTop}
	at := func(v float64) float64 { return round(y.at(math.Log10(max(v, math.Pow(10, low))))) }
	v := &klView{Width: curveWidth, Height: klHeight, Left: plotLeft, Right: plotRight, Top: klTop, Bottom: klBottom, Several: len(d.KLD) > 1}
	step := math.Ceil((high - low) / 6)
	for e := low; e <= high; e += step {
		v.YTicks = append(v.YTicks, tick{round(y.at(e)), exponent(e)})
	}
	width := float64(plotRight-plotLeft) / float64(max(len(d.Tokens), 1))
	for i, token := range d.Tokens {
		l, m, h := d.stats(i)
		left := plotLeft + float64(i)*width
		v.Columns = append(v.Columns, column{
			Index: i, X: round(left + width/2), Left: round(left), Width: round(width), Low: at(l), Mean: at(m), Hi: at(h), Token: token, Level: level(m),
		})
		if d.Control != nil {
			v.Control += fmt.Sprintf("%g,%g ", round(left+width/2), at(d.Control[i]))
		}
	}
	return v
}

// decades are the whole powers of ten around all that is not 0.
func (d *Divergence) decades() (low, high float64) {
	least, most := 1.0, leastShown
	for _, list := range append([][]float64{d.Control}, d.KLD...) {
		for _, v := range list {
			if v > leastShown && !math.IsInf(v, 1) {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	low, high = math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	if high <= low {
		low = high - 1
	}
	return low, high
}

// exponent is ten to a power as text.
func exponent(e float64) string {
	if e >= -3 && e <= 3 {
		return fmt.Sprintf("%g", math.Pow(10, e))
	}
	return fmt.Sprintf("1e%+.0f", e)
}

// level bins a divergence for the shade of a token: below 1e-5, then by decades.
func level(kld float64) int {
	if kld < 1e-5 {
		return 0
	}
	return min(int(math.Floor(math.Log10(kld)))+6, 5)
}

// tokenData is a token for the script.
type tokenData struct {
	Text string `json:"text"`
	Says string `json:"says"`
}

func (d *Divergence) data() []tokenData {
	var out []tokenData
	for i, token := range d.Tokens {
		low, mean, high := d.stats(i)
		says := fmt.Sprintf("KLD %.3g", mean)
		if len(d.KLD) > 1 {
			says = fmt.Sprintf("KLD %.3g on average over %d seeds, %.3g to %.3g", mean, len(d.KLD), low, high)
		}
		says += fmt.Sprintf("; probability %.4g with %s, %.4g with %s", math.Exp(-d.NLLBase[i]), d.Base, math.Exp(-d.NLL[i]), d.Method)
		if d.Control != nil {
			says += fmt.Sprintf("; noise floor %.2g", d.Control[i])
		}
		out = append(out, tokenData{token, says})
	}
	return out
}
