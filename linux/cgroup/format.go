package cgroup

import (
	"fmt"
	"strconv"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

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

// Format returns a setting as its file has it.
func (s Settings) Format(f File) string {
	switch f {
	case CPUSetCPUs:
		return s.CPUs.String()
	case CPUSetExclusive:
		return s.Exclusive.String()
	case CPUSetPartition:
		return string(s.Partition.Kind)
	case CPUMax:
		return formatCPUMax(s.WithoutBurst())
	case CPUCFSQuota:
		return formatQuota(s.Quota)
	case CPUCFSPeriod:
		return formatMicroseconds(s.Period)
	case CPUMaxBurst, CPUCFSBurst:
		return formatMicroseconds(s.Burst)
	case CPUIdle:
		return formatFlag(s.Idle)
	case CPUBVT:
		return strconv.Itoa(s.BVT)
	case CPUShares, CPUWeight:
		return strconv.FormatUint(uint64(s.Weight), 10)
	}
	panic("cgroup: " + f + " is not the file of a setting")
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
		wrote, errWrote := kernfile.CPUMax(value)
		found, errFound := kernfile.CPUMax(content)
		return errWrote == nil && errFound == nil && wrote.WithoutBurst() == found.WithoutBurst()
	}
	return value == content
}
