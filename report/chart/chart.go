package chart

// Chart is what there is to see.
type Chart struct {
	Title    string
	Subtitle string // under the title, smaller; may be empty
	// Description is for those who cannot see the chart: what it shows, in a sentence.
	Description string
	X, Y        Axis
	Series      []Series
	References  []Reference
}

// Axis is one of the two directions.
type Axis struct {
	Label string
	Unit  string // of the values; may be empty
	Scale Scale
	// Inverted axes count downwards, or to the left.
	Inverted bool
	// Least and Most are bounds of what values can be: the axis never goes beyond. Both
	// 0: there are none.
	Least, Most float64
	// Format writes a value beside its mark; nil writes plain numbers.
	Format func(value float64) string
}

// Scale says how values become lengths.
type Scale int

// The scales. On Logarithmic axes all values are above 0.
const (
	Linear Scale = iota
	Logarithmic
)

// Series is a line.
type Series struct {
	Name string
	// Points, with X not falling.
	Points []Point
	Style  Style
	Error  Error
}

// Point is a value at a place. Y is NaN where it is not known.
type Point struct {
	X, Y float64
	// Lower <= Y <= Upper is what Y may be; they count when the series has an Error.
	Lower, Upper float64
	// Uncertain values have a hollow marker.
	Uncertain bool
}

// Error is how Lower and Upper are drawn.
type Error int

// The ways to draw errors.
const (
	NoError Error = iota
	Band          // a band around the line
	Bars          // a bar at each point
)

// Reference is a value to compare with: a line through the whole chart.
type Reference struct {
	Value    float64
	Vertical bool // at an X; otherwise at a Y
	Label    string
}

// Width and Height of a chart, in units of the SVG. PNG files have PixelsPerUnit as many.
const (
	Width         = 800
	Height        = 480
	PixelsPerUnit = 2
)
