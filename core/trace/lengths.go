package trace

import (
	"slices"
	"time"
)

// Longest is the longest window of Timescales.
const Longest = time.Minute

const (
	everyMultiple = 32 // up to so many samples a window may have any number
	growth        = 10 // beyond, each window is longer by 1/growth
)

// Lengths returns the window lengths for samples of a nominal interval, in ascending order up to
// longest; see the package comment. If nominal exceeds longest, it returns only nominal.
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
