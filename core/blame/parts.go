package blame

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Occupant is what runs on a CPU while a thread waits for it.
type Occupant struct {
	Group   Group
	Process int // 0 is the idle thread: the CPU is idle, but has not switched to the thread yet
}

// Rest is the Process of an Occupant that is many processes of the group, or of many groups if that
// is 0. See [Parts].Behind.
const Rest = -2

// Seen reports whether an event told of the occupant.
func (o Occupant) Seen() bool { return o != unseen }

// unseen is an occupant that no event told of.
var unseen = Occupant{Process: -1}

// Parts says where time went. For a thread, the sum is the time for which it was observed.
type Parts struct {
	Running   time.Duration
	Stolen    time.Duration // on a CPU that interrupts or the hypervisor used; a part of Running on timelines
	Throttled time.Duration
	Others    time.Duration // waiting behind other groups, or behind something unknown
	Own       time.Duration // waiting behind threads of the same group
	Idle      time.Duration // waiting while the CPU was idle and had not switched to the thread yet
	Unknown   time.Duration // events were lost
	Sleeping  time.Duration `json:"Asleep"`
	// Behind splits Others, Own and Idle by occupant. It is nil on timelines. A tenant may start any
	// number of processes, so it has at most 3*maxBehind entries: of each process, up to 1 in
	// maxBehind of all the time is counted for the Rest of its group instead. That does not happen
	// with maxBehind processes or fewer. Invariant: no value is 0.
	Behind map[Occupant]time.Duration `json:"-"`
}

// part is the index of a field of Parts.
type part int

const (
	running part = iota
	stolen
	throttled
	others
	own
	idle
	unknown
	sleeping
	numParts
)

// fields returns the fields of Parts by index.
func (p *Parts) fields() [numParts]*time.Duration {
	return [...]*time.Duration{&p.Running, &p.Stolen, &p.Throttled, &p.Others, &p.Own, &p.Idle, &p.Unknown, &p.Sleeping}
}

// partOf returns the part for the time of a thread of group in state s. by counts if s is Waiting.
func partOf(s State, by Occupant, group Group) part {
	switch {
	case s == Running:
		return running
	case s == Throttled:
		return throttled
	case s == Unknown:
		return unknown
	case s != Waiting:
		return sleeping
	case by.Process == 0:
		return idle
	case by.Group == group:
		return own
	}
	return others
}

// Waiting returns the time spent waiting for a CPU.
func (p Parts) Waiting() time.Duration { return p.Others + p.Own + p.Idle }

// Runnable returns the time in which the thread wanted to run.
func (p Parts) Runnable() time.Duration { return p.Running + p.Stolen + p.Delayed() }

// Delayed returns the time in which the thread wanted to run and did not.
func (p Parts) Delayed() time.Duration { return p.Throttled + p.Waiting() }

// Count adds the time d of a thread of group in state s. by counts if s is Waiting.
func (p *Parts) Count(s State, by Occupant, group Group, d time.Duration) {
	*p.fields()[partOf(s, by, group)] += d
	if s == Waiting {
		p.countBehind(by, d)
	}
}

func (p *Parts) countBehind(by Occupant, d time.Duration) {
	if p.Behind == nil {
		p.Behind = map[Occupant]time.Duration{}
	}
	if p.Behind[by] += d; len(p.Behind) > 3*maxBehind {
		p.fold(func(o Occupant) (bool, Occupant) { return o.Process > 0, Occupant{o.Group, Rest} })
		p.fold(func(o Occupant) (bool, Occupant) { return o.Process == Rest && o.Group != 0, Occupant{0, Rest} })
	}
}

const maxBehind = 100

// fold leaves maxBehind of the occupants that foldable selects, at most, and charges what it takes
// from them to the second result. It takes the same time from each, or all, so that more than
// maxBehind of them lose it: what one loses in all folds is less than 1 in maxBehind of the total
// (Agarwal et al., Mergeable Summaries, PODS 2012).
func (p *Parts) fold(foldable func(Occupant) (bool, Occupant)) {
	ranked := slices.DeleteFunc(p.Ranked(), func(o Occupant) bool { is, _ := foldable(o); return !is })
	if len(ranked) <= maxBehind {
		return
	}
	loss := p.Behind[ranked[maxBehind]]
	for _, by := range ranked {
		_, into := foldable(by)
		lost := min(loss, p.Behind[by])
		p.Behind[into] += lost
		if p.Behind[by] -= lost; p.Behind[by] == 0 {
			delete(p.Behind, by)
		}
	}
}

// Add adds the parts of another thread.
func (p *Parts) Add(o *Parts) {
	to := p.fields()
	for i, d := range o.fields() {
		*to[i] += *d
	}
	for by, d := range o.Behind {
		p.countBehind(by, d)
	}
}

func (p Parts) clone() Parts {
	p.Behind = maps.Clone(p.Behind)
	return p
}

// Ranked returns the occupants in Behind, those with most time first.
func (p Parts) Ranked() []Occupant {
	return slices.SortedFunc(maps.Keys(p.Behind), func(x, y Occupant) int {
		return cmp.Or(cmp.Compare(p.Behind[y], p.Behind[x]), cmp.Compare(x.Group, y.Group), cmp.Compare(x.Process, y.Process))
	})
}
