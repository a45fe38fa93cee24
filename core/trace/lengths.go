package trace

import (
	"slices"
	"time"
)

// Longest is the longest window that Timescales looks at.
const Longest = time.Minute

const (
	everyMultiple = 32 // up to so many samples a window may have any number
	growth        = 10 // beyond, each window is longer by 1/growth
)

// Lengths returns the lengths of windows for samples of a nominal interval, ascending,
// up to the longest; see the package comment. A nominal interval that is longer than
// longest gives just itself.
func Lengths(nominal, longest time.Duration) []time.Duration {
	if nominal <= 0 {
		return nil
	}
	lengths := []time.Duration{nominal}
	most := longest / nominal
	for n := time.Duration(2); n <= most; {
		lengths = append(lengths, n*nominal)
		if n < everyMultiple {
			n++
		} else {
			n += n / growth
		}
	}
	for _, w := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute} {
		if w%nominal == 0 && w <= longest {
			lengths = append(lengths, w)
		}
	}
	slices.Sort(lengths)
	return slices.Compact(lengths)
}
