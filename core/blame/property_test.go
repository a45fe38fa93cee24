package blame

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestParts checks that an analysis of a simulated kernel's events finds what each thread did at
// each time.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKernel(t)
		t.Repeat(k.actions())
		k.tracing = true
		k.list(t)
		k.options.Start, k.observing = k.now, true
		for _, x := range k.tasks {
			x.always = x.observed
		}
		for range 3 {
			t.Repeat(k.actions())
		}
		k.pass(5)

		var spans []Span
		k.options.Span = func(s Span) { spans = append(spans, s) }
		delays := map[Group][]time.Duration{}
		k.options.Delay = func(g Group, d Delay) { delays[g] = append(delays[g], d.Delayed()) }
		a := New(k.options)
		for _, e := range k.events {
			a.Add(e)
		}
		r := a.Report(k.now)
		t.Logf("groups %v above %v, from %v: %+v", k.options.Watched, k.options.Above, k.options.Start, k.events)
		if r.From != k.options.Start || r.To != k.now || r.Missed != 0 || r.Lost != 0 {
			t.Errorf("from %v to %v, missed %d, lost %v", r.From, r.To, r.Missed, r.Lost)
		}
		k.compareSpans(t, spans)
		k.compareDelays(t, delays)
		k.compareGroups(t, r)
		k.compareThreads(t, r)
	})
}

// list sends a snapshot of each thread, while other things go on.
func (k *kernel) list(t *rapid.T) {
	tasks := slices.Clone(k.tasks)
	next := func(t *rapid.T) {
		if len(tasks) == 0 {
			t.SkipNow()
		}
		if slices.Contains(k.tasks, tasks[0]) {
			k.snapshot(tasks[0])
		}
		tasks = tasks[1:]
	}
	actions := k.actions()
	actions["snapshot"], actions["snapshot of another"] = next, next
	t.Repeat(actions)
	for len(tasks) > 0 {
		next(t)
	}
}

// compareSpans checks that threads did at each time what they should.
func (k *kernel) compareSpans(t *rapid.T, spans []Span) {
	got, want := byThread(t, spans), byThread(t, k.spans)
	for id := range k.newest {
		if id++; !slices.Equal(got[id], want[id]) {
			t.Errorf("thread %d:\n got %v\nwant %v", id, got[id], want[id])
		}
	}
}

// byThread returns the spans of each thread without the last, empty ones of a group, and joins
// those between which nothing changed.
func byThread(t *rapid.T, spans []Span) map[int][]Span {
	threads := map[int][]Span{}
	for _, s := range spans {
		all := threads[s.Thread.ID]
		if s.State == Dead {
			if s.From != s.To || len(all) > 0 && s.From < all[len(all)-1].To {
				t.Errorf("%v after %v", s, all)
			}
			continue
		}
		if len(all) == 0 {
			threads[s.Thread.ID] = []Span{s}
			continue
		}
		last := &all[len(all)-1]
		if s.From >= s.To || s.From < last.To {
			t.Errorf("%v after %v", s, *last)
		}
		if joined := (Span{s.Thread, s.CPU, s.State, s.By, last.From, s.From}); joined == *last {
			last.To = s.To
		} else {
			threads[s.Thread.ID] = append(all, s)
		}
	}
	return threads
}

// compareDelays checks the delays that have ended.
func (k *kernel) compareDelays(t *rapid.T, delays map[Group][]time.Duration) {
	for _, g := range slices.Sorted(maps.Values(k.options.Watched)) {
		want := slices.DeleteFunc(slices.Clone(k.delays[g]), func(d time.Duration) bool { return d == 0 })
		if got := delays[g]; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: delays %v, want %v", name(g), got, want)
		}
	}
}

