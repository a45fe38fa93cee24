package blame

import (
	"slices"
	"sort"
	"time"
)

// Timeline records the states of a group's threads, and splits the times of the requests that they
// served. Usage: Add all spans, then Split.
//
// Which threads serve a request is unknown. So each moment of a request is divided evenly among the
// threads that want to run. If no thread wants to run, the request waits for something else: a
// lock, a disk, another service.
type Timeline struct {
	Group   Group
	Watched map[Group]Group // as in Options
	// MaxSpans limits the number of recorded spans, 0 for no limit.
	MaxSpans int
	// Cut means that spans beyond MaxSpans were dropped. Requests after the last span cannot be split.
	Cut bool

	changes []change
	// sums are the parts of the time from the first change to each one. nil: not computed.
	sums [][numParts]float64
}

// change is the begin or the end of a span.
type change struct {
	at   time.Duration
	part part
	more int // threads: +1 or -1
}

// Add records a span.
func (t *Timeline) Add(s Span) {
	p := partOf(s.State, s.By, t.Group)
	if t.Watched[s.Thread.Group] != t.Group || p == sleeping || s.To <= s.From {
		return
	}
	if t.MaxSpans > 0 && len(t.changes) >= 2*t.MaxSpans {
		t.Cut = true
		return
	}
	t.changes = append(t.changes, change{s.From, p, 1}, change{s.To, p, -1})
	t.sums = nil
}

// sum computes sums.
func (t *Timeline) sum() {
	slices.SortStableFunc(t.changes, func(a, b change) int { return int(a.at - b.at) })
	t.sums = make([][numParts]float64, len(t.changes))
	var counts [numParts]int
	var sum [numParts]float64
	for i, c := range t.changes {
		if i > 0 {
			add(&sum, counts, c.at-t.changes[i-1].at)
		}
		counts[c.part] += c.more
		t.sums[i] = sum
	}
}

// add adds a time d in which counts threads were in each part.
func add(sum *[numParts]float64, counts [numParts]int, d time.Duration) {
	all := 0
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		sum[sleeping] += float64(d)
		return
	}
	for p, n := range counts {
		sum[p] += float64(d) * float64(n) / float64(all)
	}
}

// until returns the parts of the time from the first change until at.
func (t *Timeline) until(at time.Duration) (sum [numParts]float64) {
	next := sort.Search(len(t.changes), func(i int) bool { return t.changes[i].at > at })
	if next == 0 {
		sum[sleeping] = float64(at - t.changes[0].at) // negative: before the first change
		return sum
	}
	sum = t.sums[next-1]
	begin := t.changes[next-1].at
	if next == len(t.changes) {
		sum[sleeping] += float64(at - begin)
		return sum
	}
	end := t.changes[next].at
	for p := range sum {
		sum[p] += (t.sums[next][p] - sum[p]) * float64(at-begin) / float64(end-begin)
	}
	return sum
}

// Split returns the parts of a time. They add up to it, except for rounding.
func (t *Timeline) Split(from, to time.Duration) (split Parts) {
	if len(t.changes) == 0 {
		return Parts{Sleeping: to - from}
	}
	if t.sums == nil {
		t.sum()
	}
	begin, end := t.until(from), t.until(to)
	for p, d := range split.fields() {
		*d = time.Duration(end[p] - begin[p] + 0.5)
	}
	return split
}
