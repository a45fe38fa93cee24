package colocation

import (
	"math"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

const (
	// raiseEvery is the least time from a change to the next raise, which covers raiseShare of the
	// distance to what was left in all of that time.
	raiseEvery = 5 * time.Second
	raiseShare = 1. / 3
	// A change must be at least bandShare of the CPUs, and at least leastBand.
	bandShare = 0.02
	leastBand = 0.05
	// stale is how long the last sample is valid, and how long the first one is waited for. Then the
	// budget is the floor.
	stale = 2 * time.Second
	// starvedAfter is how long the budget must have been the floor until batch work counts as starved.
	starvedAfter = time.Minute
)

// Config is the administrator's choice.
type Config struct {
	// Threshold is the share of the shared CPUs that all work together should use, above 0 and at
	// most 1.
	Threshold quantity.Share
	// Floor is what batch work gets in any case, above 0.
	Floor quantity.CPUs
	// Objective is the 99th percentile, over ticks, of Tick.Waited that is acceptable; 0 for any.
	Objective time.Duration
}

// Tick is one observation.
type Tick struct {
	// Now is monotonic, with any origin.
	Now time.Duration
	// CPUs is the number of shared CPUs.
	CPUs int
	// Unsampled is set if Others is not known.
	Unsampled bool
	// Others is the mean usage of everything but batch work on these CPUs since the last tick.
	Others quantity.CPUs
	// Batch is what batch work has used meanwhile. NoBatch is set if no batch work would use
	// more.
	Batch   quantity.CPUs
	NoBatch bool
	// Waited is the longest time that the threads of an online container waited for CPUs in the last
	// 100 ms. WaitUnknown is set if it is not known.
	Waited      time.Duration
	WaitUnknown bool
}

// Decision is the result of a tick. It is the zero value if nothing is decided yet.
type Decision struct {
	Budget   quantity.CPUs // all batch work together
	Capacity quantity.CPUs // for the requests of batch pods
	// Threshold is the configured one, or less while the objective is missed.
	Threshold quantity.Share
	// Starved is whether batch work has had no more than the floor for a minute, although the node has
	// room for more. It remains set without batch work until there is more: evicted pods do not come
	// back before.
	Starved bool
}

// Budget is the state between ticks.
type Budget struct {
	config   Config
	budget   quantity.CPUs // 0 before the first sample
	changed  time.Duration
	falls    int           // the last in a row of falls less than raiseEvery apart: 0 is the first, -1 none
	least    quantity.CPUs // that batch work might have used since then
	sampled  time.Duration // time of the last sample, at first of the first tick
	began    bool
	capacity capacity
	online   objective     // of online pods
	starved  bool          // in the last decision
	floored  time.Duration // when the budget became the floor for batch work that would use more
}

// New returns a budget without samples.
func New(c Config) *Budget {
	return &Budget{config: c, online: objective{most: c.Objective, factor: 1}}
}

// Step decides after an observation.
func (b *Budget) Step(t Tick) Decision {
	if !b.began {
		b.began, b.sampled, b.floored = true, t.Now, t.Now
	}
	if t.Unsampled && b.budget == 0 && t.Now-b.sampled < stale {
		return Decision{}
	}
	b.online.observe(t, b.config.Floor)
	threshold := b.config.Threshold * quantity.Share(b.online.factor)
	available := quantity.CPUs(threshold)*quantity.CPUs(t.CPUs) - t.Others
	if !t.Unsampled {
		b.sampled = t.Now
		b.capacity.observe(t, available)
	} else if b.budget == 0 || t.Now-b.sampled >= stale {
		available = 0
	} else {
		available = b.budget
	}
	b.follow(t, max(available, b.config.Floor))
	room := quantity.CPUs(b.config.Threshold)*quantity.CPUs(t.CPUs) - b.config.Floor
	if b.budget > b.config.Floor || room < t.band() || (t.Unsampled || t.NoBatch) && !b.starved {
		b.floored = t.Now
	}
	b.starved = t.Now-b.floored >= starvedAfter
	return Decision{Budget: b.budget, Capacity: b.capacity.offered, Threshold: threshold, Starved: b.starved}
}

// band is the least change, and the least usage that matters.
func (t Tick) band() quantity.CPUs { return max(bandShare*quantity.CPUs(t.CPUs), leastBand) }

// follow moves the budget towards what batch work may use. Of several falls in a row, each after
// the first goes further than necessary, by twice as much as the one before, so that there are few.
func (b *Budget) follow(t Tick, want quantity.CPUs) {
	band := t.band()
	b.least = min(b.least, want)
	switch distance, recent := b.least-b.budget, t.Now-b.changed < raiseEvery; {
	case b.budget == 0:
		b.budget, b.falls = want, -1
	case want <= b.budget-band || want < b.budget && want == b.config.Floor:
		if b.falls++; !recent {
			b.falls = 0
		}
		b.budget = max(b.config.Floor, want-band*quantity.CPUs(math.Exp2(float64(b.falls))-1))
	case recent:
		return
	case distance >= band:
		b.falls = -1
		b.budget += min(distance, max(band, raiseShare*distance))
	}
	b.changed, b.least = t.Now, want
}
