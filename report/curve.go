package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Curve is accuracy against access.
type Curve struct {
	Title  string // the task
	YName  string // what the score is: "exact answers, %"
	Note   string // below the title, on the page; may be empty
	Series []Series
}

// Series is one method with its budgets.
type Series struct {
	Name      string
	Reference bool // what others are measured by: a dashed line is drawn at its level
	Points    []Point
}

// Point is one setting, all in percent. Low and High bound the 95 % interval of
// Y; NaN where it is not known.
type Point struct {
	Label        string // "santapp (kmeans, S 256)"
	Short        string // beside the point: "256"; may be empty
	X, Y         float64
	Low, High    float64
	Prompts      int
	BytesPercent float64
	OfReference  float64 // of the reference's score, in percent; NaN where there is none
}

// sorted are the points from left to right.
func (s Series) sorted() []Point {
	return slices.SortedFunc(slices.Values(s.Points), func(a, b Point) int { return cmp.Compare(a.X, b.X) })
}

// bounds are the values that the axes must show.
func (c Curve) bounds() (xHigh, yLow, yHigh float64) {
	xHigh, yLow, yHigh = 100, 100, 0
	for _, s := range c.Series {
		for _, p := range s.Points {
			xHigh = max(xHigh, p.X)
			for _, y := range []float64{p.Y, p.Low, p.High} {
				if !math.IsNaN(y) {
					yLow, yHigh = min(yLow, y), max(yHigh, y)
				}
			}
		}
	}
	return xHigh, min(yLow, yHigh-leastSpan), yHigh
}

// leastSpan is the least that the axis of scores spans, in percent: differences
// below it are not worth a picture.
const leastSpan = 5

// Place of a chart's plot in its picture, in pixels.
const (
	curveWidth, curveHeight = 760, 380
	plotLeft, plotRight     = 56, 744
	plotTop, plotBottom     = 34, 334
)

// curveView is a curve's geometry.
type curveView struct {
	ID             string
	Title, YName   string
	Note           string
	Width, Height  float64
	Left, Right    float64
	Top, Bottom    float64
	XTicks, YTicks []tick
	Series         []seriesView
	Table          Table
}

type seriesView struct {
	Name   string
	Class  string // colour
	Marker string // a path around 0, 0
	Line   string // points of the polyline
	Level  float64
	Dashed bool // at Level
	Points []pointView
}

type pointView struct {
	X, Y, Low, High float64
	Interval        bool
	Text            string
	Short           string
	Label           label // where Short stands, if there is room
}

// markers tell series apart without colour: circle, square, triangle, diamond,
// cross, triangle upside down, plus, bar.
var markers = []string{
	"M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z", "M-4.5 -4.5h9v9h-9z", "M0 -6L5.5 4.5h-11z", "M0 -6.5L6 0L0 6.5L-6 0z",
	"M-5 -3L-3 -5L0 -2L3 -5L5 -3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0z", "M0 6L5.5 -4.5h-11z",
	"M-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "M-6 -2.5h12v5h-12z",
}

func (c Curve) view(i int) curveView {
	xHigh, yLow, yHigh := c.bounds()
	_, xTo, xStep := around(0, xHigh)
	yFrom, yTo, yStep := around(yLow, yHigh)
	x := scale{0, xTo, plotLeft, plotRight}
	y := scale{yFrom, yTo, plotBottom, plotTop}
	v := curveView{
		ID: fmt.Sprintf("curve-%d", i), Title: c.Title, YName: c.YName, Note: c.Note, Width: curveWidth, Height: curveHeight,
		Left: plotLeft, Right: plotRight, Top: plotTop, Bottom: plotBottom, XTicks: x.ticks(xStep), YTicks: y.ticks(yStep),
		Table: Table{Head: []string{"attention", "prompts", "score %", "95 % interval", "of dense %", "KV access %", "bytes %"}},
	}
	drawn := 0
	for _, s := range c.Series {
		one := seriesView{Name: s.Name, Class: "reference", Marker: markers[0]}
		if !s.Reference {
			one.Class, one.Marker = style(drawn)
			drawn++
		}
		for _, p := range s.sorted() {
			at := pointView{X: round(x.at(p.X)), Y: round(y.at(p.Y)), Text: p.text(), Short: p.Short, Interval: p.hasInterval()}
			if at.Interval {
				at.Low, at.High = round(y.at(p.Low)), round(y.at(p.High))
			}
			one.Line += fmt.Sprintf("%g,%g ", at.X, at.Y)
			one.Points = append(one.Points, at)
			one.Level, one.Dashed = at.Y, s.Reference
			v.Table.Rows = append(v.Table.Rows, []string{p.Label, fmt.Sprint(p.Prompts), fmt.Sprintf("%.1f", p.Y), p.interval(), decimal(p.OfReference), decimal(p.X), decimal(p.BytesPercent)})
		}
		v.Series = append(v.Series, one)
	}
	v.label()
	return v
}

// seriesColours is how many the style sheet has.
const seriesColours = 8

// style is the colour and the marker of the n-th series; more than there are
// colours get the colours again, with other markers. The first marker is the
// reference's.
func style(n int) (class, marker string) {
	return fmt.Sprintf("s%d", n%seriesColours), markers[1+n%(len(markers)-1)]
}

func (p Point) hasInterval() bool { return !math.IsNaN(p.Low) && !math.IsNaN(p.High) }

// decimal is a figure in percent.
func decimal(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return fmt.Sprintf("%.1f", v)
}

func (p Point) interval() string {
	if !p.hasInterval() {
		return "–"
	}
	return fmt.Sprintf("%.1f to %.1f", p.Low, p.High)
}

// text is what a point says of itself.
func (p Point) text() string {
	interval := "no interval of 1 prompt"
	if p.Prompts != 1 {
		interval = fmt.Sprintf("95 %% interval %s, %d prompts", p.interval(), p.Prompts)
	}
	return fmt.Sprintf("%s: %.1f %% (%s) at %.1f %% KV access", p.Label, p.Y, interval, p.X)
}
