package demand

import (
	"errors"
	"fmt"
	"math"
)

// ErrInvalid is wrapped by every error about a parameter.
var ErrInvalid = errors.New("invalid demand")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// checkPositive returns an error unless the parameter is a positive, finite number.
func checkPositive(name string, value float64) error {
	if !(value > 0) || math.IsInf(value, 1) {
		return invalid("%s is %v; it must be a number above 0", name, value)
	}
	return nil
}

// checkAmounts returns an error for samples that no group can have used, or for none.
func checkAmounts(samples []float64) error {
	if len(samples) == 0 {
		return invalid("there are no samples; record for longer")
	}
	sum := 0.0
	for i, s := range samples {
		if !(s >= 0) || math.IsInf(s, 1) {
			return invalid("sample %d is %v; a demand is a number, 0 or more", i, s)
		}
		sum += s
	}
	if !(sum > 0) || math.IsInf(sum, 1) {
		return invalid("the samples sum to %v; record while the group works", sum)
	}
	return nil
}
