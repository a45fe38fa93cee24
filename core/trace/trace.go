package trace

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// Sample is the usage and throttling of one cgroup in one interval.
type Sample struct {
	At       time.Duration // the interval's end, since the recording began (monotonic)
	Interval time.Duration // how long it really was; > 0
	Usage    time.Duration // CPU time used
	// Periods counts those periods in which the bandwidth timer ran; Throttled, of
	// these, in which the group was throttled; Bursts, in which more than quota was used.
	Periods, Throttled, Bursts uint32
	ThrottledTime              time.Duration
	BurstTime                  time.Duration // CPU time used beyond quota
	Limits                     bandwidth.Limits
	// Late says that the sample was taken too late to count as one of the nominal
	// interval: it covers more.
	Late bool
}

// Series is the recording of one cgroup, in the order of time. A gap between the end of one sample
// and the beginning of the next means that the group did not exist, or that its counters were
// reset.
type Series struct {
	Group   string // path in the hierarchy
	Name    string // of a container, "namespace/pod/container"; "" when not known
	Samples []Sample
}

// Recording is a recorded set of groups.
type Recording struct {
	Start    time.Time     // wall clock when the recording began
	Interval time.Duration // nominal
	Series   []Series
}
