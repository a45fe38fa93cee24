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

// parseCount parses nr_periods, nr_throttled and nr_bursts. The kernel prints these as signed
// numbers of 32 bits (struct cfs_bandwidth of Linux 6.18), which become negative after 2^31
// periods: 25 days of 1 ms.
func parseCount[T content](s T) (uint64, error) {
	if len(s) < 2 || s[0] != '-' {
		return parseNumber(s)
	}
	n, err := parseNumber(s[1:])
	if err != nil || n > 1<<31 {
		return 0, fmt.Errorf("%q is not a count", string(s))
	}
	return uint64(uint32(-n)), nil
}

// parseTotal is parseTime for a total that ends at the largest duration. Totals of throttled time
// are off by centuries on kernels that have once computed a negative time.
func parseTotal[T content](s T, unit time.Duration) (time.Duration, error) {
	n, err := parseNumber(s)
	if err == nil && n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * unit, err
}

// parseMicroseconds parses cpu.cfs_period_us, cpu.cfs_burst_us and cpu.max.burst.
func parseMicroseconds[T content](s T) (time.Duration, error) {
	d, err := parseTime(s, time.Microsecond)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of microseconds", string(s))
	}
	return d, nil
}

// parseQuota parses a quota: microseconds, or -1 (cpu.cfs_quota_us) or max (cpu.max) for no quota.
func parseQuota[T content](s T) (time.Duration, error) {
	if string(s) == "-1" || string(s) == "max" {
		return bandwidth.Unlimited, nil
	}
	return parseMicroseconds(s)
}

// parseCPUMax parses cpu.max: "QUOTA PERIOD" in microseconds, or "max PERIOD". Some vendors'
// kernels have a third field, the burst, from an early version of CPU Burst. Other further fields
// are ignored.
func parseCPUMax[T content](s T) (max bandwidth.Limits, err error) {
	quota, rest := cutWord(s)
	period, rest := cutWord(rest)
	burst, _ := cutWord(rest)
	if len(period) == 0 {
		return max, fmt.Errorf("%q is not a quota and a period", string(s))
	}
	if max.Quota, err = parseQuota(quota); err != nil {
		return bandwidth.Limits{}, err
	}
	if max.Period, err = parseMicroseconds(period); err != nil {
		return bandwidth.Limits{}, err
	}
	if len(burst) > 0 {
		if n, err := parseTime(burst, time.Microsecond); err == nil {
			max.Burst = n
		}
	}
	return max, nil
}

// cutWord splits s after its first word, and removes white space around that.
func cutWord[T content](s T) (word, rest T) {
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

// same reports whether a file contains the value that was written to it. Sets of CPUs have several
// forms of the same value, and cpu.max may have further fields.
func same(f File, value, content string) bool {
	switch f {
	case CPUSetCPUs, CPUSetExclusive:
		wrote, errWrote := cpuset.Parse(value)
		found, errFound := cpuset.Parse(content)
		return errWrote == nil && errFound == nil && wrote == found
	case CPUMax:
		wrote, errWrote := parseCPUMax(value)
		found, errFound := parseCPUMax(content)
		return errWrote == nil && errFound == nil && wrote.WithoutBurst() == found.WithoutBurst()
	}
	return value == content
}
