package chart

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	sampleWidth = 34  // of the line beside a name
	legendGap   = 16  // between drawing and legend
	maxName     = 200 // of a name's width
	legendRow   = 20
)

// legend names the series, beside the drawing.
type legend struct {
	series []Series
	names  []string
	style  text.Style
}

func newLegend(series []Series) *legend {
	l := &legend{series: series, style: writing(face(12, false), ink())}
	l.style.YAlign = text.YCenter
	for _, s := range series {
		name := s.Name
		if len(known(s.Points)) == 0 {
			name += " (no data)"
		}
		l.names = append(l.names, fit(l.style, name, maxName))
	}
	return l
}

// width returns the legend's width, 0 if no series has a name.
func (l *legend) width() vg.Length {
	widest := vg.Length(0)
	for i, name := range l.names {
		if l.series[i].Name != "" {
			widest = max(widest, l.style.Width(name))
		}
	}
	if widest == 0 {
		return 0
	}
	return legendGap + sampleWidth + 6 + widest
}

// draw draws the legend from the top. Many series get lower rows.
func (l *legend) draw(c draw.Canvas) {
	if l.width() == 0 {
		return
	}
	row := min(legendRow, (c.Max.Y-c.Min.Y)/vg.Length(len(l.series)))
	left := c.Min.X + legendGap
	for i, s := range l.series {
		y := c.Max.Y - row*(vg.Length(i)+0.5)
		l.sample(c, s, left, y)
		c.FillText(l.style, vg.Point{X: left + sampleWidth + 6, Y: y}, l.names[i])
	}
}

// sample draws a piece of the line.
func (l *legend) sample(c draw.Canvas, s Series, left, y vg.Length) {
	if s.Error == Band {
		c.FillPolygon(s.Style.band(), []vg.Point{{X: left, Y: y - 5}, {X: left + sampleWidth, Y: y - 5}, {X: left + sampleWidth, Y: y + 5}, {X: left, Y: y + 5}})
	}
	c.StrokeLine2(s.Style.line(), left, y, left+sampleWidth, y)
	if s.Style.Marker != NoMarker {
		s.Style.glyph(&c, vg.Point{X: left + sampleWidth/2, Y: y}, false)
	}
}

const (
	markRow = 16  // height of a row of labels
	markGap = 6   // between the drawing and a label to its right
	maxMark = 140 // of such a label's width
)

// marks draws references. It is a [plot.Plotter].
type marks struct {
	references []Reference
	plot       *plot.Plot
	style      text.Style
}

func newMarks(references []Reference, p *plot.Plot) *marks {
	return &marks{references: references, plot: p, style: writing(face(11.5, false), muted())}
}

// Plot draws the lines.
func (m *marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	line := draw.LineStyle{Color: muted().colour, Width: 1.2, Dashes: []vg.Length{4, 3}}
	for _, r := range m.references {
		if r.Vertical {
			c.StrokeLine2(line, x(r.Value), c.Min.Y, x(r.Value), c.Max.Y)
		} else {
			c.StrokeLine2(line, c.Min.X, y(r.Value), c.Max.X, y(r.Value))
		}
	}
}

// placed is the label of a vertical line, above the drawing.
type placed struct {
	text string
	left vg.Length
	row  int
}

// place arranges the labels of vertical lines in rows so that they do not overlap.
func (m *marks) place(c draw.Canvas) (labels []placed, rows int) {
	vertical := slices.DeleteFunc(slices.Clone(m.references), func(r Reference) bool { return !r.Vertical || r.Label == "" })
	x, _ := m.plot.Transforms(&c)
	slices.SortStableFunc(vertical, func(a, b Reference) int { return cmp.Compare(x(a.Value), x(b.Value)) })
	var ends []vg.Length // of each row
	for _, r := range vertical {
		name := fit(m.style, r.Label, c.Max.X-c.Min.X)
		width := m.style.Width(name)
		left := max(c.Min.X, min(x(r.Value)-width/2, c.Max.X-width))
		row := slices.IndexFunc(ends, func(end vg.Length) bool { return left > end+8 })
		if row < 0 {
			row, ends = len(ends), append(ends, 0)
		}
		ends[row] = left + width
		labels = append(labels, placed{text: name, left: left, row: row})
	}
	return labels, len(ends)
}

// height returns the height of the labels above the drawing.
func (m *marks) height(c draw.Canvas) vg.Length {
	_, rows := m.place(c)
	return vg.Length(rows) * markRow
}

// horizontal returns the horizontal lines with a label.
func (m *marks) horizontal() []Reference {
	return slices.DeleteFunc(slices.Clone(m.references), func(r Reference) bool { return r.Vertical || r.Label == "" })
}

// width returns the width of the labels to the right of the drawing.
func (m *marks) width() vg.Length {
	widest := vg.Length(0)
	for _, r := range m.horizontal() {
		widest = max(widest, m.style.Width(fit(m.style, r.Label, maxMark))+markGap)
	}
	return widest
}

// label draws the labels: those of vertical lines above the drawing, those of horizontal lines to
// the right of it, moved down where lines are close.
func (m *marks) label(c draw.Canvas) {
	labels, _ := m.place(c)
	for _, l := range labels {
		c.FillText(m.style, vg.Point{X: l.left, Y: c.Max.Y + 6 + vg.Length(l.row)*markRow}, l.text)
	}
	_, y := m.plot.Transforms(&c)
	horizontal := m.horizontal()
	slices.SortStableFunc(horizontal, func(a, b Reference) int { return cmp.Compare(y(b.Value), y(a.Value)) })
	style, free := m.style, c.Max.Y+markRow
	style.YAlign = text.YCenter
	for _, r := range horizontal {
		at := min(y(r.Value), free)
		c.FillText(style, vg.Point{X: c.Max.X + markGap, Y: at}, fit(style, r.Label, maxMark))
		free = at - markRow + 2
	}
}
