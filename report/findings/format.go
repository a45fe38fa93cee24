package findings

import (
	"math"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/quantity"
)

// multiple is the ratio from which a change is described as a multiple.
const multiple = 2

// change describes a ratio to the baseline: "43% lower", "4.1 times as high".
func change(ratio float64) string {
	switch {
	case ratio == 1:
		return "no change"
	case ratio < 1:
		return reduction(ratio) + " lower"
	case ratio < multiple:
		return percent(ratio-1) + " higher"
	}
	return times(ratio) + " times as high"
}

// changes describes the interval of a ratio in the manner of its median. It returns "" if there is
// none, or if it contains nothing else.
func changes(ratio experiment.Value) string {
	low, high := ratio.Low, ratio.High
	switch {
	case !ratio.Bounded() || ratio.Rounds == 0 || low == high:
		return ""
	case ratio.Estimate < 1 && high <= 1:
		return reduction(high) + " to " + reduction(low)
	case ratio.Estimate >= multiple && low >= 1:
		return times(low) + " to " + times(high)
	case ratio.Estimate > 1 && low >= 1:
		return percent(low-1) + " to " + percent(high-1)
	}
	return change(low) + " to " + change(high)
}

// percent formats a share in whole percent, or with two significant digits below 10%.
func percent(share float64) string {
	switch {
	case share == 0:
		return "0%"
	case share < 0.0001:
		return "less than 0.01%"
	case share < 0.0995:
		return strconv.FormatFloat(100*share, 'f', 1-int(math.Floor(math.Log10(100*share))), 64) + "%"
	}
	return strconv.FormatFloat(100*share, 'f', 0, 64) + "%"
}

// reduction formats how much lower a ratio is, with as many digits as distinguish it from 100%.
func reduction(ratio float64) string {
	if ratio < 0.01 {
		return quantity.Share(1 - ratio).String()
	}
	return percent(1 - ratio)
}

func times(ratio float64) string {
	if ratio < 10 {
		return strconv.FormatFloat(ratio, 'f', 1, 64)
	}
	return number(ratio)
}

// number formats a ratio with three significant digits.
func number(ratio float64) string {
	if ratio < 1000 || ratio >= 1e6 {
		return strconv.FormatFloat(ratio, 'g', 3, 64)
	}
	return strconv.FormatFloat(ratio, 'f', 0, 64)
}

// interval formats the interval of a value: "104 to 107 ms". It returns "" without one.
func interval(f experiment.Figure, v experiment.Value) string {
	if v.Rounds == 0 || !v.Bounded() {
		return ""
	}
	low := strings.TrimSuffix(f.Format(v.Low), string(experiment.Figures()[f].Unit))
	return strings.TrimSpace(low) + " to " + f.Format(v.High)
}

// label returns the name of a figure for people.
func label(f experiment.Figure) string {
	if d, ok := experiment.Figures()[f]; ok {
		return d.Label
	}
	return plain(string(f))
}

// load returns what follows a figure's name: a load, or "" if there is only one.
func (r Run) load(name string) string {
	if len(r.Result.Config.Loads) < 2 {
		return ""
	}
	return " (load: " + plain(name) + ")"
}

// The range of values other than 0. No figure of a machine is outside, and all ratios are finite
// numbers.
const minValue, maxValue = 1e-18, 1e18

// plausible reports whether a value can be that of a figure. NaN cannot.
func plausible(value float64) bool {
	return value == 0 || value >= minValue && value <= maxValue
}
