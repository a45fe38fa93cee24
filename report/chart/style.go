package chart

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Style is the style of a series.
type Style struct {
	Colour Colour
	Dash   Dash
	Marker Marker
}

// Colour of a series.
type Colour int

// The colours, after Okabe and Ito ("Color Universal Design", 2002).
const (
	Blue Colour = iota
	Vermillion
	Green
	Purple
	Orange
	Sky
	colours // the number of colours
)

// Dash is the pattern of a line.
type Dash int

// The patterns.
const (
	Solid Dash = iota
	Dashed
	Dotted
	DashDotted
	dashes // the number of patterns
)

// Marker is the symbol at each point.
type Marker int

// The markers.
const (
	NoMarker Marker = iota
	Circle
	Square
	Triangle
	markers // the number of markers
)

// paint is a colour and its CSS variable.
type paint struct {
	variable string
	colour   color.RGBA
}

// The colours of everything except series. None is pure black, the default that SVG omits.
func ink() paint    { return paint{"--chart-ink", color.RGBA{0x22, 0x22, 0x26, 0xff}} }
func muted() paint  { return paint{"--chart-muted", color.RGBA{0x5c, 0x5f, 0x66, 0xff}} }
func grid() paint   { return paint{"--chart-grid", color.RGBA{0xe3, 0xe4, 0xe8, 0xff}} }
func ground() paint { return paint{"--chart-ground", color.RGBA{0xff, 0xff, 0xff, 0xff}} }

func (c Colour) paint() paint {
	return [colours]paint{
		Blue:       {"--chart-blue", color.RGBA{0x00, 0x72, 0xb2, 0xff}},
		Vermillion: {"--chart-vermillion", color.RGBA{0xd5, 0x5e, 0x00, 0xff}},
		Green:      {"--chart-green", color.RGBA{0x00, 0x9e, 0x73, 0xff}},
		Purple:     {"--chart-purple", color.RGBA{0xcc, 0x79, 0xa7, 0xff}},
		Orange:     {"--chart-orange", color.RGBA{0xe6, 0x9f, 0x00, 0xff}},
		Sky:        {"--chart-sky", color.RGBA{0x56, 0xb4, 0xe9, 0xff}},
	}[c]
}

// paints returns all colours of a chart.
func paints() []paint {
	all := []paint{ink(), muted(), grid(), ground()}
	for c := range colours {
		all = append(all, c.paint())
	}
	return all
}

func (d Dash) lengths() []vg.Length {
	return [dashes][]vg.Length{
		Dashed:     {7, 4},
		Dotted:     {1.5, 3.5},
		DashDotted: {8, 3, 1.5, 3},
	}[d]
}

const (
	lineWidth   = 1.8
	markerSize  = 3.2
	ringWidth   = 1.6  // of a hollow marker
	bandOpacity = 0x38 // of 255
)

func (s Style) line() draw.LineStyle {
	return draw.LineStyle{Color: s.Colour.paint().colour, Width: lineWidth, Dashes: s.Dash.lengths()}
}

func (s Style) band() color.Color {
	c := s.Colour.paint().colour
	return color.NRGBA{c.R, c.G, c.B, bandOpacity}
}

// glyph draws the marker of one point. A hollow one is filled with the background, which hides the
// line.
func (s Style) glyph(c *draw.Canvas, at vg.Point, uncertain bool) {
	style := draw.GlyphStyle{Color: s.Colour.paint().colour, Radius: markerSize, Shape: s.Marker.shape()}
	if s.Marker == Triangle {
		style.Radius *= 1.25 // for the same area as the others
	}
	if uncertain {
		style.Radius += ringWidth / 2
	}
	c.DrawGlyph(style, at)
	if uncertain {
		style.Radius, style.Color = style.Radius-ringWidth, ground().colour
		c.DrawGlyph(style, at)
	}
}

// shape returns the marker's shape, a circle for NoMarker.
func (m Marker) shape() draw.GlyphDrawer {
	switch m {
	case Square:
		return draw.BoxGlyph{}
	case Triangle:
		return draw.PyramidGlyph{}
	default:
		return draw.CircleGlyph{}
	}
}
