package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// Recording is a recorded set of groups.
type Recording struct {
	Start    time.Time     // wall clock when the recording began
	Interval time.Duration // nominal
	Series   []Series
}

// Series is the recording of one cgroup, in the order of time. A gap between the end of one sample
// and the beginning of the next means that the group did not exist, or that its counters were
// reset.
type Series struct {
	Group   string // path in the hierarchy
	Name    string // of a container, "namespace/pod/container"; "" if not known
	Samples []Sample
	Exact   *Exact // what its threads did, nil if that was not traced
}

// Sample is the usage and throttling of one cgroup in one interval.
type Sample struct {
	At       time.Duration // end of the interval, since the start of the recording (monotonic)
	Interval time.Duration // its real length, > 0
	Usage    time.Duration // CPU time used
	// Periods counts the periods in which the bandwidth timer ran. Throttled and Bursts count those
	// of them in which the group was throttled and in which it used more than its quota.
	Periods, Throttled, Bursts uint32
	ThrottledTime              time.Duration // summed over CPUs
	BurstTime                  time.Duration // CPU time used beyond quota
	// Waited is the time in which a thread waited for a CPU or was throttled (PSI, "some"), or the
	// sum over threads where the kernel does not have that (cgroupstat.Reader.ReadWaits).
	Waited time.Duration
	Limits bandwidth.Limits
	// Late means that the sample was taken too late and covers more than the nominal interval.
	Late bool
	// Raised means that the group and all above it had the largest weight, for the recording: it
	// got CPUs before its neighbours.
	Raised bool
	// TraceEnded means that what threads did was to be traced, too, and is not any more, because it
	// had cost too much.
	TraceEnded bool
	// Unknown are the fields that were not measured: they are 0, and Limits.Quota is Unlimited.
	Unknown Figures
}

// Figures is a set of figures of a sample.
type Figures uint8

// The figures that a recording may lack.
const (
	Limits  Figures = 1 << iota
	Periods         // and Throttled
	ThrottledTime
	Bursts // and BurstTime
	Waits
	Burst // of Limits, if these are known
)

// UsageOnly are the figures that a sample lacks of which nothing but the usage is known.
const UsageOnly = Limits | Periods | ThrottledTime | Bursts | Waits

// Has reports whether the set has one of the figures.
func (f Figures) Has(figures Figures) bool { return f&figures != 0 }

// Known returns a figure's value, or nil if the figure is one of the unknown ones.
func Known[T any](unknown, figure Figures, value T) *T {
	if unknown.Has(figure) {
		return nil
	}
	return &value
}

// MarshalJSON returns the names of the figures.
func (f Figures) MarshalJSON() ([]byte, error) {
	var names []string
	for i, name := range []string{"limit", "throttledPeriods", "throttledTime", "bursts", "waits", "burst"} {
		if f.Has(1 << i) {
			names = append(names, name)
		}
	}
	return json.Marshal(names)
}

// Begin returns the start of the sample, relative to the start of the recording.
func (s *Sample) Begin() time.Duration { return s.At - s.Interval }

// WasThrottled reports whether the group was throttled at any time in the sample. Its usage may
// then be less than its demand.
func (s *Sample) WasThrottled() bool { return s.Throttled > 0 || s.ThrottledTime > 0 }

// CPUs returns the sample's usage in CPUs.
func (s *Sample) CPUs() float64 { return float64(s.Usage) / float64(s.Interval) }

// MaxTime is an upper bound for the length of recordings. It is small enough that the sum of two
// such times does not overflow a time.Duration (292 years).
const MaxTime = 100 * 365 * 24 * time.Hour

// Validate returns an error if the sample is impossible.
func (s *Sample) Validate() error {
	switch {
	case s.Interval <= 0:
		return fmt.Errorf("the interval is %v, want more than 0", s.Interval)
	case s.Interval > MaxTime || s.At.Abs() > MaxTime:
		return errors.New("the sample is longer than 100 years, or that far from the start")
	}
	for _, t := range []struct {
		name  string
		value time.Duration
	}{{"usage", s.Usage}, {"throttled time", s.ThrottledTime}, {"burst time", s.BurstTime}, {"waiting time", s.Waited}} {
		if t.value < 0 || t.value > MaxTime {
			return fmt.Errorf("the %s is %v, want 0 or more, and less than 100 years", t.name, t.value)
		}
	}
	l := s.Limits
	switch {
	case l.Quota <= 0 && l.Quota != bandwidth.Unlimited:
		return fmt.Errorf("the quota is %v, want more than 0, or unlimited", l.Quota)
	case l.Quota != bandwidth.Unlimited && l.Period == 0:
		return fmt.Errorf("the quota is %v, without a period: give both, or neither", l.Quota)
	case l.Period < 0 || l.Burst < 0:
		return fmt.Errorf("the period is %v and the burst %v, want 0 or more", l.Period, l.Burst)
	}
	return nil
}

// Contiguous returns the longest sequences of samples without a gap, as subslices of s.Samples.
// Times that differ by less than a hundredth of the nominal interval count as equal, because other
// programs may have rounded them.
func (s *Series) Contiguous(nominal time.Duration) [][]Sample {
	var sequences [][]Sample
	begin := 0
	for i := range s.Samples {
		if i > 0 && (s.Samples[i].Begin()-s.Samples[i-1].At).Abs() > nominal/100 {
			sequences = append(sequences, s.Samples[begin:i])
			begin = i
		}
	}
	if begin < len(s.Samples) {
		sequences = append(sequences, s.Samples[begin:])
	}
	return sequences
}
