package chart

import (
	"math"
	"slices"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"pinfold.dev/pinfold/report"
)

const (
	margin    = 14 // around everything
	axisLabel = 22 // for the label of an axis
)

// draw draws the chart, which must be valid.
func (c *Chart) draw(canvas draw.Canvas) {
	canvas = draw.Crop(canvas, margin, -margin, margin-4, -margin)
	canvas.Max.Y -= c.drawTitle(canvas)

	x, y := c.X.extentOf(c.along(true)), c.Y.extentOf(c.along(false))
	p := plot.New()
	p.BackgroundColor = nil
	c.X.dress(&p.X, x)
	c.Y.dress(&p.Y, y)
	legend, marks := newLegend(c.Series), newMarks(c.References, p)
	p.Add(shades(c.Shades), gridLines(), marks)
	for _, s := range c.Series {
		p.Add(&curve{series: s, x: x, y: y})
	}

	area := draw.Crop(canvas, axisLabel, -legend.width()-marks.width(), axisLabel, 0)
	area.Max.Y -= marks.height(p.DataCanvas(area))
	p.Draw(area)
	inside := p.DataCanvas(area)
	marks.label(inside)
	c.label(canvas, inside)
	legend.draw(draw.Canvas{Canvas: canvas.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: inside.Max.X + marks.width(), Y: inside.Min.Y}, Max: vg.Point{X: canvas.Max.X, Y: inside.Max.Y},
	}})
}

// label draws the labels of the axes.
func (c *Chart) label(canvas, inside draw.Canvas) {
	style := writing(face(12.5, false), ink())
	style.XAlign, style.YAlign = text.XCenter, text.YBottom
	canvas.FillText(style, vg.Point{X: inside.Center().X, Y: canvas.Min.Y + 2}, fit(style, c.X.text(), Width-2*margin))
	style.Rotation, style.YAlign = math.Pi/2, text.YTop
	canvas.FillText(style, vg.Point{X: canvas.Min.X, Y: inside.Center().Y}, fit(style, c.Y.text(), canvas.Max.Y-canvas.Min.Y))
}

// drawTitle draws title and subtitle and returns their height.
func (c *Chart) drawTitle(canvas draw.Canvas) vg.Length {
	y := canvas.Max.Y
	for _, l := range []struct {
		text  string
		style text.Style
	}{
		{c.Title, writing(face(16, true), ink())},
		{c.Subtitle, writing(face(12, false), muted())},
	} {
		if l.text == "" {
			continue
		}
		l.style.YAlign = text.YTop
		canvas.FillText(l.style, vg.Point{X: canvas.Min.X, Y: y}, fit(l.style, l.text, canvas.Max.X-canvas.Min.X))
		y -= l.style.Font.Size * 1.4
	}
	if y < canvas.Max.Y {
		y -= 6
	}
	return canvas.Max.Y - y
}

// along returns all values that the x axis or the y axis must show.
func (c *Chart) along(x bool) []float64 {
	all := slices.Concat(c.Y.Shown, c.Y.Marks)
	if x {
		all = slices.Concat(c.X.Shown, c.X.Marks)
	}
	for _, s := range c.Series {
		for _, p := range s.Points {
			switch {
			case math.IsNaN(p.Y):
			case x:
				all = append(all, p.X)
			default:
				all = append(all, p.Y)
				if s.Error != NoError {
					all = append(all, c.Y.drawable(p.Lower, p.Y), c.Y.drawable(p.Upper, p.Y))
				}
			}
		}
	}
	for _, r := range c.References {
		if r.Vertical == x {
			all = append(all, r.Value)
		}
	}
	for _, s := range c.Shades {
		if x {
			all = append(all, s.From, s.To)
		}
	}
	return all
}

// drawable returns the bound of an error, or the value itself if the axis cannot show the bound.
func (a *Axis) drawable(bound, value float64) float64 {
	if a.checkValue(bound) != nil {
		return value
	}
	return bound
}

// gridLines returns lines at the labelled marks.
func gridLines() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical = draw.LineStyle{Color: grid().colour, Width: 1}
	g.Horizontal = g.Vertical
	return g
}

// shades is a [plot.Plotter].
type shades []Shade

// Plot draws the shades.
func (s shades) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, one := range s {
		from, to := x(one.From), x(one.To)
		c.FillPolygon(Style{Colour: one.Colour}.band(), []vg.Point{{X: from, Y: c.Min.Y}, {X: to, Y: c.Min.Y}, {X: to, Y: c.Max.Y}, {X: from, Y: c.Max.Y}})
	}
}

func face(size vg.Length, bold bool) font.Font {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return f
}

func writing(f font.Font, p paint) text.Style {
	return text.Style{Color: p.colour, Font: f, Handler: plot.DefaultTextHandler}
}

// fit shortens a text to a width.
func fit(style text.Style, s string, width vg.Length) string {
	runes := []rune(report.Printable(s))
	short := string(runes)
	for n := len(runes) - 1; n >= 0 && style.Width(short) > width; n-- {
		short = string(runes[:n]) + "…"
	}
	return short
}

// curve draws a series. It is a [plot.Plotter].
type curve struct {
	series Series
	x, y   extent
}

// Plot draws the errors, then the line, then the markers, for each run of known values.
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

// known divides points into runs of known values.
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

const capWidth = 3 // on each side of an error bar

// errors draws the band or the bars. The band of a single point is a bar.
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

// bar draws an error bar, unless the marker hides it.
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
