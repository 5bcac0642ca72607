package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of a plot: a column and a half of a paper.
const (
	plotWidth  = 12 * vg.Centimeter
	plotHeight = 8.5 * vg.Centimeter
	plotDPI    = 300
	legendLine = 3.8 * vg.Millimeter
)

// colours are told apart with every kind of colour vision. Source: Okabe and
// Ito, Color Universal Design (2008), without yellow and black.
var colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
}

var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PlusGlyph{},
}

// Formats are what WritePlot writes.
var Formats = []string{"svg", "png"}

// WritePlot draws a curve for a paper as one of Formats.
func WritePlot(w io.Writer, c Curve, format string) error {
	p, err := c.plot()
	if err != nil {
		return err
	}
	height := plotHeight + vg.Length(len(c.Series))*legendLine
	switch format {
	case "svg":
		canvas := vgsvg.New(plotWidth, height)
		c.drawOn(draw.New(canvas), p)
		_, err = canvas.WriteTo(w)
	case "png":
		canvas := vgimg.NewWith(vgimg.UseWH(plotWidth, height), vgimg.UseDPI(plotDPI))
		c.drawOn(draw.New(canvas), p)
		_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	default:
		err = fmt.Errorf("a plot cannot be %q: want one of %s", format, strings.Join(Formats, ", "))
	}
	return err
}

// drawOn draws the plot with its legend above it, where it hides nothing.
func (c Curve) drawOn(canvas draw.Canvas, p *plot.Plot) {
	canvas = draw.Crop(canvas, 2*vg.Millimeter, -4*vg.Millimeter, 2*vg.Millimeter, -2*vg.Millimeter)
	names := vg.Length(len(c.Series)) * legendLine
	legend := p.Legend
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(canvas, 0, 0, 0, -names))
	legend.Top, legend.Left = true, true
	legend.Draw(canvas)
}

func (c Curve) plot() (*plot.Plot, error) {
	p := plot.New()
	for _, style := range []*text.Style{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant, style.Font.Size = "Sans", 9
	}
	p.X.Label.Text, p.Y.Label.Text = "KV access, %", c.YName
	xHigh, yLow, yHigh := c.bounds()
	mark(&p.X, 0, xHigh)
	mark(&p.Y, yLow, yHigh)
	p.Legend.ThumbnailWidth, p.Legend.Padding = 7*vg.Millimeter, 0.6*vg.Millimeter
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{0xdd}
	p.Add(grid)
	drawn := 0
	for _, s := range c.Series {
		colour, shape := color.Color(color.Black), shapes[0]
		if !s.Reference {
			colour, shape = colours[drawn%len(colours)], shapes[1+drawn%(len(shapes)-1)]
			drawn++
		}
		if err := s.addTo(p, colour, shape); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// mark gives an axis the ends and ticks that the page has.
func mark(a *plot.Axis, low, high float64) {
	var step float64
	a.Min, a.Max, step = around(low, high)
	var ticks plot.ConstantTicks
	for _, t := range (scale{a.Min, a.Max, a.Min, a.Max}).ticks(step) {
		ticks = append(ticks, plot.Tick{Value: t.At, Label: t.Text})
	}
	a.Tick.Marker = ticks
}

// addTo draws a series' intervals, line and marks.
func (s Series) addTo(p *plot.Plot, colour color.Color, shape draw.GlyphDrawer) error {
	var at errorPoints
	for _, point := range s.sorted() {
		at.XYs = append(at.XYs, plotter.XY{X: point.X, Y: point.Y})
		low, high := point.Low, point.High
		if !point.hasInterval() {
			low, high = point.Y, point.Y
		}
		at.YErrors = append(at.YErrors, struct{ Low, High float64 }{math.Max(0, point.Y-low), math.Max(0, high-point.Y)})
	}
	bars, err := plotter.NewYErrorBars(at)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	line, marks, err := plotter.NewLinePoints(at)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	bars.Color, line.Color, marks.Color = colour, colour, colour
	line.Width = 0.8 * vg.Millimeter / 2
	marks.Shape, marks.Radius = shape, 2.2
	p.Add(bars, line, marks)
	p.Legend.Add(s.Name, line, marks)
	return nil
}

// errorPoints are points with their intervals.
type errorPoints struct {
	plotter.XYs
	plotter.YErrors
}
