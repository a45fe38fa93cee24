package chart

import (
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	sampleWidth = 34  // of the line beside a name
	legendGap   = 16  // between drawing and legend
	legendMost  = 200 // of a name's width
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
		l.names = append(l.names, fit(l.style, name, legendMost))
	}
	return l
}

// width is 0 when nothing has a name.
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

// draw begins at the top. Where there are more series than there is height, rows are
// closer together.
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

// sample is a piece of the line.
func (l *legend) sample(c draw.Canvas, s Series, left, y vg.Length) {
	if s.Error == Band {
		c.FillPolygon(s.Style.band(), []vg.Point{{X: left, Y: y - 5}, {X: left + sampleWidth, Y: y - 5}, {X: left + sampleWidth, Y: y + 5}, {X: left, Y: y + 5}})
	}
	c.StrokeLine2(s.Style.line(), left, y, left+sampleWidth, y)
	if s.Style.Marker != NoMarker {
		s.Style.glyph(&c, vg.Point{X: left + sampleWidth/2, Y: y}, false)
	}
}
