package interference

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"pinfold.dev/pinfold/core/demand"
)

const (
	// MaxGroups bounds the memory: each replica takes bytesPerGroup for a group.
	MaxGroups     = 20_000
	bytesPerGroup = 40
	// maxPeriods is the limit up to which float64 represents every integer.
	maxPeriods = 1 << 53
	maxSlots   = 1000
	// The first warm-up takes warmUpTimes/(1-load)^2 periods, from minWarmUp to maxWarmUp: backlog
	// is forgotten in the order of 1/(1-load)^2 periods.
	minWarmUp   = 1000
	warmUpTimes = 20
	maxWarmUp   = 1e12
)

// plan is a validated configuration, in ticks.
type plan struct {
	rule                 Rule
	kinds                []planKind
	groups               int
	capacity             int64
	perReplica           int64 // maximum number of periods to count
	precision            float64
	slots                int64   // of a period, 1 if all periods begin together
	busy                 float64 // share of the capacity
	warmUp, wantedWarmUp int64   // periods of each replica
}

type planKind struct {
	count        int
	quota, burst int64
	mean         float64 // in quotas
	demand       demand.Process
	ziggurat     *ziggurat // of the demand beyond the minimum, or nil
	minimum      int64     // demand in ticks
}

func newPlanKind(g Group, quota, slots int64, room float64) planKind {
	k := planKind{count: g.Count, quota: quota, mean: g.Demand.Mean() * float64(slots), demand: g.Demand, burst: int64(min(g.Burst*float64(quota), room))}
	k.ziggurat, k.minimum = zigguratOf(g.Demand, quota)
	return k
}

func newPlan(c Config) (*plan, error) {
	if err := checkConfig(c); err != nil {
		return nil, err
	}
	c = c.scatter()
	p := &plan{rule: c.Rule, precision: c.Precision, slots: int64(max(1, c.Slots)), busy: c.Busy, perReplica: (c.Periods + Replicas - 1) / Replicas}
	smallest, total := math.Inf(1), 0.0
	for _, g := range c.Groups {
		smallest, total = min(smallest, g.Quota), total+g.Quota*float64(g.Count)
		p.groups += g.Count
	}
	if largest := max(total, c.Capacity) / smallest; largest > roomTicks/quotaTicks {
		return nil, fmt.Errorf("the whole is %.3g times the smallest quota; at most %d times are simulated", largest, roomTicks/quotaTicks)
	}
	for _, g := range c.Groups {
		quota := int64(math.Round(g.Quota / smallest * quotaTicks))
		p.capacity += quota * int64(g.Count)
		p.kinds = append(p.kinds, newPlanKind(g, quota, p.slots, roomTicks/float64(p.groups)))
	}
	// A capacity that differs from the sum of the quotas by decimal rounding only is that sum.
	if c.Capacity > 0 && math.Abs(c.Capacity/total-1) > 1e-9 {
		p.capacity = int64(math.Round(c.Capacity / smallest * quotaTicks))
	}
	if err := p.checkLoad(); err != nil {
		return nil, err
	}
	p.warmUp = min(p.wantedWarmUp, p.longestWarmUp())
	return p, nil
}

// chunk returns the number of periods that a replica simulates between two checks of the context.
func (p *plan) chunk() int64 { return max(1, chunk/max(1, int64(p.groups)*p.slots)) }

