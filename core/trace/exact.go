package trace

import (
	"path"
	"slices"
	"sort"
	"time"

	"pinfold.dev/pinfold/core/blame"
)

// Exact accumulates the traced spans of a series' threads, and computes its demand from them.
// Nothing is estimated: a thread wants one CPU at most, and no time is lost. Time for which threads
// waited for a CPU is not removed, but [Series.Bounds] does that. A thread that takes one
// request after the other from a queue, without sleeping, seems to want all of them at once.
type Exact struct {
	From, To time.Duration // what was traced, since the start of the recording

	// Times of all threads together. Running includes what interrupts and the hypervisor used.
	Running, Throttled, Waiting, Unknown time.Duration
	First, Last                          *blame.Quota // at the first and last edge; nil if there was none

	samples []Sample
	// served is the demand had nothing been throttled; unhindered had also no thread waited for a
	// CPU.
	served, unhindered mover
	open               []window // in which demand is not known
}

// mover moves what late threads run to when they wanted to run: earlier, by the time for which they
// were held up since they were last on time.
type mover struct {
	samples []Sample
	moved   []time.Duration // demand minus usage of each sample
	late    map[int]*late   // by thread
}

func newMover(samples []Sample) mover {
	return mover{samples, make([]time.Duration, len(samples)), map[int]*late{}}
}

// longSleep is the shortest sleep of a thread that has no work. A shorter one waits for a lock or a
// disk, and would have happened earlier without throttling.
const longSleep = time.Millisecond

// late is a thread that was held up and has not been without work since.
type late struct {
	since time.Duration
	by    time.Duration // held up since
}

// Exacts are the traced series of a recording, by group.
type Exacts map[string]*Exact

// Add adds a span of a thread to its group and those above it, or an edge to its group.
func (e Exacts) Add(s *Span) {
	for group := s.Group; ; group = path.Dir(group) {
		if x := e[group]; x != nil {
			x.Add(s)
		}
		if s.Quota != nil || group == path.Dir(group) {
			return
		}
	}
}

type window struct{ from, to time.Duration }

// NewExact returns an Exact without spans for a series. The samples of the series must not change.
func NewExact(s *Series) *Exact {
	return &Exact{samples: s.Samples, served: newMover(s.Samples), unhindered: newMover(s.Samples)}
}

// Add adds a span of a thread of the group, or of a group below it, or an edge of the group's
// quota. The spans of each thread must be in the order of time.
func (x *Exact) Add(s *Span) {
	if s.Quota != nil {
		if x.First == nil {
			x.First = s.Quota
		}
		x.Last = s.Quota
		return
	}
	d := s.To - s.From
	switch s.State {
	case blame.Running:
		x.Running += d
	case blame.Throttled:
		x.Throttled += d
	case blame.Waiting:
		x.Waiting += d
	case blame.Unknown:
		x.Unknown += d
		if x.served.late[s.Thread] != nil { // it may have slept
			x.open = append(x.open, window{s.From, s.To})
		}
	}
	x.served.add(s, s.State == blame.Throttled)
	x.unhindered.add(s, s.State == blame.Throttled || s.State == blame.Waiting)
}

// add adds a span, in which the thread was held up or not.
func (m *mover) add(s *Span, heldUp bool) {
	l, d := m.late[s.Thread], s.To-s.From
	switch {
	case heldUp:
		if l == nil {
			l = &late{since: s.From}
			m.late[s.Thread] = l
		}
		l.by += d
	case s.State == blame.Running && l != nil:
		m.spread(s.From, s.To, -1)
		m.spread(s.From-l.by, s.To-l.by, 1)
	case s.State == blame.Sleeping && d >= longSleep || s.State == blame.Dead:
		delete(m.late, s.Thread)
	}
}

// Periods returns the number of periods in which the quota's timer ran (nr_periods).
func (x *Exact) Periods() uint32 {
	if x.First == nil {
		return 0
	}
	return x.Last.Periods - x.First.Periods + 1
}

// spread adds a time (or, if sign is -1, subtracts it) to the samples in which it lies. The part
// before the first sample belongs to the first.
func (m *mover) spread(from, to, sign time.Duration) {
	i := sort.Search(len(m.samples), func(i int) bool { return m.samples[i].At > from })
	if i == 0 && len(m.samples) > 0 {
		before := min(to, m.samples[0].Begin()) - from
		m.moved[0] += sign * max(0, before)
	}
	for ; i < len(m.samples) && m.samples[i].Begin() < to; i++ {
		m.moved[i] += sign * max(0, min(to, m.samples[i].At)-max(from, m.samples[i].Begin()))
	}
}

// End ends the trace, which covers from to to. Threads that are still late have demand of an
// unknown amount.
func (x *Exact) End(from, to time.Duration) {
	x.From, x.To = from, to
	for _, l := range x.served.late {
		x.open = append(x.open, window{l.since, to})
	}
	x.served.late, x.unhindered.late = nil, nil
	slices.SortFunc(x.open, func(a, b window) int { return int(a.from - b.from) })
	merged := x.open[:0]
	for _, w := range x.open {
		if n := len(merged); n > 0 && w.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, w.to)
		} else {
			merged = append(merged, w)
		}
	}
	x.open = merged
}

// maxUntraced is the largest share of the throttled time without trace for which demand is computed
// from spans.
const maxUntraced = .1

// enough reports whether demand can be computed: all but a small share of the throttling was
// traced.
func (x *Exact) enough() bool {
	var throttled, untraced time.Duration
	for i := range x.samples {
		s := &x.samples[i]
		if !s.WasThrottled() {
			continue
		}
		throttled += s.Interval
		untraced += s.Interval - max(0, min(s.At, x.To)-max(s.Begin(), x.From))
	}
	return float64(untraced) <= maxUntraced*float64(throttled)
}

// move replaces the usage of the series' samples by demand.
func (m *mover) move(samples []Sample) {
	rest := time.Duration(0) // usage is counted up to a tick later than it was traced
	for i := range samples {
		rest += samples[i].Usage + m.moved[i]
		samples[i].Usage = max(0, rest)
		rest = min(0, rest)
	}
}

// unknown returns the number and the total length of the windows in which demand is unknown.
func (x *Exact) unknown() (open int, length time.Duration) {
	for _, w := range x.open {
		length += w.to - w.from
	}
	return len(x.open), length
}