// union returns the time in which at least one of a group's threads was in one of some states.
func (k *kernel) union(g Group, states ...State) (total time.Duration) {
	var spans []Span
	for _, s := range k.spans {
		if k.options.Watched[s.Thread.Group] == g && slices.Contains(states, s.State) {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(x, y Span) int { return cmp.Compare(x.From, y.From) })
	end := time.Duration(0)
	for _, s := range spans {
		total += max(0, s.To-max(end, s.From))
		end = max(end, s.To)
	}
	return total
}

// compareGroups checks the parts and the longest delays of groups.
func (k *kernel) compareGroups(t *rapid.T, r *Report) {
	want := map[Group]*Parts{}
	for _, s := range k.spans {
		at(want, k.options.Watched[s.Thread.Group]).Count(s.State, s.By, k.options.Watched[s.Thread.Group], s.To-s.From)
	}
	for thread, d := range k.stolen {
		p := at(want, k.options.Watched[thread.Group])
		p.Running, p.Stolen = p.Running-d, p.Stolen+d
	}
	for _, x := range k.tasks {
		k.endDelay(x)
	}
	for _, g := range slices.Sorted(maps.Values(k.options.Watched)) {
		same(t, name(g), &r.Groups[g].Parts, at(want, g))
		if got, want := r.Groups[g].Waited, k.union(g, Waiting); got != want {
			t.Errorf("%s: waited %v, want %v", name(g), got, want)
		}
		if got, want := r.Groups[g].Active, k.union(g, Running, Waiting, Throttled); got != want {
			t.Errorf("%s: active %v, want %v", name(g), got, want)
		}
		var longest []time.Duration
		for _, d := range r.Groups[g].Longest {
			if d.Delayed() > 0 {
				longest = append(longest, d.Delayed())
			}
		}
		delays := slices.SortedFunc(slices.Values(k.delays[g]), func(x, y time.Duration) int { return cmp.Compare(y, x) })
		if most := delays[:min(len(delays), k.options.Longest)]; !slices.Equal(longest, most) {
			t.Errorf("%s: longest delays %v, want %v", name(g), longest, most)
		}
	}
}

// compareThreads checks the parts of each thread.
func (k *kernel) compareThreads(t *rapid.T, r *Report) {
	got, want := map[Thread]*Parts{}, map[Thread]*Parts{}
	for _, s := range k.spans {
		at(want, k.nameOf(s.Thread)).Count(s.State, s.By, k.options.Watched[s.Thread.Group], s.To-s.From)
	}
	for thread, d := range k.stolen {
		p := at(want, k.nameOf(thread))
		p.Running, p.Stolen = p.Running-d, p.Stolen+d
	}
	for _, one := range r.Groups {
		if len(one.Threads) >= maxEnded {
			return // some are left out
		}
		for _, thread := range one.Threads {
			at(got, k.nameOf(thread.Thread)).Add(&thread.Parts)
		}
	}
	for _, thread := range slices.SortedFunc(maps.Keys(got), func(x, y Thread) int {
		return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Group, y.Group))
	}) {
		same(t, thread.String(), got[thread], at(want, thread))
	}
	for _, x := range k.tasks {
		if p := at(got, x.Thread); x.always && sum(p) != r.To-r.From {
			t.Errorf("parts of %v add up to %v of %v: %+v", x.Thread, sum(p), r.To-r.From, *p)
		}
	}
}

// nameOf returns what a thread is called in the end.
func (k *kernel) nameOf(t Thread) Thread {
	if now, ok := k.renamed[t]; ok {
		return now
	}
	return t
}

// at returns the parts of a group or a thread.
func at[K comparable](m map[K]*Parts, key K) *Parts {
	if m[key] == nil {
		m[key] = &Parts{}
	}
	return m[key]
}

func sum(p *Parts) time.Duration {
	return p.Running + p.Stolen + p.Throttled + p.Sleeping + p.Unknown + p.Waiting()
}

func same(t *rapid.T, what string, got, want *Parts) {
	equal := maps.Equal(got.Behind, want.Behind)
	for i, d := range got.fields() {
		equal = equal && *d == *want.fields()[i]
	}
	if !equal {
		t.Errorf("%s: %+v, want %+v", what, *got, *want)
	}
}
