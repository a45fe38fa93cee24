package interference

import (
	"cmp"
	"math"
	"slices"
)

// slow is the reference implementation: the model with floating-point numbers, one step after the
// other. Amounts are in ticks, so sums of whole ticks are exact.
type slow struct {
	rule     Rule
	capacity float64
	groups   []slowGroup
	lattice  bool  // demands are multiples of an amount much larger than tie
	close    int64 // number of comparisons that were too close
}

type slowGroup struct {
	quota, burst, need, token float64
	throttled                 int64
	used, backlog             float64 // sums
}

// Amounts that differ by less than tie ticks may be equal: the engines divide in whole ticks, and
// the rounding adds up over the periods.
const tie = 50 * steps

// above reports whether a is more than b. On a lattice, close amounts are equal. Otherwise the
// comparison with an engine is not possible.
func (s *slow) above(a, b float64) bool {
	if math.Abs(a-b) > tie {
		return a > b
	}
	if s.lattice {
		return false
	}
	if a != b {
		s.close++
	}
	return a > b
}

// step reports whether the period missed its deadline.
func (s *slow) step(demands []int64) bool {
	free := s.capacity
	for i := range s.groups {
		g := &s.groups[i]
		g.need += float64(demands[i])
		if s.above(g.need, g.quota+g.token) {
			g.throttled++
		}
		free -= math.Min(g.need, g.quota)
	}
	if s.above(0, free) {
		s.tooSmall()
		return true
	}
	wants := make([]float64, len(s.groups))
	sum := 0.0
	for i := range s.groups {
		g := &s.groups[i]
		if g.need <= g.quota {
			g.token = math.Min(g.burst, g.token+g.quota-g.need)
			g.need = 0
		} else {
			g.need -= g.quota
		}
		wants[i] = math.Min(g.need, g.token)
		sum += wants[i]
	}
	for i, got := range s.fill(wants, free) {
		g := &s.groups[i]
		g.need -= got
		g.token -= got
		g.used += got
		g.backlog += g.need
	}
	return s.above(sum, free) && (s.rule == Strict || s.above(free, 0))
}

// tooSmall is a period in which the groups need more of their quotas than the capacity.
func (s *slow) tooSmall() {
	wants := make([]float64, len(s.groups))
	for i, g := range s.groups {
		wants[i] = math.Min(g.need, g.quota)
	}
	for i, got := range s.fill(wants, s.capacity) {
		g := &s.groups[i]
		g.need -= got
		g.token = math.Min(g.burst, g.token+g.quota-got)
		g.backlog += g.need
	}
}

// fill divides free by weight among the wants, in the order in which rising water reaches them.
func (s *slow) fill(wants []float64, free float64) []float64 {
	order := make([]int, len(wants))
	weight := 0.0
	for i := range order {
		order[i] = i
		weight += s.groups[i].quota
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(wants[i]/s.groups[i].quota, wants[j]/s.groups[j].quota)
	})
	got := make([]float64, len(wants))
	for _, i := range order {
		got[i] = math.Min(wants[i], free*s.groups[i].quota/weight)
		free -= got[i]
		weight -= s.groups[i].quota
	}
	return got
}
