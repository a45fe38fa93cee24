package cgroup

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
)

// maxMicroseconds is the largest number of microseconds that a Duration holds.
const maxMicroseconds = math.MaxInt64 / int64(time.Microsecond)

// parseMicroseconds reads cpu.cfs_period_us, cpu.cfs_burst_us and cpu.max.burst.
func parseMicroseconds(s string) (time.Duration, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > uint64(maxMicroseconds) {
		return 0, fmt.Errorf("%q is not a number of microseconds", s)
	}
	return time.Duration(n) * time.Microsecond, nil
}

// parseQuota reads cpu.cfs_quota_us: microseconds, or -1 for none.
func parseQuota(s string) (time.Duration, error) {
	if s == "-1" {
		return Unlimited, nil
	}
	return parseMicroseconds(s)
}

// cpuMax is the content of cpu.max.
type cpuMax struct{ quota, period time.Duration }

// parseCPUMax reads cpu.max: "QUOTA PERIOD" in microseconds, or "max PERIOD".
func parseCPUMax(s string) (cpuMax, error) {
	first, second, ok := strings.Cut(s, " ")
	if !ok {
		return cpuMax{}, fmt.Errorf("%q is not a quota and a period", s)
	}
	max := cpuMax{quota: Unlimited}
	var err error
	if first != "max" {
		if max.quota, err = parseMicroseconds(first); err != nil {
			return cpuMax{}, err
		}
	}
	if max.period, err = parseMicroseconds(second); err != nil {
		return cpuMax{}, err
	}
	return max, nil
}

// parseWeight reads cpu.shares and cpu.weight.
func parseWeight(s string) (Weight, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a weight", s)
	}
	return Weight(n), nil
}

// parseFlag reads cpu.idle.
func parseFlag(s string) (bool, error) {
	switch s {
	case "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, fmt.Errorf("%q is neither 0 nor 1", s)
}

func formatMicroseconds(d time.Duration) string {
	return strconv.FormatInt(d.Microseconds(), 10)
}

func formatQuota(quota time.Duration) string {
	if quota == Unlimited {
		return "-1"
	}
	return formatMicroseconds(quota)
}

func formatCPUMax(quota, period time.Duration) string {
	if quota == Unlimited {
		return "max " + formatMicroseconds(period)
	}
	return formatMicroseconds(quota) + " " + formatMicroseconds(period)
}

func formatFlag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// same reports whether the content of a file is the value that was written to it.
// All files but cpuset.cpus have one form for each value.
func same(f File, value, content string) bool {
	if f == CPUSetCPUs {
		wrote, errWrote := cpuset.Parse(value)
		found, errFound := cpuset.Parse(content)
		return errWrote == nil && errFound == nil && wrote == found
	}
	return value == content
}
