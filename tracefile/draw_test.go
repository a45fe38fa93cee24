package tracefile

import (
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// drawRecording draws a recording of a few groups whose first sample begins at the start.
func drawRecording(t *rapid.T) *trace.Recording {
	rec := &trace.Recording{
		Start:    time.Unix(0, rapid.Int64Range(0, 4e18).Draw(t, "start")).UTC(),
		Interval: time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "nominal")),
	}
	groups := rapid.SliceOfNDistinct(rapid.StringMatching(`/[a-z,"é ]{1,8}`), 1, 4, rapid.ID[string]).Draw(t, "groups")
	for i, group := range groups {
		s := trace.Series{Group: group, Name: rapid.SampledFrom([]string{"", "ns/pod/container"}).Draw(t, "name")}
		at := time.Duration(0)
		for j := range rapid.IntRange(1, 20).Draw(t, "samples") {
			if i+j > 0 {
				at += time.Duration(rapid.SampledFrom([]int64{0, 0, 1e9}).Draw(t, "gap"))
			}
			sample := drawSample(t)
			at += sample.Interval
			sample.At = at
			s.Samples = append(s.Samples, sample)
		}
		rec.Series = append(rec.Series, s)
	}
	return rec
}

func drawSample(t *rapid.T) trace.Sample {
	unknown := trace.Figures(rapid.Byte().Draw(t, "unknown")) & trace.UsageOnly
	some := func(name string, figure trace.Figures) time.Duration {
		if unknown.Has(figure) {
			return 0
		}
		return time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1e17)).Draw(t, name))
	}
	s := trace.Sample{
		Interval: time.Duration(rapid.Int64Range(1, 2e15).Draw(t, "interval")), Usage: some("usage", 0),
		ThrottledTime: some("throttled time", trace.ThrottledTime), BurstTime: some("burst time", trace.Bursts), Waited: some("waited", trace.Waits),
		Periods: uint32(some("periods", trace.Periods)), Throttled: uint32(some("throttled", trace.Periods)), Bursts: uint32(some("bursts", trace.Bursts)),
		Late: rapid.Bool().Draw(t, "late"), Raised: rapid.Bool().Draw(t, "raised"), TraceEnded: rapid.Bool().Draw(t, "trace ended"), Unknown: unknown, Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond},
	}
	switch {
	case unknown.Has(trace.Limits):
		s.Limits.Period = 0
	case rapid.Bool().Draw(t, "limited"):
		s.Limits = bandwidth.Limits{Quota: some("quota", 0) + 1, Period: some("period", 0) + 1, Burst: some("burst", 0)}
		if s.Limits.Burst == 0 && rapid.Bool().Draw(t, "unknown burst") {
			s.Unknown |= trace.Burst
		}
	}
	return s
}

// inTime returns the rows of a recording in the order in which a sampler produces them: one sample
// of each group, then the next.
func inTime(rec *trace.Recording) []*Row {
	var rows []*Row
	for i := 0; ; i++ {
		before := len(rows)
		for _, s := range rec.Series {
			if i < len(s.Samples) {
				rows = append(rows, &Row{s.Group, s.Name, s.Samples[i]})
			}
		}
		if len(rows) == before {
			return rows
		}
	}
}

// steady returns a recording with n samples of 100 ms for each group, similar to that of an idle
// machine.
func steady(groups []string, n int) *trace.Recording {
	const interval = 100 * time.Millisecond
	rec := &trace.Recording{Start: time.Date(2026, 3, 29, 0, 59, 59, 123456789, time.UTC), Interval: interval}
	for g, group := range groups {
		s := trace.Series{Group: group}
		if g > 0 {
			s.Name = "default/web-" + group[1:] + "/server"
		}
		var at time.Duration
		random := uint64(g + 1)
		for i := range n {
			random = random*6364136223846793005 + 1442695040888963407
			r := time.Duration(random >> 33)
			sample := trace.Sample{Interval: interval + (r%100-50)*1000, Usage: r % (80 * time.Millisecond), Periods: 1}
			sample.Limits = bandwidth.Limits{Quota: 40 * time.Millisecond, Period: interval, Burst: 40 * time.Millisecond}
			if g == 0 {
				sample.Limits = bandwidth.Limits{Quota: bandwidth.Unlimited, Period: interval}
				sample.Periods = 0
			}
			if g > 0 && sample.Usage > 60*time.Millisecond {
				sample.Throttled, sample.ThrottledTime = 1, sample.Usage-40*time.Millisecond
				sample.Bursts, sample.BurstTime = 1, 10*time.Millisecond
			}
			if i == n/2 {
				sample.Interval, sample.Late = 3*interval, true
				at += time.Second
			}
			at += sample.Interval
			sample.At = at
			s.Samples = append(s.Samples, sample)
		}
		rec.Series = append(rec.Series, s)
	}
	return rec
}
