package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// cpuAmount is a flag for CPU time per time, in thousandths of a CPU; 0 means that it
// was not given.
type cpuAmount int64

// maxAmount is more than any machine has: cpuset.MaxCPUs is 1,024.
const maxAmount cpuAmount = 100_000 * 1000

var errAmount = errors.New("must be a number of CPUs above 0 with at most three places, such as 0.5 or 4, or thousandths of one, such as 500m")

func (a *cpuAmount) Type() string   { return "CPUS" }
func (a *cpuAmount) String() string { return ledger.MilliCPU(*a).String() }

func (a *cpuAmount) Set(text string) error {
	amount, err := parseAmount(text)
	if err == nil {
		*a = amount
	}
	return err
}

// parseAmount reads DIGITS[.DIGITS] or DIGITSm, as Kubernetes writes amounts of CPU.
func parseAmount(text string) (cpuAmount, error) {
	whole, fraction, point := strings.Cut(text, ".")
	if milli, ok := strings.CutSuffix(text, "m"); ok {
		if n, err := strconv.ParseUint(milli, 10, 31); err == nil && n > 0 && cpuAmount(n) <= maxAmount {
			return cpuAmount(n), nil
		}
		return 0, errAmount
	}
	if point && fraction == "" || len(fraction) > 3 {
		return 0, errAmount
	}
	n, err := strconv.ParseUint(whole+(fraction + "000")[:3], 10, 63)
	if err != nil || whole == "" || n == 0 || cpuAmount(n) > maxAmount {
		return 0, errAmount
	}
	return cpuAmount(n), nil
}

// in returns the CPU time that the amount is in a period of at most a second, to the
// microsecond: the kernel counts no less.
func (a cpuAmount) in(period time.Duration) time.Duration {
	micros := (int64(a)*period.Microseconds() + 500) / 1000
	return time.Duration(micros) * time.Microsecond
}

// cpus returns the amount as a number of CPUs.
func (a cpuAmount) cpus() float64 { return float64(a) / 1000 }

// leastLimit is the lowest limit whose quota the kernel takes.
func leastLimit(period time.Duration) string {
	least := cpuAmount(math.Ceil(1000 * float64(time.Millisecond) / float64(period)))
	return least.String()
}

// cpuList is a flag for CPUs by number; empty means that it was not given.
type cpuList struct{ cpus cpuset.Set }

func (l *cpuList) Type() string   { return "LIST" }
func (l *cpuList) String() string { return l.cpus.String() }
func (l *cpuList) Set(text string) error {
	cpus, err := cpuset.Parse(text)
	if err == nil && cpus.IsEmpty() {
		err = errors.New("is empty: name CPUs, such as 0-3")
	}
	if err == nil {
		l.cpus = cpus
	}
	return err
}
