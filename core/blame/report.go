package blame

import (
	"cmp"
	"slices"
	"time"
)

// Delay is one interval in which a thread wanted to run and did not.
type Delay struct {
	Thread Thread
	From   time.Duration
	Parts
}

// Report is where the time of threads went.
type Report struct {
	From, To time.Duration
	// Groups has the groups that were charged, and those with a quota whose edges were traced.
	Groups map[Group]*Sum
	// Lost is the total time of losses ([Loss]). Parts.Unknown includes it for threads that were
	// observed before or after.
	Lost time.Duration
	// Missed is the number of switches without an event.
	Missed int
}

// Sum is where the time of a group's threads went.
type Sum struct {
	Parts
	// Active is the time in which at least one thread wanted to run, Waited that in which at least one
	// waited for a CPU.
	Active, Waited time.Duration
	// Threads has the threads that were observed to the end, and up to 100 that ended earlier, those
	// with the longest delays first.
	Threads []ThreadSum
	// Longest are the longest delays of a thread, longest first.
	Longest []Delay
	// Waits and Throttlings count how long a thread waited for a CPU, and was throttled, in each
	// delay.
	Waits, Throttlings Histogram
	// First and Last are the state of the quota at the first and the last edge, nil if there was none.
	First, Last *Quota
}

// ThreadSum is where the time of a thread went.
type ThreadSum struct {
	Thread
	Parts
}

// Processes returns the processes that the report names.
func (r *Report) Processes() map[int]bool {
	named := map[int]bool{}
	add := func(t Thread, p *Parts) {
		named[t.Process] = true
		for by := range p.Behind {
			named[by.Process] = true
		}
	}
	for _, sum := range r.Groups {
		add(Thread{}, &sum.Parts)
		for i := range sum.Threads {
			add(sum.Threads[i].Thread, &sum.Threads[i].Parts)
		}
		for i := range sum.Longest {
			add(sum.Longest[i].Thread, &sum.Longest[i].Parts)
		}
	}
	return named
}

// account is the Sum so far, of the threads whose observation has ended.
type account struct {
	Sum
	wanting, waiting union // threads that want to run, and that wait for a CPU
}

// union measures the time in which at least one thread is in a state.
type union struct {
	n     int           // threads
	since time.Duration // when n became more than 0
	total time.Duration // before
}

// add adds threads, or removes them if more is negative.
func (u *union) add(more int, now time.Duration) {
	if u.n == 0 {
		u.since = now
	}
	if u.n += more; u.n == 0 {
		u.total += now - u.since
	}
}

func (u *union) until(now time.Duration) time.Duration {
	if u.n == 0 {
		return u.total
	}
	return u.total + max(0, now-u.since)
}

// count records that a thread enters a state (n = 1) or leaves it (n = -1).
func (a *Analysis) count(g Group, s State, n int) {
	now := max(a.now, a.Start)
	if s.wants() {
		a.account(g).wanting.add(n, now)
	}
	if s == Waiting {
		a.account(g).waiting.add(n, now)
	}
}

// maxEnded limits the ended threads in a Sum.
const maxEnded = 100

func (a *Analysis) account(g Group) *account {
	if a.groups[g] == nil {
		a.groups[g] = &account{}
	}
	return a.groups[g]
}

// end adds a thread whose observation ends to the account of its group.
func (a *Analysis) end(t *thread) {
	sum := a.account(a.Watched[t.Group])
	sum.Add(&t.parts)
	if a.Span != nil && a.now >= a.Start {
		a.Span(Span{Thread: t.Thread, CPU: t.cpu, State: Dead, From: a.now, To: a.now})
	}
	if !a.Nameless {
		sum.Threads = insert(sum.Threads, ThreadSum{t.Thread, t.parts}, maxEnded)
	}
}

// insert inserts one into a list of at most maxLength elements, longest delays first.
func insert[T interface{ Delayed() time.Duration }](list []T, one T, maxLength int) []T {
	at, _ := slices.BinarySearchFunc(list, one, longerFirst)
	if at >= maxLength {
		return list
	}
	list = slices.Insert(list, at, one)
	return list[:min(len(list), maxLength)]
}

func longerFirst[T interface{ Delayed() time.Duration }](x, y T) int {
	return cmp.Compare(y.Delayed(), x.Delayed())
}

func (a *account) edge(e Event) {
	if a.First == nil {
		a.First = e.Quota
	}
	a.Last = e.Quota
}

// Report returns the result until the time to, which must not be before the last event.
func (a *Analysis) Report(to time.Duration) *Report {
	a.now = max(a.now, to)
	r := &Report{From: a.Start, To: a.now, Groups: map[Group]*Sum{}, Lost: a.lostTime(), Missed: a.missed}
	for _, g := range a.Watched {
		a.account(g)
	}
	for g, account := range a.groups {
		sum := account.Sum
		sum.Active, sum.Waited = account.wanting.until(a.now), account.waiting.until(a.now)
		sum.Parts, sum.Longest, sum.Threads = sum.clone(), slices.Clone(sum.Longest), slices.Clone(sum.Threads)
		r.Groups[g] = &sum
	}
	for _, t := range a.threads {
		a.charge(t)
		sum := r.Groups[a.Watched[t.Group]]
		sum.Add(&t.parts)
		sum.Threads = append(sum.Threads, ThreadSum{t.Thread, t.parts.clone()})
		if t.delay != nil {
			sum.Longest = insert(sum.Longest, Delay{t.Thread, t.delay.From, t.delay.clone()}, a.Longest)
			sum.Waits.add(t.delay.Waiting())
			sum.Throttlings.add(t.delay.Throttled)
		}
	}
	for _, sum := range r.Groups {
		slices.SortFunc(sum.Threads, func(x, y ThreadSum) int {
			return cmp.Or(longerFirst(x, y), cmp.Compare(y.Running, x.Running), cmp.Compare(x.ID, y.ID))
		})
	}
	return r
}
