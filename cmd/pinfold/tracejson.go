package main

import (
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// traceInfo is a recording's summary as JSON. Times are in seconds.
type traceInfo struct {
	Start    time.Time   `json:"start"`
	Interval float64     `json:"intervalSeconds"`
	Groups   []groupInfo `json:"groups"`
}

type groupInfo struct {
	Group        string      `json:"group"`
	Name         string      `json:"name,omitempty"`
	Samples      int         `json:"samples"`
	Late         int         `json:"late"`
	Gaps         int         `json:"gaps"`
	Time         float64     `json:"seconds"`
	Usage        float64     `json:"cpuSeconds"`
	PerPeriod    periodInfo  `json:"perPeriod"`
	Limit        *limitStats `json:"limit,omitempty"`
	LimitChanges int         `json:"limitChanges"`
	// ThrottledShare is the share of the time in samples that show usage and not demand.
	ThrottledShare float64     `json:"throttledShare"`
	Scales         []scaleInfo `json:"timescales"`
}

// periodInfo are figures per period, in CPUs.
type periodInfo struct {
	Periods int     `json:"periods"`
	Mean    float64 `json:"mean"`
	SD      float64 `json:"sd"`
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
}

type scaleInfo struct {
	Window    float64 `json:"windowSeconds"`
	Windows   int     `json:"windows"`
	Max       float64 `json:"maxCPUs"`
	MaxEnd    float64 `json:"maxEndSeconds"` // since the start
	P99       float64 `json:"p99CPUs"`
	Throttled float64 `json:"throttledShare"`
}

func newTraceInfoJSON(rec *trace.Recording) traceInfo {
	info := traceInfo{Start: rec.Start.UTC(), Interval: rec.Interval.Seconds()}
	for i := range rec.Series {
		info.Groups = append(info.Groups, newGroupInfo(&rec.Series[i], rec.Interval))
	}
	return info
}

func newGroupInfo(s *trace.Series, interval time.Duration) groupInfo {
	sum := trace.Summarise(s, interval)
	p := sum.PerPeriod
	g := groupInfo{
		Group: s.Group, Name: s.Name, Samples: sum.Samples, Late: sum.Late, Gaps: sum.Gaps,
		Time: sum.Time.Seconds(), Usage: sum.Usage.Seconds(),
		PerPeriod:    periodInfo{p.Bins, p.Mean, p.SD, p.P95, p.P99, p.Max},
		LimitChanges: sum.LimitChanges, ThrottledShare: sum.ThrottledShare, Scales: []scaleInfo{},
	}
	if _, limited := sum.Limits.CPUs(); limited {
		l := sum.Limits
		g.Limit = &limitStats{
			Quota: l.Quota.Seconds(), Period: l.Period.Seconds(), Burst: l.Burst.Seconds(),
			TimerPeriods: sum.Periods, WallPeriods: sum.WallPeriods, ThrottledPeriods: sum.Throttled,
			ThrottledTime: sum.ThrottledTime.Seconds(), Bursts: &burstStats{sum.Bursts, sum.BurstTime.Seconds()},
		}
	}
	for _, sc := range trace.Timescales(s, interval) {
		g.Scales = append(g.Scales, newScaleInfo(sc))
	}
	return g
}

func newScaleInfo(sc trace.Scale) scaleInfo {
	return scaleInfo{sc.Window.Seconds(), sc.Windows, sc.Max, sc.MaxEnd.Seconds(), sc.P99, sc.Throttled}
}
