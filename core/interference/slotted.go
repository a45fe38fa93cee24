package interference

import (
	"math/rand/v2"
	"slices"

	"pinfold.dev/pinfold/core/demand"
)

// slotted is the engine for periods that do not begin together. A period has some slots, and those of
// each group begin in a slot of their own. In each slot, a group can use what is left of its quota
// and tokens.
type slotted struct {
	capacity, busy int64 // of a period, and what of it makes a period busy
	slots          int64
	kinds          []kind
	r              *rand.Rand
	first          []int64 // the slot in which a group's periods begin
	need           []int64
	left           []int64 // what quota and tokens still let through
	used           []int64 // in the group's period
	wants          []int64
	throttled      []bool
	weights        []float64 // the quotas
	busyPeriods    int64
}

func newSlotted(p *plan, kinds []kind, r *rand.Rand) *slotted {
	m := kinds[len(kinds)-1].end
	x := &slotted{capacity: p.capacity, busy: int64(p.busy * float64(p.capacity)), slots: p.slots, kinds: kinds, r: r,
		first: make([]int64, m), need: make([]int64, m), left: make([]int64, m), used: make([]int64, m), wants: make([]int64, m),
		throttled: make([]bool, m), weights: make([]float64, m)}
	for _, k := range kinds {
		for i := k.first; i < k.end; i++ {
			x.first[i], x.left[i], x.weights[i] = r.Int64N(x.slots), k.quota+k.burst, float64(k.quota)
		}
	}
	return x
}

func (x *slotted) sums() []sums {
	all := sumsOf(x.kinds)
	all[0].busy = x.busyPeriods
	return all
}

func (x *slotted) reset() {
	resetKinds(x.kinds)
	x.busyPeriods = 0
}

// step simulates a period of the machine. It misses its deadline if all capacity was used and something is
// left that quotas and tokens let through.
func (x *slotted) step() (missed bool, err error) {
	for i := range x.first {
		if x.r.IntN(sameSlot) == 0 {
			x.first[i] = x.r.Int64N(x.slots)
		}
	}
	used, idle, late := int64(0), int64(0), int64(0)
	for slot := range x.slots {
		wanted := int64(0)
		for i := range x.kinds {
			w, err := x.submit(&x.kinds[i], slot)
			if err != nil {
				return false, err
			}
			wanted += w
		}
		free := x.capacity / x.slots
		if slot < x.capacity%x.slots {
			free++
		}
		late = max(0, wanted-free)
		if late > 0 {
			shareByWeight(x.wants, x.weights, free)
		} else {
			clear(x.wants)
		}
		for _, k := range x.kinds {
			x.grant(&k)
		}
		used += wanted - late
		idle += max(0, free-wanted)
	}
	if x.busy > 0 && used >= x.busy {
		x.busyPeriods++
	}
	return idle == 0 && late > 0, nil
}

// submit begins the periods of a kind's groups that begin in a slot, and draws their demands. It returns
// how much they want that quotas and tokens let through.
func (x *slotted) submit(k *kind, slot int64) (wanted int64, err error) {
	excesses, err := k.demand.next()
	if err != nil {
		return 0, err
	}
	for j, excess := range excesses {
		i, d := k.first+j, excess+k.quota
		if slot == x.first[i] {
			x.refill(k, i)
		}
		x.need[i] += d
		k.sum.demand += float64(d)
		x.wants[i] = min(x.need[i], x.left[i])
		wanted += x.wants[i]
	}
	return wanted, nil
}

// refill ends a period of a group and begins the next.
func (x *slotted) refill(k *kind, i int) {
	if x.throttled[i] {
		k.sum.throttled++
	}
	k.sum.backlog += float64(x.need[i])
	k.sum.burst += float64(max(0, x.used[i]-k.quota))
	x.left[i] = min(x.left[i]+k.quota, k.quota+k.burst)
	x.used[i], x.throttled[i] = 0, false
}

// grant gives each group of a kind what it may use, less the unmet part in wants.
func (x *slotted) grant(k *kind) {
	for i := k.first; i < k.end; i++ {
		got := min(x.need[i], x.left[i]) - x.wants[i]
		x.need[i], x.left[i], x.used[i] = x.need[i]-got, x.left[i]-got, x.used[i]+got
		x.throttled[i] = x.throttled[i] || x.need[i] > 0 && x.left[i] == 0
	}
}

const (
	// defaultSlots is into how many slots a period is divided.
	defaultSlots = 10
	// sameSlot is for how many periods a slot stays the same, on average. In the kernel it does for good; here
	// it changes so that a replica sees many patterns of slots, and longer simulations are more exact.
	sameSlot = 200
)

// scatter returns the configuration with demands of slots.
func (c Config) scatter() Config {
	if c.Rule == Apart && c.Slots == 0 {
		c.Slots, c.Groups = defaultSlots, slices.Clone(c.Groups)
		for i, g := range c.Groups {
			c.Groups[i].Demand = scattered{g.Demand, defaultSlots}
		}
	}
	return c
}

// scattered is a demand of periods of which each comes in one slot, nearly always the same.
type scattered struct {
	demand.Process
	slots int
}

// Mean returns the mean demand of a slot.
func (s scattered) Mean() float64 { return s.Process.Mean() / float64(s.slots) }

// Start implements [demand.Process].
func (s scattered) Start(r *rand.Rand) demand.Source {
	return &scatteredSource{s.Process.Start(r), s.slots, r.IntN(s.slots) + 1}
}

type scatteredSource struct {
	demand.Source
	slots, left int // until the next demand
}

// Next implements [demand.Source].
func (s *scatteredSource) Next(r *rand.Rand) float64 {
	if s.left--; s.left > 0 {
		return 0
	}
	if s.left = s.slots; r.IntN(sameSlot) == 0 {
		s.left = 1 + r.IntN(2*s.slots-1) // the same on average
	}
	return s.Source.Next(r)
}
