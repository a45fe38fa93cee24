// Package chart draws line charts as SVG, PNG and HTML, and bars for tables of pages.
//
//	c := chart.Chart{...}
//	err := c.SVG(w)
//
// A [Chart] contains the data: axes, series of points with their error, and reference lines. The
// package decides on the appearance, so that all charts of Pinfold look alike:
//
//   - Axes are linear or logarithmic, may point down or left, and end at round numbers outside the
//     data. An axis may have natural bounds (a probability does not exceed 1), which it does not
//     exceed.
//   - The legend is beside the drawing, where it covers no line. Labels of vertical lines are above
//     it.
//   - The colours are those of Okabe and Ito, which colour-blind people can distinguish. Series
//     should also differ in dashes or markers, for print in grey.
//   - A NaN value is unknown and interrupts the line. A point without neighbours is drawn as a dot.
//     A hollow marker is an uncertain value.
//   - Error bands and bars are clipped at the end of the axis.
//
// SVG files contain text as text, so they are small and searchable. The typeface is Liberation Sans
// or one with the same widths (Arial, Helvetica). PNG files have twice as many pixels as the SVG
// has units, and use an embedded typeface. The same chart gives the same bytes.
//
// # Pages
//
// [Chart.HTML] returns the same drawing for use in pages, without a background. Every colour is a
// CSS variable (--chart-ink, --chart-grid, --chart-blue ...) with the print colour as its default,
// so that a page may be dark. [Chart.Figure] has the legend below the drawing, for narrow pages.
// [WritePage] and [CSS] are what pages with charts have in common.
package chart

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Chart is the content of a chart.
type Chart struct {
	Title       string
	Subtitle    string // under the title, smaller; may be empty
	Description string // in a sentence, for people who cannot see the chart
	X, Y        Axis
	Series      []Series
	References  []Reference
	Shades      []Shade
	Height      int // in units of the SVG; 0 means [Height]
}

// Axis is the x axis or the y axis.
type Axis struct {
	Label string
	Unit  string // of the values; may be empty
	Scale Scale
	// Inverted axes point down or left.
	Inverted bool
	// Min and Max bound the values and the axis, unless both are 0.
	Min, Max float64
	// Shown are values that the axis shows besides the data, such as 0.
	Shown []float64
	// Marks are the labelled values. nil chooses round numbers.
	Marks []float64
	// Format formats the labels of marks. nil formats plain numbers.
	Format func(value float64) string
}

// Scale is the scale of an axis.
type Scale int

// The scales. All values on a Logarithmic axis must be positive.
const (
	Linear Scale = iota
	Logarithmic
)

// Series is a line.
type Series struct {
	Name   string
	Points []Point // in order of X
	Style  Style
	Error  Error
}

// Point is a point of a line. Y is NaN if it is unknown.
type Point struct {
	X, Y float64
	// Lower <= Y <= Upper is the range of error. It is used if the series has an Error.
	Lower, Upper float64
	// Uncertain points have a hollow marker.
	Uncertain bool
}

// Error determines how Lower and Upper are drawn.
type Error int

// The ways to draw errors.
const (
	NoError Error = iota
	Band          // a band around the line
	Bars          // a bar at each point
)

// Reference is a straight line through the whole chart, to compare values with.
type Reference struct {
	Value    float64
	Vertical bool // Value is an X; otherwise it is a Y
	Label    string
}

// Shade is a range of X that is shaded, behind the lines.
type Shade struct {
	From, To float64
	Colour   Colour
}

// The usual size of a chart in units of the SVG, and the pixels of a PNG file per unit.
const (
	Width         = 800
	Height        = 480
	PixelsPerUnit = 2
)

// errEmpty is returned when there is no value to draw.
var errEmpty = errors.New("nothing to draw: no series has a value")

// check returns an error if the chart cannot be drawn.
func (c *Chart) check() error {
	if err := errors.Join(c.X.check("x"), c.Y.check("y")); err != nil {
		return err
	}
	known := 0
	for _, s := range c.Series {
		n, err := s.check(&c.X, &c.Y)
		if err != nil {
			return fmt.Errorf("series %q: %w", s.Name, err)
		}
		known += n
	}
	for _, r := range c.References {
		axis := &c.Y
		if r.Vertical {
			axis = &c.X
		}
		if err := axis.checkValue(r.Value); err != nil {
			return fmt.Errorf("reference %q: %w", r.Label, err)
		}
	}
	for i, s := range c.Shades {
		if err := c.X.checkShade(s); err != nil {
			return fmt.Errorf("shade %d: %w", i, err)
		}
	}
	switch {
	case known == 0:
		return errEmpty
	case c.height() < minHeight || c.height() > maxHeight:
		return fmt.Errorf("the height is %d, want %d to %d", c.height(), minHeight, maxHeight)
	}
	return nil
}

// The heights at which a drawing has room for its labels, and a PNG file does not fill the memory.
const minHeight, maxHeight = 160, 4000

func (c *Chart) height() int { return cmp.Or(c.Height, Height) }

func (a *Axis) checkShade(s Shade) error {
	if s.From > s.To {
		return fmt.Errorf("it ends at %g, left of its beginning %g", s.To, s.From)
	}
	return errors.Join(a.checkValue(s.From), a.checkValue(s.To))
}

func (a *Axis) check(name string) error {
	switch {
	case a.bounded() && !(a.Min < a.Max) || max(-a.Min, a.Max) > largest:
		return fmt.Errorf("%s axis: values from %g to %g: the first must be less, and both finite", name, a.Min, a.Max)
	case a.bounded() && a.Scale == Logarithmic && a.Min <= 0:
		return fmt.Errorf("%s axis: a logarithmic axis cannot begin at %g", name, a.Min)
	}
	for _, v := range slices.Concat(a.Shown, a.Marks) {
		if err := a.checkValue(v); err != nil {
			return fmt.Errorf("%s axis: %w", name, err)
		}
	}
	return nil
}

func (a *Axis) bounded() bool { return a.Min != 0 || a.Max != 0 }

// checkValue returns an error if the axis cannot show a value.
func (a *Axis) checkValue(value float64) error {
	switch {
	case math.IsNaN(value) || math.Abs(value) > largest:
		return fmt.Errorf("%g cannot be drawn", value)
	case a.Scale == Logarithmic && value < smallest:
		return fmt.Errorf("%g cannot be drawn on a logarithmic axis", value)
	case a.bounded() && (value < a.Min || value > a.Max):
		return fmt.Errorf("%g is outside the axis, which is from %g to %g", value, a.Min, a.Max)
	}
	return nil
}

// check returns the number of known values.
func (s *Series) check(x, y *Axis) (known int, err error) {
	for i, p := range s.Points {
		if err := x.checkValue(p.X); err != nil {
			return 0, fmt.Errorf("point %d: x = %w", i, err)
		}
		if i > 0 && p.X < s.Points[i-1].X {
			return 0, fmt.Errorf("point %d: x = %g is left of the one before, %g", i, p.X, s.Points[i-1].X)
		}
		if math.IsNaN(p.Y) {
			continue
		}
		if err := y.checkValue(p.Y); err != nil {
			return 0, fmt.Errorf("point %d: y = %w", i, err)
		}
		if s.Error != NoError && !(p.Lower <= p.Y && p.Y <= p.Upper) {
			return 0, fmt.Errorf("point %d: y = %g is not between %g and %g", i, p.Y, p.Lower, p.Upper)
		}
		known++
	}
	return known, nil
}
