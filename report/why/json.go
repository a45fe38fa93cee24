package why

import (
	"pinfold.dev/pinfold/core/blame"
)

// reportJSON is a report as JSON. Times are in seconds.
type reportJSON struct {
	Observed   float64         `json:"observedSeconds"`
	Containers []containerJSON `json:"containers"`
	LostEvents uint64          `json:"lostEvents"`
	Lost       float64         `json:"lostSeconds"`
	Missed     int             `json:"missedSwitches"`
	Notes      []string        `json:"notes"`
}

type containerJSON struct {
	Name       string        `json:"name"`
	Limit      float64       `json:"limitCPUs,omitempty"`
	Period     float64       `json:"limitPeriodSeconds,omitempty"` // with a limit
	NotRead    bool          `json:"limitUnknown,omitempty"`
	Parts      partsJSON     `json:"parts"`
	Threads    []threadJSON  `json:"threads"`
	Longest    []delayJSON   `json:"longestDelays"`
	Periods    *uint32       `json:"periods,omitempty"` // nil if none was seen
	Throttled  *uint32       `json:"throttledPeriods,omitempty"`
	Parallel   float64       `json:"parallelThreads"`    // that want to run, on average while any does
	Causes     []causeJSON   `json:"causes"`             // one or two, the larger first
	Waits      []bucketJSON  `json:"waitHistogram"`      // of the lengths of waits for a CPU
	Throttles  []bucketJSON  `json:"throttledHistogram"` // of the lengths of throttlings
	Requests   *requestsJSON `json:"requests,omitempty"`
	Conclusion string        `json:"conclusion"`
	Advice     string        `json:"advice"`
	Command    string        `json:"command,omitempty"`
}

type causeJSON struct {
	Cause blame.Cause `json:"cause"`
	Share float64     `json:"share"` // of the time in which it wanted to run
}

// bucketJSON is the number of times of a length.
type bucketJSON struct {
	From  float64 `json:"fromSeconds"`
	To    float64 `json:"toSeconds"`
	Count uint64  `json:"count"`
}

type partsJSON struct {
	Running   float64    `json:"runningSeconds"`
	Stolen    float64    `json:"stolenSeconds"` // by interrupts and the hypervisor
	Throttled float64    `json:"throttledSeconds"`
	Waiting   float64    `json:"waitingSeconds"`
	Behind    []waitJSON `json:"waitingBehind"`
	Sleeping  float64    `json:"sleepingSeconds"`
	Unknown   float64    `json:"unknownSeconds"`
}

type waitJSON struct {
	Name string  `json:"name"`
	Time float64 `json:"seconds"`
}

type threadJSON struct {
	Thread  int    `json:"thread"`
	Process int    `json:"process"`
	Name    string `json:"processName,omitempty"`
	partsJSON
}

type delayJSON struct {
	Thread int     `json:"thread"`
	From   float64 `json:"fromSeconds"` // since the begin
	partsJSON
}

// JSON returns the report as a value for encoding/json.
func (r *Report) JSON() any {
	out := reportJSON{Observed: r.observed().Seconds(), LostEvents: r.Events, Lost: r.Lost.Seconds(), Missed: r.Missed, Notes: append([]string{}, r.notes()...), Containers: []containerJSON{}}
	for i := range r.Containers {
		out.Containers = append(out.Containers, r.containerJSON(&r.Containers[i]))
	}
	return out
}

func (r *Report) containerJSON(c *Container) containerJSON {
	sum := r.Groups[c.Group]
	v := r.verdict(c)
	out := containerJSON{Name: c.Name, Limit: float64(c.limit()), NotRead: c.Limits.Period == 0, Parts: r.partsJSON(&sum.Parts, c.Group),
		Threads: []threadJSON{}, Longest: []delayJSON{}, Parallel: v.Parallel, Waits: bucketsJSON(&sum.Waits), Throttles: bucketsJSON(&sum.Throttlings)}
	for _, reason := range v.Reasons {
		out.Causes = append(out.Causes, causeJSON{reason.Cause, float64(reason.Share)})
	}
	out.Conclusion, out.Advice, out.Command = r.conclude(c, &v)
	if throttled, all := r.periods(c); all > 0 {
		out.Throttled, out.Periods = &throttled, &all
	}
	if c.limit() > 0 {
		out.Period = c.Limits.Period.Seconds()
	}
	if c.Requests != nil {
		out.Requests = c.Requests.json(r.From)
	}
	for i := range sum.Threads {
		t := &sum.Threads[i]
		out.Threads = append(out.Threads, threadJSON{t.ID, t.Process, r.Process(t.Process), r.partsJSON(&t.Parts, c.Group)})
	}
	for i := range sum.Longest {
		d := &sum.Longest[i]
		out.Longest = append(out.Longest, delayJSON{d.Thread.ID, max(0, d.From-r.From).Seconds(), r.partsJSON(&d.Parts, c.Group)})
	}
	return out
}

func (r *Report) partsJSON(p *blame.Parts, own blame.Group) partsJSON {
	out := partsJSON{p.Running.Seconds(), p.Stolen.Seconds(), p.Throttled.Seconds(), p.Waiting().Seconds(), []waitJSON{}, p.Sleeping.Seconds(), p.Unknown.Seconds()}
	for _, by := range r.behind(p, own, len(p.Behind)) {
		out.Behind = append(out.Behind, waitJSON{by.name, by.time.Seconds()})
	}
	return out
}

// bucketsJSON returns what is not 0.
func bucketsJSON(h *blame.Histogram) []bucketJSON {
	out := []bucketJSON{}
	for i, n := range h {
		if n > 0 {
			out = append(out, bucketJSON{blame.Bucket(i).Seconds(), blame.Bucket(i + 1).Seconds(), n})
		}
	}
	return out
}
