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
	// Behind splits Others, Own and Idle by occupant. It is nil on timelines. Invariant: no value is
	// 0.
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
	p.Behind[by] += d
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
