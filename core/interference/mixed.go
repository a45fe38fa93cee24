package interference

import "math"

// mixed is the engine for any groups and any capacity. For each group it keeps need and tokens, and
// it follows the steps of the model literally.
type mixed struct {
	rule     Rule
	capacity int64
	kinds    []kind
	need     []int64
	token    []int64
	wants    []int64
	weights  []float64 // the quotas
}

// kind is a number of identical groups, in ticks.
type kind struct {
	first, end   int // their indices
	quota, burst int64
	demand       *rows
	sum          sums
}

func newMixed(rule Rule, capacity int64, kinds []kind) *mixed {
	m := kinds[len(kinds)-1].end
	x := &mixed{rule: rule, capacity: capacity, kinds: kinds,
		need: make([]int64, m), token: make([]int64, m), wants: make([]int64, m), weights: make([]float64, m)}
	for _, k := range kinds {
		for i := k.first; i < k.end; i++ {
			x.token[i], x.weights[i] = k.burst, float64(k.quota)
		}
	}
	return x
}

func (x *mixed) sums() []sums { return sumsOf(x.kinds) }
func (x *mixed) reset()       { resetKinds(x.kinds) }

func sumsOf(kinds []kind) (all []sums) {
	for _, k := range kinds {
		all = append(all, k.sum)
	}
	return all
}

func resetKinds(kinds []kind) {
	for i := range kinds {
		kinds[i].sum = sums{}
	}
}

func (x *mixed) step() (bool, error) {
	free, wants := x.capacity, int64(0)
	for i := range x.kinds {
		f, w, err := x.submit(&x.kinds[i])
		if err != nil {
			return false, err
		}
		free, wants = free-f, wants+w
	}
	overload := free < 0 // not even the quotas fit: the capacity is divided, and no token is used
	switch {
	case overload:
		for _, k := range x.kinds {
			for i := k.first; i < k.end; i++ {
				x.wants[i] = min(x.need[i], k.quota)
			}
		}
		shareByWeight(x.wants, x.weights, x.capacity)
	case wants > free:
		shareByWeight(x.wants, x.weights, free)
	default:
		clear(x.wants)
	}
	for i := range x.kinds {
		x.grant(&x.kinds[i], overload)
	}
	return x.rule.missed(free, wants), nil
}

// submit draws the demands of a kind. It returns how much of their quotas the groups need and how
// much they want beyond them.
func (x *mixed) submit(k *kind) (within, beyond int64, err error) {
	excesses, err := k.demand.next()
	if err != nil {
		return 0, 0, err
	}
	for j, excess := range excesses {
		i, d := k.first+j, excess+k.quota
		x.need[i] += d
		k.sum.demand += float64(d)
		x.wants[i] = max(min(x.need[i]-k.quota, x.token[i]), 0)
		if x.need[i] > k.quota+x.token[i] {
			k.sum.throttled++
		}
		within += min(x.need[i], k.quota)
		beyond += x.wants[i]
	}
	return within, beyond, nil
}

// grant gives each group of a kind its quota and its want, less the unmet part of them in wants: of
// the quota in an overload, otherwise of the want.
func (x *mixed) grant(k *kind, overload bool) {
	for i := k.first; i < k.end; i++ {
		within, used := min(x.need[i], k.quota), int64(0)
		if overload {
			within -= x.wants[i]
		} else {
			used = max(min(x.need[i]-k.quota, x.token[i]), 0) - x.wants[i]
		}
		x.need[i] -= within + used
		x.token[i] = min(x.token[i]-used+k.quota-within, k.burst)
		k.sum.burst += float64(used)
		k.sum.backlog += float64(x.need[i])
	}
}

// shareByWeight takes free from wants that sum to more, in proportion to the weights and capped by
// each want. The level rises from below until no more wants are met in full; the few ticks that
// rounding leaves go to the first groups.
func shareByWeight(wants []int64, weights []float64, free int64) {
	level := 0.0
	for met := -1; ; {
		taken, open, full := 0.0, 0.0, 0
		for i, w := range wants {
			if portion := level * weights[i]; portion < float64(w) {
				taken += portion
				open += weights[i]
			} else {
				taken += float64(w)
				full++
			}
		}
		if full == met || open == 0 {
			break
		}
		met = full
		level += max(float64(free)-taken, 0) / open
	}
	for i, w := range wants {
		got := min(w, int64(math.Floor(level*weights[i])), free)
		wants[i] -= got
		free -= got
	}
	for i, w := range wants {
		got := min(w, free)
		wants[i] -= got
		free -= got
	}
}
