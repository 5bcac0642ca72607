package report

import (
	"bytes"
	"image/png"
	"math"
	"strings"
	"testing"
)

// table is two methods and exact attention, one point without an interval.
func table() Curve {
	nan := math.NaN()
	return Curve{Title: "access-codes, 4096 tokens", YName: "score, %", Series: []Series{
		{Name: "dense", Reference: true, Points: []Point{{Label: "dense", X: 100, Y: 97.9, Low: 93.8, High: 100, Prompts: 48, BytesPercent: 100}}},
		{Name: "santapp (kmeans)", Points: []Point{
			{Label: "santapp (kmeans, S 512)", Short: "512", X: 69.6, Y: 62.5, Low: 47.9, High: 75, Prompts: 48, BytesPercent: 69.6},
			{Label: "santapp (kmeans, S 128)", Short: "128", X: 43.4, Y: 20.8, Low: 10.4, High: 33.3, Prompts: 48, BytesPercent: 43.4},
		}},
		{Name: `<i>"uniform" & co</i>`, Points: []Point{{Label: "uniform", X: 101.9, Y: 4.2, Low: nan, High: nan, Prompts: 1, BytesPercent: 50}}},
	}}
}

func TestWritePlot(t *testing.T) {
	var svg, again, image bytes.Buffer
	for _, c := range []struct {
		to     *bytes.Buffer
		format string
	}{{&svg, "svg"}, {&again, "svg"}, {&image, "png"}} {
		if err := WritePlot(c.to, table(), c.format); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"<svg", "KV access", "santapp (kmeans)", "&lt;i&gt;"} {
		if !strings.Contains(svg.String(), text) {
			t.Errorf("no %q in the plot", text)
		}
	}
	if !bytes.Equal(svg.Bytes(), again.Bytes()) {
		t.Error("the same curve gives two plots")
	}
	picture, err := png.Decode(&image)
	if err != nil || picture.Bounds().Dx() < 1000 {
		t.Errorf("%v: %v", err, picture.Bounds())
	}
	if err := WritePlot(&svg, table(), "bmp"); err == nil {
		t.Error("a bmp")
	}
}

func TestAround(t *testing.T) {
	for _, c := range []struct{ low, high, from, to, step float64 }{
		{0, 100, 0, 100, 20}, {0, 101.9, 0, 120, 20}, {93.8, 100, 92, 100, 2}, {4.2, 97.9, 0, 100, 20}, {100, 100, 99, 101, 0.5}, {0, 1, 0, 1, 0.2},
	} {
		if from, to, step := around(c.low, c.high); from != c.from || to != c.to || step != c.step {
			t.Errorf("%v to %v: %v to %v by %v", c.low, c.high, from, to, step)
		}
	}
}