// checkConfig rejects a configuration that cannot be simulated at any load.
func checkConfig(c Config) error {
	switch {
	case len(c.Groups) == 0:
		return errors.New("there are no groups to simulate; take 1 or more")
	case !(c.Capacity >= 0) || math.IsInf(c.Capacity, 1):
		return fmt.Errorf("a capacity of %v; it must be a number above 0, or 0 for the sum of the quotas", c.Capacity)
	case c.Periods < 1 || c.Periods > maxPeriods:
		return fmt.Errorf("%d periods; take 1 to %d", c.Periods, int64(maxPeriods))
	case c.Slots < 0 || c.Slots > maxSlots || c.Slots > 0 && c.Rule != Apart:
		return fmt.Errorf("%d slots of a period with the rule %s; take 1 to %d, and only with %s", c.Slots, c.Rule, maxSlots, Apart)
	case !(c.Busy >= 0 && c.Busy <= 1) || c.Busy > 0 && c.Rule != Apart:
		return fmt.Errorf("periods that are busy from %v of the capacity on, with the rule %s; take 0 to 1, and only with %s", c.Busy, c.Rule, Apart)
	case !(c.Precision >= 0):
		return fmt.Errorf("a precision of %v; it must be a standard error above 0, or 0 for none", c.Precision)
	}
	m := 0
	for i, g := range c.Groups {
		if err := checkGroup(g); err != nil {
			return fmt.Errorf("groups %d: %w", i, err)
		}
		if m += g.Count; m > MaxGroups {
			return fmt.Errorf("%d groups would take %.2g GB of memory; at most %d are simulated, and many more change little",
				m, float64(m)*bytesPerGroup*Replicas/1e9, MaxGroups)
		}
	}
	return nil
}

func checkGroup(g Group) error {
	switch {
	case g.Count < 1:
		return fmt.Errorf("%d groups; take 1 or more", g.Count)
	case !(g.Quota > 0) || math.IsInf(g.Quota, 1):
		return fmt.Errorf("a quota of %v; it must be a number above 0", g.Quota)
	case !(g.Burst >= 0):
		return fmt.Errorf("a burst of %v; it must be a number, 0 or more, or inf", g.Burst)
	}
	if mean := g.Demand.Mean(); !(mean > 0) || math.IsInf(mean, 1) {
		return fmt.Errorf("a mean demand of %v; it must be a number above 0", mean)
	}
	return nil
}

// canMiss reports whether groups may submit more than the capacity: if their quotas and bursts do not
// fit, or can be used at the end of one period and again at the beginning of the next.
func (p *plan) canMiss() bool {
	most := 0.0
	for _, k := range p.kinds {
		most += float64(k.count) * float64(k.quota+k.burst)
		if p.rule == Apart {
			most += float64(k.count) * float64(k.quota)
		}
	}
	return most > float64(p.capacity)
}

// checkLoad returns an error if backlog would grow without bound; otherwise it sets the length of
// the warm-up.
func (p *plan) checkLoad() error {
	wanted, load := 0.0, 0.0
	for i, k := range p.kinds {
		if k.mean >= 1 {
			return fmt.Errorf("%w: groups %d want %.4g of their quota on average, so that their backlog grows by %.3g quotas a period; raise the quota",
				ErrUnstable, i, k.mean, k.mean-1)
		}
		load = max(load, k.mean)
		wanted += k.mean * float64(k.quota) * float64(k.count)
	}
	whole := wanted / float64(p.capacity)
	if whole >= 1 {
		return fmt.Errorf("%w: all groups together want %.4g of the capacity on average, so that their backlog grows by %.3g of it a period; take fewer groups",
			ErrUnstable, whole, whole-1)
	}
	load = max(load, whole)
	p.wantedWarmUp = int64(max(minWarmUp, min(warmUpTimes/(1-load)/(1-load), maxWarmUp)))
	return nil
}

// newEngine returns the engine of a replica.
func (p *plan) newEngine(r *rand.Rand) engine {
	room := roomTicks / int64(p.groups) // for each group
	if k := p.kinds[0]; p.rule != Apart && len(p.kinds) == 1 && p.capacity == int64(k.count)*k.quota {
		return newUniform(k.count, p.rule, k.burst, newDrawer(k, room, r))
	}
	var kinds []kind
	first := 0
	for _, k := range p.kinds {
		kinds = append(kinds, kind{first: first, end: first + k.count, quota: k.quota, burst: k.burst,
			demand: newRows(newDrawer(k, room, r), k.count)})
		first += k.count
	}
	if p.rule == Apart {
		return newSlotted(p, kinds, r)
	}
	return newMixed(p.rule, p.capacity, kinds)
}
