package recording

import (
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// Info is the summary of a recording as JSON. Times are in seconds.
type Info struct {
	Start    time.Time   `json:"start"`
	Interval float64     `json:"intervalSeconds"`
	Groups   []groupInfo `json:"groups"`
}

type groupInfo struct {
	Group        string        `json:"group"`
	Name         string        `json:"name,omitempty"`
	Samples      int           `json:"samples"`
	Late         int           `json:"late"`
	Gaps         int           `json:"gaps"`
	Raised       int           `json:"raised,omitempty"`     // samples; see trace.Sample
	TraceEnded   int           `json:"traceEnded,omitempty"` // as Raised
	Time         float64       `json:"seconds"`
	Usage        float64       `json:"cpuSeconds"`
	PerPeriod    trace.Stats   `json:"perPeriod"`
	Limit        *Limit        `json:"limit,omitempty"` // nil without one, or if nothing of it is known
	LimitChanges int           `json:"limitChanges"`
	Unknown      trace.Figures `json:"unknown,omitempty"`
	// ThrottledShare is the share of the time in samples whose usage may be less than the demand.
	ThrottledShare *float64      `json:"throttledShare,omitempty"`
	Scales         []trace.Scale `json:"timescales"`
	Traced         *tracedInfo   `json:"traced,omitempty"`
	Notes          []string      `json:"notes,omitempty"`
}

// tracedInfo is a [trace.Exact] as JSON. Times are those of all threads together.
type tracedInfo struct {
	Running   float64 `json:"runningSeconds"`
	Throttled float64 `json:"throttledSeconds"`
	Waiting   float64 `json:"waitingSeconds"`
	Unknown   float64 `json:"unknownSeconds"`
	Periods   uint32  `json:"timerPeriods"`
}

// Limit is a limit with what the kernel counted under it, as JSON. Times are in seconds.
type Limit struct {
	Quota            *float64 `json:"quotaSeconds,omitempty"`  // nil is unknown
	Period           *float64 `json:"periodSeconds,omitempty"` // nil with the quota; wallPeriods are then those of 100 ms
	Burst            *float64 `json:"burstSeconds,omitempty"`
	TimerPeriods     *uint64  `json:"timerPeriods,omitempty"` // in which the kernel's timer ran
	WallPeriods      float64  `json:"wallPeriods"`            // of wall-clock time
	ThrottledPeriods *uint64  `json:"throttledPeriods,omitempty"`
	ThrottledTime    *float64 `json:"throttledSeconds,omitempty"` // sum over CPUs
	Bursts           *Bursts  `json:"bursts,omitempty"`
}

// Bursts are the periods in which a group used more than its quota.
type Bursts struct {
	Periods uint64  `json:"periods"`
	Time    float64 `json:"seconds"`
}

// NewInfo summarises a recording.
func NewInfo(rec *trace.Recording) Info {
	info := Info{Start: rec.Start.UTC(), Interval: rec.Interval.Seconds()}
	for i := range rec.Series {
		info.Groups = append(info.Groups, newGroupInfo(&rec.Series[i], rec.Interval))
	}
	return info
}

func newGroupInfo(s *trace.Series, interval time.Duration) groupInfo {
	sum := trace.Summarise(s, interval)
	g := groupInfo{
		Group: s.Group, Name: s.Name, Samples: sum.Samples, Late: sum.Late, Gaps: sum.Gaps, Raised: sum.Raised, TraceEnded: sum.TraceEnded,
		Time: sum.Time.Seconds(), Usage: sum.Usage.Seconds(),
		PerPeriod: sum.PerPeriod, LimitChanges: sum.LimitChanges, Unknown: sum.Unknown,
		ThrottledShare: trace.Known(sum.Unknown, trace.Periods, sum.ThrottledShare), Scales: trace.Timescales(s, interval),
		Notes: notes(s, &sum, interval),
	}
	if _, limited := sum.Limits.CPUs(); limited || sum.Periods > 0 || sum.Unknown.Has(trace.Limits) && !sum.Unknown.Has(trace.Periods) {
		g.Limit = NewLimit(&sum)
	}
	if x := s.Exact; x != nil {
		g.Traced = &tracedInfo{x.Running.Seconds(), x.Throttled.Seconds(), x.Waiting.Seconds(), x.Unknown.Seconds(), x.Periods()}
	}
	return g
}

// NewLimit returns the limit of a summary.
func NewLimit(sum *trace.Summary) *Limit {
	l := sum.Limits
	return &Limit{
		Quota: trace.Known(sum.Unknown, trace.Limits, l.Quota.Seconds()), Period: trace.Known(sum.Unknown, trace.Limits, l.Period.Seconds()),
		Burst:        trace.Known(sum.Unknown, trace.Limits|trace.Burst, l.Burst.Seconds()),
		TimerPeriods: trace.Known(sum.Unknown, trace.Periods, sum.Periods), WallPeriods: sum.WallPeriods, ThrottledPeriods: trace.Known(sum.Unknown, trace.Periods, sum.Throttled),
		ThrottledTime: trace.Known(sum.Unknown, trace.ThrottledTime, sum.ThrottledTime.Seconds()),
		Bursts:        trace.Known(sum.Unknown, trace.Bursts, Bursts{sum.Bursts, sum.BurstTime.Seconds()}),
	}
}
