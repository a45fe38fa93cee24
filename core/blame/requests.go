package blame

import (
	"slices"
	"sort"
	"time"
)

// part is a part of a Split.
type part int

const (
	running part = iota
	stolen
	throttled
	others
	own
	idle
	unknown
	asleep
	parts // their number
)

// partOf returns the part to which the time of a thread of a group counts.
func partOf(s State, by Occupant, group Group) part {
	switch {
	case s == Running:
		return running
	case s == Throttled:
		return throttled
	case s == Unknown:
		return unknown
	case s != Waiting:
		return asleep
	case by.Process == 0:
		return idle
	case by.Group == group:
		return own
	}
	return others
}

func newSplit(p [parts]time.Duration) Split {
	return Split{p[running], p[stolen], p[throttled], p[others], p[own], p[idle], p[unknown], p[asleep]}
}

// Timeline records what the threads of a group did, and splits the times of requests that they handled.
// The threads that handle a request are not known, so at each moment a request is split evenly between what all
// threads do that want to run. When none does, the request waits for something else: a lock, a disk, another
// service. Usage: Add all spans, then Split.
type Timeline struct {
	Group   Group
	Watched map[Group]Group // as in Options
	// Most is the largest number of pieces to record, 0 for no limit.
	Most int
	// Cut is whether there were more. Requests after the last piece cannot be split.
	Cut bool

	changes []change
	// sums are the parts of the time from the first change to each one. nil: not computed.
	sums [][parts]float64
}

// change is the begin or the end of what a thread did.
type change struct {
	at   time.Duration
	part part
	more int // +1 or -1
}

// Add records a span.
func (t *Timeline) Add(s Span) {
	p := partOf(s.State, s.By, t.Group)
	if t.Watched[s.Thread.Group] != t.Group || p == asleep || s.To <= s.From {
		return
	}
	if t.Most > 0 && len(t.changes) >= 2*t.Most {
		t.Cut = true
		return
	}
	t.changes = append(t.changes, change{s.From, p, 1}, change{s.To, p, -1})
	t.sums = nil
}

// sum computes sums.
func (t *Timeline) sum() {
	slices.SortStableFunc(t.changes, func(a, b change) int { return int(a.at - b.at) })
	t.sums = make([][parts]float64, len(t.changes))
	var counts [parts]int
	var sum [parts]float64
	for i, c := range t.changes {
		if i > 0 {
			add(&sum, counts, c.at-t.changes[i-1].at)
		}
		counts[c.part] += c.more
		t.sums[i] = sum
	}
}

// add adds a time in which that many threads did each.
func add(sum *[parts]float64, counts [parts]int, d time.Duration) {
	all := 0
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		sum[asleep] += float64(d)
		return
	}
	for p, n := range counts {
		sum[p] += float64(d) * float64(n) / float64(all)
	}
}

// until returns the parts of the time from the first change to a time.
func (t *Timeline) until(at time.Duration) (sum [parts]float64) {
	next := sort.Search(len(t.changes), func(i int) bool { return t.changes[i].at > at })
	if next == 0 {
		sum[asleep] = float64(at - t.changes[0].at) // negative: before the first change
		return sum
	}
	sum = t.sums[next-1]
	begin := t.changes[next-1].at
	if next == len(t.changes) {
		sum[asleep] += float64(at - begin)
		return sum
	}
	end := t.changes[next].at
	for p := range sum {
		sum[p] += (t.sums[next][p] - sum[p]) * float64(at-begin) / float64(end-begin)
	}
	return sum
}

// Split splits a time. The parts add up to it, but for rounding.
func (t *Timeline) Split(from, to time.Duration) Split {
	if len(t.changes) == 0 {
		return Split{Asleep: to - from}
	}
	if t.sums == nil {
		t.sum()
	}
	begin, end := t.until(from), t.until(to)
	var split [parts]time.Duration
	for p := range split {
		split[p] = time.Duration(end[p] - begin[p] + 0.5)
	}
	return newSplit(split)
}
