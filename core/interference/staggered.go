package interference

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// staggered is the engine for groups whose quotas are refilled at times of their own. The refills
// divide a period into spans. In each, groups that have need and may still run share the capacity
// in proportion to their quotas.
type staggered struct {
	capacity int64
	kinds    []kind
	each     []runner
	weights  []float64 // the quotas
	unmet    []int64   // of what groups want in a span
	spans    []span
}

// runner is a group.
type runner struct {
	kind   *kind
	need   int64
	budget int64 // what is left of quota and tokens
	// What is left of what the group could use at the begin of the period, and after the last
	// refill.
	sinceBegin, sinceRefill int64
	used                    int64 // since the last refill
	throttled               bool  // since the last refill
}

// wants returns what the group can use.
func (g *runner) wants() int64 { return min(g.need, g.budget) }

// span is a part of a period.
type span struct {
	capacity int64 // in it
	refilled []int // the groups whose quotas are refilled at its end
}

// newStaggered returns an engine in which the quota of group i is refilled when the share phases[i]
// of the capacity of a period is over, from 0 to 1.
func newStaggered(capacity int64, kinds []kind, phases []float64) *staggered {
	m := len(phases)
	x := &staggered{capacity: capacity, kinds: kinds, each: make([]runner, m), weights: make([]float64, m), unmet: make([]int64, m)}
	order := make([]int, m)
	for k := range kinds {
		k := &kinds[k]
		for i := k.first; i < k.end; i++ {
			x.each[i] = runner{kind: k, budget: k.quota + k.burst}
			x.weights[i], order[i] = float64(k.quota), i
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(phases[i], phases[j]) })
	began, last := int64(0), -1
	for _, i := range order {
		end := int64(phases[i] * float64(capacity))
		if last < 0 || end > began {
			x.spans = append(x.spans, span{capacity: end - began})
			began, last = end, last+1
		}
		x.spans[last].refilled = append(x.spans[last].refilled, i)
	}
	x.spans = append(x.spans, span{capacity: capacity - began})
	return x
}

// maxPhases is how many different phases more groups have. The time that a period takes is that
// times the number of groups.
const maxPhases = 16

// randomPhases returns a random phase for each group.
func randomPhases(groups int, r *rand.Rand) []float64 {
	phases := make([]float64, groups)
	for i := range phases {
		phases[i] = r.Float64()
		if groups > maxPhases {
			phases[i] = (math.Floor(phases[i]*maxPhases) + .5) / maxPhases
		}
	}
	return phases
}

func (x *staggered) sums() []sums { return sumsOf(x.kinds) }
func (x *staggered) reset()       { resetSums(x.kinds) }

func (x *staggered) step() (outcome, error) {
	for i := range x.kinds {
		k := &x.kinds[i]
		excesses, err := k.demand.next()
		if err != nil {
			return outcome{}, err
		}
		for j, excess := range excesses {
			d := excess + k.quota
			g := &x.each[k.first+j]
			g.need += d
			g.sinceBegin = g.wants()
			k.sum.demand += float64(d)
		}
	}
	idle, missed := x.capacity, false
	for _, s := range x.spans {
		idle -= x.run(s.capacity)
		for _, i := range s.refilled {
			missed = x.each[i].refill() || missed
		}
	}
	for i := range x.each {
		g := &x.each[i]
		g.kind.sum.backlog += float64(g.need)
		missed = missed || g.sinceBegin > roundingTicks
	}
	return outcome{missed, idle <= allowedIdle(x.capacity)}, nil
}

// run runs the groups on a part of the capacity, and returns how much of it they use.
func (x *staggered) run(capacity int64) int64 {
	wanted := int64(0)
	for i := range x.each {
		x.unmet[i] = x.each[i].wants()
		wanted += x.unmet[i]
	}
	if wanted > capacity {
		shareByWeight(x.unmet, x.weights, capacity)
	} else {
		clear(x.unmet)
	}
	for i := range x.each {
		g := &x.each[i]
		got := g.wants() - x.unmet[i]
		g.need -= got
		g.budget -= got
		g.sinceBegin -= got
		g.sinceRefill -= got
		g.used += got
		g.throttled = g.throttled || g.need > 0 && g.budget == 0
	}
	return min(wanted, capacity)
}

// refill ends a quota period of the group, and reports whether the group was late.
func (g *runner) refill() (late bool) {
	k := g.kind
	k.sum.burst += float64(max(0, g.used-k.quota))
	if g.throttled {
		k.sum.throttled++
	}
	late = g.sinceRefill > roundingTicks
	g.budget = min(g.budget+k.quota, k.quota+k.burst)
	g.sinceRefill = g.wants()
	g.used, g.throttled = 0, false
	return late
}
