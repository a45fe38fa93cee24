package why

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// Request is the time of a request.
type Request struct{ Start, End time.Time }

// Requests is where the time of the slowest requests went.
type Requests struct {
	Logged, Traced int // in the log, and of these within the time that was traced
	P99            time.Duration
	Slowest        []Slow // the slowest 1% of the traced ones, slowest first
}

// Slow is a request whose time was split.
type Slow struct {
	From, Took time.Duration // on the clock of the trace
	blame.Parts
}

// Slowest splits the times of the slowest requests of a log. offset is the time of the Unix epoch
// on the clock of the trace.
func Slowest(log []Request, timeline *blame.Timeline, from, to, offset time.Duration) *Requests {
	r := &Requests{Logged: len(log)}
	var traced []Slow
	for _, q := range log {
		s := Slow{From: time.Duration(q.Start.UnixNano()) + offset, Took: q.End.Sub(q.Start)}
		if s.From >= from && s.From+s.Took <= to {
			traced = append(traced, s)
		}
	}
	if r.Traced = len(traced); r.Traced == 0 {
		return r
	}
	slices.SortStableFunc(traced, func(a, b Slow) int { return int(b.Took - a.Took) })
	n := int(math.Ceil(float64(len(traced)) / 100))
	r.P99, r.Slowest = traced[n-1].Took, slices.Clip(traced[:n])
	for i := range r.Slowest {
		s := &r.Slowest[i]
		s.Parts = timeline.Split(s.From, s.From+s.Took)
	}
	return r
}

// mean returns the mean of the slowest requests.
func (r *Requests) mean() (mean Slow) {
	n := time.Duration(len(r.Slowest))
	for i := range r.Slowest {
		mean.Took += r.Slowest[i].Took
		mean.Add(&r.Slowest[i].Parts)
	}
	for _, d := range []*time.Duration{&mean.Took, &mean.Running, &mean.Throttled, &mean.Others, &mean.Own, &mean.Idle, &mean.Unknown, &mean.Sleeping} {
		*d /= n
	}
	return mean
}

// text prints where the time of the slowest requests went.
func (r *Requests) text(w io.Writer, begin time.Duration) {
	fmt.Fprintf(w, "\n  slowest 1%% of the %s that were traced (%d): %s and more\n", quantity.Count(r.Traced, "request"), len(r.Slowest), milliseconds(r.P99))
	print := func(what string, s Slow) {
		var all []string
		for _, p := range []struct {
			what string
			d    time.Duration
		}{{"throttled", s.Throttled}, {"behind others", s.Others}, {"behind own threads", s.Own}, {"idle CPU", s.Idle},
			{"running", s.Running}, {"not on CPUs", s.Sleeping}, {"unknown", s.Unknown}} {
			if p.d > s.Took/1000 {
				all = append(all, fmt.Sprintf("%s %s", p.what, milliseconds(p.d)))
			}
		}
		for i, line := range report.Wrap(strings.Join(all, ", "), textWidth-32) {
			if i > 0 {
				what = ""
			}
			fmt.Fprintf(w, "  %-30s%s\n", what, line)
		}
	}
	print(milliseconds(r.mean().Took)+" on average:", r.mean())
	for _, s := range r.Slowest[:min(3, len(r.Slowest))] {
		print(fmt.Sprintf("%s at %s:", milliseconds(s.Took), seconds(s.From-begin)), s)
	}
}

// requestsJSON are requests as JSON. Times are in seconds.
type requestsJSON struct {
	Logged  int        `json:"logged"`
	Traced  int        `json:"traced"`
	P99     float64    `json:"p99Seconds"`
	Slowest []slowJSON `json:"slowest"` // 1%
}

type slowJSON struct {
	From      float64 `json:"fromSeconds"` // since the begin
	Took      float64 `json:"seconds"`
	Running   float64 `json:"runningSeconds"`
	Throttled float64 `json:"throttledSeconds"`
	Others    float64 `json:"behindOthersSeconds"`
	Own       float64 `json:"behindOwnThreadsSeconds"`
	Idle      float64 `json:"idleCPUSeconds"`
	Unknown   float64 `json:"unknownSeconds"`
	Asleep    float64 `json:"notOnCPUsSeconds"`
}

func (r *Requests) json(begin time.Duration) *requestsJSON {
	out := &requestsJSON{r.Logged, r.Traced, r.P99.Seconds(), []slowJSON{}}
	for _, s := range r.Slowest {
		out.Slowest = append(out.Slowest, slowJSON{(s.From - begin).Seconds(), s.Took.Seconds(), s.Running.Seconds(), s.Throttled.Seconds(),
			s.Others.Seconds(), s.Own.Seconds(), s.Idle.Seconds(), s.Unknown.Seconds(), s.Sleeping.Seconds()})
	}
	return out
}
