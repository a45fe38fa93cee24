package chart

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve draws a series; it is a plot.Plotter.
type curve struct {
	series Series
	x, y   extent
}

// Plot draws what is known of the errors first, then the line, then the markers.
func (c *curve) Plot(canvas draw.Canvas, p *plot.Plot) {
	trX, trY := p.Transforms(&canvas)
	at := func(x, y float64) vg.Point {
		return vg.Point{X: trX(x), Y: trY(min(max(y, c.y.min), c.y.max))}
	}
	for _, run := range known(c.series.Points) {
		c.errors(canvas, run, at)
		line := make([]vg.Point, len(run))
		for i, point := range run {
			line[i] = at(point.X, point.Y)
		}
		if len(line) > 1 {
			canvas.StrokeLines(c.series.Style.line(), line)
		}
		for i, point := range run {
			if c.series.Style.Marker != NoMarker || point.Uncertain || len(run) == 1 {
				c.series.Style.glyph(&canvas, line[i], point.Uncertain)
			}
		}
	}
}

// known cuts points where values are not known.
func known(points []Point) [][]Point {
	var runs [][]Point
	begin := 0
	for i := 0; i <= len(points); i++ {
		if i < len(points) && !math.IsNaN(points[i].Y) {
			continue
		}
		if i > begin {
			runs = append(runs, points[begin:i])
		}
		begin = i + 1
	}
	return runs
}

const capWidth = 3 // to each side of an error bar

// errors draws the band or the bars.
func (c *curve) errors(canvas draw.Canvas, run []Point, at func(x, y float64) vg.Point) {
	bars := draw.LineStyle{Color: c.series.Style.Colour.paint().colour, Width: 1}
	var above, outline []vg.Point
	for i, p := range run {
		low, high := at(p.X, p.Lower), at(p.X, p.Upper)
		switch {
		case c.series.Error == Band && len(run) > 1:
			above = append(above, high)
			outline = append(outline, at(run[len(run)-1-i].X, run[len(run)-1-i].Lower))
		case c.series.Error != NoError: // a band of one point is a bar
			canvas.StrokeLine2(bars, low.X, low.Y, high.X, high.Y)
			canvas.StrokeLine2(bars, low.X-capWidth, low.Y, low.X+capWidth, low.Y)
			canvas.StrokeLine2(bars, high.X-capWidth, high.Y, high.X+capWidth, high.Y)
		}
	}
	if len(above) > 0 {
		canvas.FillPolygon(c.series.Style.band(), append(above, outline...))
	}
}
