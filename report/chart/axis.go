package chart

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"pinfold.dev/pinfold/report"
)

const (
	wantedTicks = 6  // of a linear axis, or fewer
	maxDecades  = 10 // of a logarithmic axis that get a label each

	// The range of absolute values, with a distance to the limits of floating-point numbers.
	smallest, largest = 1e-300, 1e300
)

// extent is the ends and marks of an axis.
type extent struct {
	min, max float64
	ticks    []plot.Tick // major ones have a label
}

// extentOf returns an extent with round ends that contains the values.
func (a *Axis) extentOf(values []float64) extent {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	switch {
	case len(a.Marks) > 0 && low < high:
		return a.marked(low, high)
	case a.Scale == Logarithmic:
		return a.logarithmic(low, high)
	}
	return a.linear(low, high)
}

// marked returns an extent with the marks of the axis.
func (a *Axis) marked(low, high float64) extent {
	e := extent{min: low, max: high}
	for _, v := range slices.Compact(slices.Sorted(slices.Values(a.Marks))) {
		e.ticks = append(e.ticks, plot.Tick{Value: v, Label: a.label(v, v)})
	}
	return e
}

// linear returns an extent with marks at multiples of 1, 2, 2.5 or 5 times a power of ten.
func (a *Axis) linear(low, high float64) extent {
	if high-low < max(math.Abs(low), math.Abs(high), smallest)*1e-12 { // one value: centre it
		room := math.Abs(low) / 2
		if room < smallest {
			room = 1
		}
		low, high = low-room, high+room
	}
	if a.bounded() {
		low, high = max(low, a.Min), min(high, a.Max)
	}
	step := roundStep((high - low) / wantedTicks)
	// Rounding errors must not add a step.
	first, last := math.Floor(low/step+1e-9), math.Ceil(high/step-1e-9)
	e := extent{min: min(first*step, low), max: max(last*step, high)}
	if a.bounded() {
		e.min, e.max = max(e.min, a.Min), min(e.max, a.Max)
	}
	for i := range int(last-first) + 1 {
		value := (first + float64(i)) * step
		if value >= e.min-step*1e-9 && value <= e.max+step*1e-9 {
			e.ticks = append(e.ticks, plot.Tick{Value: value, Label: a.label(value, step)})
		}
	}
	return e
}

// roundStep returns the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least x.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, factor := range []float64{1, 2, 2.5, 5} {
		if x <= factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// Complement formats a share as what is left of 100%, "99.9%" for 0.001, with as many digits as tell
// it from 100%. It is a format for axes that show how close something comes to 100%.
func Complement(share float64) string {
	places := max(0, -2-int(math.Floor(math.Log10(share)+1e-9)))
	return strconv.FormatFloat(100*(1-share), 'f', places, 64) + "%"
}

// logarithmic returns an extent with labels at powers of ten, and at 2 and 5 times them if there
// are few.
func (a *Axis) logarithmic(low, high float64) extent {
	if high/low < 1+1e-6 { // one value: centre it
		low, high = low/2, high*2
	}
	decades := math.Log10(high / low)
	labelled := []float64{1}
	if decades <= 2.5 {
		labelled = []float64{1, 2, 5}
	}
	first, last := math.Floor(math.Log10(low)+1e-9), math.Ceil(math.Log10(high)-1e-9)
	every := max(1, math.Ceil((last-first)/maxDecades))
	e := extent{min: min(below(low, labelled), low), max: max(above(high, labelled), high)}
	if a.bounded() {
		e.min, e.max = max(e.min, a.Min), min(e.max, a.Max)
	}
	for n := first; n <= last; n++ {
		for digit := 1.0; digit <= 9; digit++ {
			value := digit * math.Pow(10, n)
			tick := plot.Tick{Value: value}
			if slices.Contains(labelled, digit) && math.Mod(n-first, every) == 0 {
				tick.Label = a.label(value, value)
			}
			if value >= e.min*(1-1e-9) && value <= e.max*(1+1e-9) && (every == 1 || tick.Label != "") {
				e.ticks = append(e.ticks, tick)
			}
		}
	}
	return e
}

// below returns the largest labelled value that is at most x, above the smallest that is at least
// x.
func below(x float64, labelled []float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)+1e-9))
	found := power
	for _, digit := range labelled {
		if digit*power <= x*(1+1e-9) {
			found = digit * power
		}
	}
	return found
}

func above(x float64, labelled []float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)+1e-9))
	for _, digit := range labelled {
		if digit*power >= x*(1-1e-9) {
			return digit * power
		}
	}
	return 10 * power
}

// label formats a value with the digits that marks at this distance need.
func (a *Axis) label(value, step float64) string {
	if a.Format != nil {
		return report.Printable(a.Format(value))
	}
	if math.Abs(value) < step*1e-6 {
		value = 0
	}
	digits := decimals(step)
	text := strconv.FormatFloat(value, 'f', digits, 64)
	if value != 0 && (math.Abs(value) < 1e-4 || math.Abs(value) >= 1e7) {
		power := math.Floor(math.Log10(math.Abs(value)) + 1e-9)
		scaled := step * math.Pow(10, -power)
		text = strconv.FormatFloat(value*math.Pow(10, -power), 'f', decimals(scaled), 64) + "e" + strconv.Itoa(int(power))
	}
	return strings.ReplaceAll(text, "-", "−")
}

// decimals returns the number of decimal places of a step.
func decimals(step float64) int {
	for digits := range 15 {
		scaled := step * math.Pow10(digits)
		if math.Abs(scaled-math.Round(scaled)) < 1e-6*scaled {
			return digits
		}
	}
	return 15
}

// Ticks implements [plot.Ticker].
func (e extent) Ticks(_, _ float64) []plot.Tick { return e.ticks }

func (a *Axis) normalizer() plot.Normalizer {
	var n plot.Normalizer = plot.LinearScale{}
	if a.Scale == Logarithmic {
		n = plot.LogScale{}
	}
	if a.Inverted {
		n = plot.InvertedScale{Normalizer: n}
	}
	return n
}

// text returns the label with its unit.
func (a *Axis) text() string {
	if a.Unit == "" {
		return a.Label
	}
	return a.Label + " (" + a.Unit + ")"
}

// dress sets the ends, marks and style of gonum's axis. The label is drawn by Chart.label, because
// gonum reserves space for it in the wrong place on a logarithmic axis.
func (a *Axis) dress(axis *plot.Axis, e extent) {
	axis.Min, axis.Max = e.min, e.max
	axis.Scale = a.normalizer()
	axis.Padding = 0
	axis.Color = muted().colour
	axis.Width = 1
	axis.Tick.Marker = e
	axis.Tick.Color = muted().colour
	axis.Tick.Width = 1
	axis.Tick.Length = vg.Length(5)
	axis.Tick.Label.Font = face(11.5, false)
	axis.Tick.Label.Color = ink().colour
}
