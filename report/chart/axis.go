package chart

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"pinfold.dev/pinfold/report"
)

const (
	wantedTicks = 6  // of a linear axis, or fewer
	mostDecades = 10 // of a logarithmic axis that get a label each

	// smallest and largest amount that a chart has a place for; far enough from where
	// floating-point numbers end.
	smallest, largest = 1e-300, 1e300
)

// extent is an axis with its two ends and its marks.
type extent struct {
	min, max float64
	ticks    []plot.Tick // major ones have a label
}

// extentOf finds round ends around values.
func (a *Axis) extentOf(values []float64) extent {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	if a.Scale == Logarithmic {
		return a.logarithmic(low, high)
	}
	return a.linear(low, high)
}

// linear has marks at 1, 2, 2.5 or 5 times a power of ten.
func (a *Axis) linear(low, high float64) extent {
	if high-low < max(math.Abs(low), math.Abs(high), smallest)*1e-12 { // one value: in the middle
		room := math.Abs(low) / 2
		if room < smallest {
			room = 1
		}
		low, high = low-room, high+room
	}
	if a.bounded() {
		low, high = max(low, a.Least), min(high, a.Most)
	}
	step := roundStep((high - low) / wantedTicks)
	// A value that rounding moved off a mark must not cost a whole step.
	first, last := math.Floor(low/step+1e-9), math.Ceil(high/step-1e-9)
	e := extent{min: first * step, max: last * step}
	if a.bounded() {
		e.min, e.max = max(e.min, a.Least), min(e.max, a.Most)
	}
	for i := range int(last-first) + 1 {
		value := (first + float64(i)) * step
		if value >= e.min-step*1e-9 && value <= e.max+step*1e-9 {
			e.ticks = append(e.ticks, plot.Tick{Value: value, Label: a.label(value, step)})
		}
	}
	return e
}

// roundStep is the next larger of 1, 2, 2.5, 5 times a power of ten.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, factor := range []float64{1, 2, 2.5, 5} {
		if x <= factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// logarithmic has labels at powers of ten; at 1, 2 and 5 of each when there are few.
func (a *Axis) logarithmic(low, high float64) extent {
	if high/low < 1+1e-6 { // one value: in the middle
		low, high = low/2, high*2
	}
	decades := math.Log10(high / low)
	labelled := []float64{1}
	if decades <= 2.5 {
		labelled = []float64{1, 2, 5}
	}
	first, last := math.Floor(math.Log10(low)+1e-9), math.Ceil(math.Log10(high)-1e-9)
	every := max(1, math.Ceil((last-first)/mostDecades))
	e := extent{min: below(low, labelled), max: above(high, labelled)}
	if a.bounded() {
		e.min, e.max = max(e.min, a.Least), min(e.max, a.Most)
	}
	for n := first; n <= last; n++ {
		for digit := 1.0; digit <= 9; digit++ {
			value := digit * math.Pow(10, n)
			tick := plot.Tick{Value: value}
			if has(labelled, digit) && math.Mod(n-first, every) == 0 {
				tick.Label = a.label(value, value)
			}
			if value >= e.min*(1-1e-9) && value <= e.max*(1+1e-9) && (every == 1 || tick.Label != "") {
				e.ticks = append(e.ticks, tick)
			}
		}
	}
	return e
}

func has(all []float64, x float64) bool {
	for _, one := range all {
		if one == x {
			return true
		}
	}
	return false
}

// below is the largest labelled value that is at most x; above the smallest at least x.
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

// label writes a value, with as many digits as the distance of marks asks for.
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

// decimals are the digits behind the point that a step has.
func decimals(step float64) int {
	for digits := range 15 {
		scaled := step * math.Pow10(digits)
		if math.Abs(scaled-math.Round(scaled)) < 1e-6*scaled {
			return digits
		}
	}
	return 15
}

// Ticks makes extent a plot.Ticker.
func (e extent) Ticks(_, _ float64) []plot.Tick { return e.ticks }

// normalizer is the scale for gonum.
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

// text is the label with its unit.
func (a *Axis) text() string {
	if a.Unit == "" {
		return a.Label
	}
	return a.Label + " (" + a.Unit + ")"
}

// dress gives gonum's axis its ends, marks and looks. The label is ours: gonum reserves
// room for it in the wrong place when the axis is logarithmic.
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
