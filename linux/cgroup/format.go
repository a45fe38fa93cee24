package cgroup

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
)

// content is the content of a file. Callers that must not allocate use bytes.
type content interface{ string | []byte }

// safeDigits is the number of decimal digits that always fit into 64 bits.
const safeDigits = 19

// parseNumber parses a decimal number.
func parseNumber[T content](s T) (uint64, error) {
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

// parseTime parses a number of units.
func parseTime[T content](s T, unit time.Duration) (time.Duration, error) {
	n, err := parseNumber(s)
	if err != nil {
		return 0, err
	}
	if n > uint64(math.MaxInt64/unit) {
		return 0, fmt.Errorf("%s is too large", string(s))
	}
	return time.Duration(n) * unit, nil
}

// parseNanoseconds parses cpuacct.usage, cpuacct.usage_user and cpuacct.usage_sys.
func parseNanoseconds(s string) (time.Duration, error) { return parseTime(s, time.Nanosecond) }

// parseMicroseconds parses cpu.cfs_period_us, cpu.cfs_burst_us and cpu.max.burst.
func parseMicroseconds[T content](s T) (time.Duration, error) {
	d, err := parseTime(s, time.Microsecond)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of microseconds", string(s))
	}
	return d, nil
}

// parseQuota parses cpu.cfs_quota_us: microseconds, or -1 for no quota.
func parseQuota[T content](s T) (time.Duration, error) {
	if string(s) == "-1" {
		return bandwidth.Unlimited, nil
	}
	return parseMicroseconds(s)
}

// parseCPUMax parses cpu.max: "QUOTA PERIOD" in microseconds, or "max PERIOD".
func parseCPUMax[T content](s T) (bandwidth.Limits, error) {
	space := 0
	for space < len(s) && s[space] != ' ' {
		space++
	}
	if space == len(s) {
		return bandwidth.Limits{}, fmt.Errorf("%q is not a quota and a period", string(s))
	}
	max := bandwidth.Limits{Quota: bandwidth.Unlimited}
	var err error
	if first := s[:space]; string(first) != "max" {
		if max.Quota, err = parseMicroseconds(first); err != nil {
			return bandwidth.Limits{}, err
		}
	}
	if max.Period, err = parseMicroseconds(s[space+1:]); err != nil {
		return bandwidth.Limits{}, err
	}
	return max, nil
}

// parseWeight parses cpu.shares and cpu.weight.
func parseWeight(s string) (Weight, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a weight", s)
	}
	return Weight(n), nil
}

// parseFlag parses cpu.idle.
func parseFlag(s string) (bool, error) {
	switch s {
	case "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, fmt.Errorf("%q is neither 0 nor 1", s)
}

// parseBVT parses cpu.bvt_warp_ns.
func parseBVT(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < -2 || n > 2 {
		return 0, fmt.Errorf("%q is not a number from -2 to 2", s)
	}
	return n, nil
}

func formatMicroseconds(d time.Duration) string {
	return strconv.FormatInt(d.Microseconds(), 10)
}

func formatQuota(quota time.Duration) string {
	if quota == bandwidth.Unlimited {
		return "-1"
	}
	return formatMicroseconds(quota)
}

func formatCPUMax(l bandwidth.Limits) string {
	if l.Quota == bandwidth.Unlimited {
		return "max " + formatMicroseconds(l.Period)
	}
	return formatMicroseconds(l.Quota) + " " + formatMicroseconds(l.Period)
}

func formatFlag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// same reports whether a file contains the value that was written to it. Only sets of CPUs have
// several forms of the same value.
func same(f File, value, content string) bool {
	if f == CPUSetCPUs || f == CPUSetExclusive {
		wrote, errWrote := cpuset.Parse(value)
		found, errFound := cpuset.Parse(content)
		return errWrote == nil && errFound == nil && wrote == found
	}
	return value == content
}
