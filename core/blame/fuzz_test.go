package blame

import (
	"slices"
	"testing"
	"time"
)

// eventSize is the number of bytes that decodeEvents makes an event of.
const eventSize = 8

// decodeEvents makes events of bytes. Few numbers occur, so that events are often about the same
// threads and CPUs.
func decodeEvents(data []byte) []Event {
	thread := func(b byte) Thread {
		return Thread{ID: int(b % 5), Process: int(b / 5 % 3), Group: Group(b / 15 % 5)}
	}
	var events []Event
	var now time.Duration
	for ; len(data) >= eventSize; data = data[eventSize:] {
		now += time.Duration(int8(data[1]))
		events = append(events, Event{
			Time: now, Kind: Kind(data[0] % 11), Whole: data[0] >= 128,
			CPU: int(data[2] % 3), State: State(data[3] % 8), Throttler: Group(data[4] % 6),
			Thread: thread(data[5]), Other: thread(data[6]), Clock: time.Duration(data[7]), Quota: &Quota{},
		})
	}
	return events
}

// FuzzEvents checks that any events, however wrong, lead to a report without contradictions.
func FuzzEvents(f *testing.F) {
	for _, seed := range fuzzSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var spans []Span
		options := Options{Start: 10, Longest: 3, Watched: map[Group]Group{1: 1, 2: 2, 3: 1}, Above: map[Group]Group{1: 4, 2: 4, 3: 1},
			Span: func(s Span) { spans = append(spans, s) }}
		a := New(options)
		events := decodeEvents(data)
		for i, e := range events {
			a.Add(e)
			if i%16 == 15 {
				checkReport(t, a.Report(e.Time), spans, options.Longest)
			}
		}
		checkReport(t, a.Report(a.now+7), spans, options.Longest)
		checkSpans(t, spans, options.Start, a.now)
		if t.Failed() {
			t.Logf("%+v", events)
		}
	})
}

// fuzzSeeds returns a few streams: a thread that runs, sleeps and waits; throttling on two CPUs;
// changes of groups and numbers.
func fuzzSeeds() [][]byte {
	const a1, a2, b3, x4 = 15 + 1, 15 + 5 + 2, 30 + 5 + 3, 10 + 4
	event := func(k Kind, after, cpu byte, s State, level, thread, other byte) []byte {
		return []byte{byte(k), after, cpu, byte(s), level, thread, other, 0}
	}
	return [][]byte{
		slices.Concat(
			event(Snapshot, 1, 0, Running, 0, a1, 0), event(Switch, 20, 0, Sleeping, 0, a1, x4),
			event(Wakeup, 5, 0, Waiting, 0, a1, x4), event(Migrate, 5, 1, Waiting, 0, a1, b3),
			event(Switch, 5, 1, Waiting, 0, b3, a1), event(Switch, 5, 1, Dead, 0, a1, 0)),
		slices.Concat(
			event(Switch, 1, 0, Unknown, 0, 0, a1), event(Switch, 1, 1, Unknown, 0, 0, a2),
			event(Switch, 20, 0, Throttled, 1, a1, b3), event(Switch, 5, 1, Throttled, 4, a2, x4),
			event(StillThrottled, 5, 0, Unknown, 0, a1, 0), event(Edge, 0, 0, Unknown, 0, a1, 0),
			event(Edge, 5, 0, Unknown, 0, 60, 0), event(Switch, 5, 1, Unknown, 0, x4, a2)),
		slices.Concat(
			event(Snapshot, 1, 0, Running, 0, a1, 0), event(Snapshot, 0, 0, Waiting, 0, a2, 0),
			event(Attach, 20, 0, Unknown, 0, 30+1, 0), event(Attach+128, 5, 0, Unknown, 0, 45+5+2, 0),
			event(Switch, 5, 0, Dead, 0, 30+1, 45+5+2), event(Exec, 5, 0, Unknown, 0, 45+5+1, 2),
			event(Loss, 5, 0, Unknown, 0, 0, 0), event(Snapshot, 5, 0, Sleeping, 0, 45+5+1, 0)),
	}
}

// checkReport checks a report of what spans tell.
func checkReport(t *testing.T, r *Report, spans []Span, longest int) {
	var reported, inSums time.Duration
	for _, s := range spans {
		if s.State <= Sleeping {
			reported += s.To - s.From
		}
	}
	if r.Lost < 0 || r.Missed < 0 {
		t.Errorf("lost %v, missed %d", r.Lost, r.Missed)
	}
	for g, one := range r.Groups {
		inSums += sum(&one.Parts)
		checkParts(t, one.Parts)
		var all time.Duration
		for _, thread := range one.Threads {
			checkParts(t, thread.Parts)
			if all += sum(&thread.Parts); sum(&thread.Parts) > max(0, r.To-r.From) {
				t.Errorf("group %d: parts of %v from %v to %v: %+v", g, thread.Thread, r.From, r.To, thread.Parts)
			}
		}
		if all > sum(&one.Parts) || all < sum(&one.Parts) && len(one.Threads) < maxEnded {
			t.Errorf("group %d: parts of threads add up to %v of %v", g, all, sum(&one.Parts))
		}
		for _, d := range one.Longest {
			if checkParts(t, d.Parts); d.Running != 0 || d.Sleeping != 0 || d.Delayed() > max(0, r.To-max(d.From, r.From)) {
				t.Errorf("group %d: delay %+v", g, d)
			}
		}
		if len(one.Longest) > longest || !slices.IsSortedFunc(one.Longest, longerFirst[Delay]) || !slices.IsSortedFunc(one.Threads, longerFirst[ThreadSum]) {
			t.Errorf("group %d: longest delays %+v, threads %+v", g, one.Longest, one.Threads)
		}
	}
	if reported != inSums {
		t.Errorf("groups account for %v of %v", inSums, reported)
	}
}

func checkParts(t *testing.T, p Parts) {
	var waiting time.Duration
	for by, d := range p.Behind {
		if waiting += d; d <= 0 {
			t.Errorf("%v behind %v", d, by)
		}
	}
	if p.Running < 0 || p.Stolen < 0 || p.Throttled < 0 || p.Sleeping < 0 || p.Unknown < 0 || p.Waiting() != waiting {
		t.Errorf("parts %+v", p)
	}
}

// checkSpans checks that the spans of each thread follow each other.
func checkSpans(t *testing.T, spans []Span, from, to time.Duration) {
	last := map[int]Span{}
	for _, s := range spans {
		if before, ok := last[s.Thread.ID]; (s.From < s.To) != (s.State != Dead) || s.From > s.To || s.From < from || s.To > to || ok && s.From < before.To {
			t.Errorf("span %v after %v", s, before)
		}
		last[s.Thread.ID] = s
	}
}
