package kernfile

import (
	"errors"
	"fmt"
	"math"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// Content is the content of a file. Callers that must not allocate use bytes.
type Content interface{ string | []byte }

// safeDigits is the number of decimal digits that always fit into 64 bits.
const safeDigits = 19

// Number parses a decimal number.
func Number[T Content](s T) (uint64, error) {
	var n uint64
	for i := range len(s) {
		digit := uint64(s[i] - '0') // above 9 for other characters
		if digit > 9 || i >= safeDigits && n > (math.MaxUint64-digit)/10 {
			return 0, fmt.Errorf("%q is not a number of 64 bits", string(s))
		}
		n = 10*n + digit
	}
	if len(s) == 0 {
		return 0, errors.New("there is no number")
	}
	return n, nil
}

// Time parses a number of units.
func Time[T Content](s T, unit time.Duration) (time.Duration, error) {
	n, err := Number(s)
	if err != nil {
		return 0, err
	}
	if n > uint64(math.MaxInt64/unit) {
		return 0, fmt.Errorf("%s is too large", string(s))
	}
	return time.Duration(n) * unit, nil
}

// Microseconds parses cpu.cfs_period_us, cpu.cfs_burst_us and cpu.max.burst.
func Microseconds[T Content](s T) (time.Duration, error) {
	d, err := Time(s, time.Microsecond)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of microseconds", string(s))
	}
	return d, nil
}

// Quota parses a quota: microseconds, or -1 (cpu.cfs_quota_us) or max (cpu.max) for no quota.
func Quota[T Content](s T) (time.Duration, error) {
	if string(s) == "-1" || string(s) == "max" {
		return bandwidth.Unlimited, nil
	}
	return Microseconds(s)
}

// CPUMax parses cpu.max: "QUOTA PERIOD" in microseconds, or "max PERIOD". Some vendors'
// kernels have a third field, the burst, from an early version of CPU Burst. Other further fields
// are ignored.
func CPUMax[T Content](s T) (max bandwidth.Limits, err error) {
	quota, rest := CutWord(s)
	period, rest := CutWord(rest)
	burst, _ := CutWord(rest)
	if len(period) == 0 {
		return max, fmt.Errorf("%q is not a quota and a period", string(s))
	}
	if max.Quota, err = Quota(quota); err != nil {
		return bandwidth.Limits{}, err
	}
	if max.Period, err = Microseconds(period); err != nil {
		return bandwidth.Limits{}, err
	}
	if len(burst) > 0 {
		if n, err := Time(burst, time.Microsecond); err == nil {
			max.Burst = n
		}
	}
	return max, nil
}

// CutWord splits s after its first word, and removes white space around that.
func CutWord[T Content](s T) (word, rest T) {
	begin := 0
	for begin < len(s) && s[begin] <= ' ' {
		begin++
	}
	end := begin
	for end < len(s) && s[end] > ' ' {
		end++
	}
	return s[begin:end], s[end:]
}
