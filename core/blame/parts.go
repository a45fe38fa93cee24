package blame

import (
	"maps"
	"time"
)

// Occupant is what runs on a CPU while a thread waits for it.
type Occupant struct {
	Group   Group
	Process int // 0 is the idle thread: the CPU is idle, but has not switched to the thread yet
}

// Parts is where time went. For a thread, their sum is the time for which it was observed.
type Parts struct {
	Running, Throttled, Sleeping time.Duration
	// Stolen is the time for which threads were on a CPU that interrupts or the hypervisor used.
	Stolen time.Duration
	// Behind is the time spent waiting for a CPU, by what ran there. Invariant: no value is 0.
	Behind map[Occupant]time.Duration
	// Unknown is the time in which events were lost.
	Unknown time.Duration
}

// Waiting returns the time spent waiting for a CPU.
func (p Parts) Waiting() (sum time.Duration) {
	for _, d := range p.Behind {
		sum += d
	}
	return sum
}

// Runnable returns the time in which the thread wanted to run.
func (p Parts) Runnable() time.Duration { return p.Running + p.Stolen + p.Delayed() }

// Delayed returns the time in which the thread wanted to run and did not.
func (p Parts) Delayed() time.Duration { return p.Throttled + p.Waiting() }

// add adds d to the part of a state. by counts if the state is Waiting.
func (p *Parts) add(s State, by Occupant, d time.Duration) {
	switch s {
	case Running:
		p.Running += d
	case Throttled:
		p.Throttled += d
	case Sleeping:
		p.Sleeping += d
	case Unknown:
		p.Unknown += d
	case Waiting:
		if p.Behind == nil {
			p.Behind = map[Occupant]time.Duration{}
		}
		p.Behind[by] += d
	}
}

// plus adds the parts of another thread.
func (p *Parts) plus(o *Parts) {
	p.Running += o.Running
	p.Stolen += o.Stolen
	p.Throttled += o.Throttled
	p.Sleeping += o.Sleeping
	p.Unknown += o.Unknown
	for by, d := range o.Behind {
		p.add(Waiting, by, d)
	}
}

func (p Parts) clone() Parts {
	p.Behind = maps.Clone(p.Behind)
	return p
}
