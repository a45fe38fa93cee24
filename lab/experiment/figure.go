package experiment

import (
	"math"
	"strconv"
)

// Figure is the name of something that is measured in a window.
type Figure string

// The figures. Latencies are in milliseconds. Those of the service are of the first service of a
// [Config].
const (
	Calls     Figure = "calls"     // answered requests per second
	Mean      Figure = "mean"      // of latency
	P50       Figure = "p50"       // quantiles of latency
	P75       Figure = "p75"       //
	P90       Figure = "p90"       //
	P99       Figure = "p99"       //
	P999      Figure = "p99.9"     //
	Longest   Figure = "longest"   // latency of a window
	Goodput   Figure = "goodput"   // work done: per cycle, or per second of programs without cycles
	Backlog   Figure = "backlog"   // milliseconds of CPU time that are left at the end of a period: mean of "demand"
	Full      Figure = "full"      // share of periods of 100 ms in which the services used all CPUs
	Elapsed   Figure = "elapsed"   // seconds until the service ended
	Used      Figure = "used"      // CPUs that the service used
	Peak      Figure = "peak"      // the same, in the 100 ms of a window in which it used most
	PeakSlow  Figure = "peak1s"    // the same, in the second of a window in which it used most
	Throttled Figure = "throttled" // share of the periods of the quota's timer in which the service was throttled
	Waited    Figure = "waited"    // milliseconds per second that threads of the service were ready and did not run
	Others    Figure = "others"    // CPUs that the other services used
	Machine   Figure = "machine"   // share of the CPUs that everything but the load generator used
	Generator Figure = "generator" // share of the CPUs that the load generator used
	Cost      Figure = "cost"      // microseconds of CPU time of the load generator for a request
	Lateness  Figure = "lateness"  // of the load generator: the longest, in milliseconds
	Foreign   Figure = "foreign"   // share of the CPUs that other processes used
	Stolen    Figure = "stolen"    // share of the CPUs that a hypervisor took
)

// AllUsed is the share of the CPUs from which all count as used: the sampler needs the rest.
const AllUsed = 0.97

// latencies are the figures of the latency of requests.
func latencies() []Figure { return []Figure{Mean, P50, P75, P90, P99, P999, Longest} }

// quantiles are the shares of requests that are not slower than figures of latency.
func quantiles() map[Figure]float64 {
	return map[Figure]float64{P50: .5, P75: .75, P90: .9, P99: .99, P999: .999}
}

// Unit is how the values of a figure are formatted.
type Unit string

// The units.
const (
	PerSecond    Unit = "/s"
	Milliseconds Unit = "ms"
	Microseconds Unit = "µs"
	Seconds      Unit = "s"
	CPUs         Unit = "CPUs"
	Share        Unit = "%" // values are from 0 to 1
	Work         Unit = ""
)

// Description describes a figure.
type Description struct {
	Label string
	Unit  Unit
	// Better is 1 if more is better, -1 if less is, and 0 if neither is.
	Better int
}

// Figures returns all figures.
func Figures() map[Figure]Description {
	latency := func(label string) Description { return Description{label, Milliseconds, -1} }
	return map[Figure]Description{
		Calls: {"answered requests", PerSecond, 1}, Goodput: {"goodput", Work, 1}, Elapsed: {"time to finish", Seconds, -1},
		Mean: latency("mean latency"), P50: latency("p50 latency"), P75: latency("p75 latency"), P90: latency("p90 latency"), P99: latency("p99 latency"),
		P999: latency("p99.9 latency"), Longest: latency("longest latency of a window"),
		Backlog: {"work left at the end of a period", Milliseconds, -1}, Full: {"periods without idle CPUs", Share, -1},
		Used: {"usage", CPUs, 0}, Peak: {"peak usage in 100 ms", CPUs, 0}, PeakSlow: {"peak usage in 1 s", CPUs, 0},
		Throttled: {"throttled periods", Share, -1}, Waited: {"waiting for CPUs", Milliseconds, -1}, Others: {"usage of the others", CPUs, 0},
		Machine: {"usage of the machine", Share, 0}, Generator: {"load generator", Share, 0}, Cost: {"cost of a request", Microseconds, 0},
		Lateness: {"lateness of the generator", Milliseconds, 0}, Foreign: {"other processes", Share, 0}, Stolen: {"stolen time", Share, 0},
	}
}

// Format formats a value of a figure with its unit and three significant digits.
func (f Figure) Format(value float64) string {
	unit := Figures()[f].Unit
	switch unit {
	case Share:
		return significant(100*value) + "%"
	case Work:
		return significant(value)
	case PerSecond:
		return significant(value) + "/s"
	}
	return significant(value) + " " + string(unit)
}

// significant formats a number with three significant digits, and whole numbers above that.
func significant(value float64) string {
	if value == 0 {
		return "0"
	}
	places := max(0, 2-int(math.Floor(math.Log10(math.Abs(value)))))
	return strconv.FormatFloat(value, 'f', min(places, 6), 64)
}
