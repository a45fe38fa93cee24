package chart

import (
	"math"
	"slices"

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

// errors draws the band or the bars. A band of one point is a bar.
func (c *curve) errors(canvas draw.Canvas, run []Point, at func(x, y float64) vg.Point) {
	if c.series.Error == Band && len(run) > 1 {
		var above, below []vg.Point
		for _, p := range run {
			above = append(above, at(p.X, p.Upper))
			below = append(below, at(p.X, p.Lower))
		}
		slices.Reverse(below)
		canvas.FillPolygon(c.series.Style.band(), append(above, below...))
		return
	}
	if c.series.Error == NoError {
		return
	}
	for _, p := range run {
		c.bar(canvas, at(p.X, p.Lower), at(p.X, p.Y), at(p.X, p.Upper))
	}
}

// bar draws one error, unless the marker hides it.
func (c *curve) bar(canvas draw.Canvas, low, middle, high vg.Point) {
	reach := max(math.Abs(float64(high.Y-middle.Y)), math.Abs(float64(low.Y-middle.Y)))
	if reach < markerSize && c.series.Style.Marker != NoMarker {
		return
	}
	style := draw.LineStyle{Color: c.series.Style.Colour.paint().colour, Width: 1}
	canvas.StrokeLine2(style, low.X, low.Y, high.X, high.Y)
	for _, end := range []vg.Point{low, high} {
		canvas.StrokeLine2(style, end.X-capWidth, end.Y, end.X+capWidth, end.Y)
	}
}
