package interference

// alike is the engine for groups that are all alike and whose quotas sum to the capacity.
//
// Of each group it keeps the level V = burst - tokens + backlog, which is a random walk with
// a floor whatever the others do, V' = max(V + X - quota, 0); and the part of the
// backlog that it had tokens for and that the others left no room for. What V has above
// the burst is backlog for want of tokens.
type alike struct {
	rule   Rule
	burst  int64
	demand *rows
	level  []int64
	left   []int64 // of the backlog, for want of room
	sum    sums
}

func newAlike(m int, rule Rule, burst int64, d drawer) *alike {
	return &alike{rule: rule, burst: burst, demand: newRows(d, m), level: make([]int64, m), left: make([]int64, m)}
}

func (a *alike) sums() []sums { return []sums{a.sum} }
func (a *alike) reset()       { a.sum = sums{} }

func (a *alike) step() (bool, error) {
	demands, err := a.demand.next()
	if err != nil {
		return false, err
	}
	t := a.refill(demands)
	missed := a.rule.missed(t.free, t.wants)
	used := min(t.wants, t.free)
	if t.wants <= t.free {
		clear(a.left)
	} else {
		share(a.left, t.free)
	}
	a.sum.demand += float64(t.demand)
	a.sum.backlog += float64(t.short + t.wants - used)
	a.sum.burst += float64(used)
	a.sum.throttled += t.throttled
	return missed, nil
}

// totals are those of one period: demand; what groups left of their quotas; what they
// want and have tokens for beyond them, and what they have no tokens for.
type totals struct{ demand, free, wants, short, throttled int64 }

// refill gives each group its demand and its quota, and leaves its want in left. It is
// the inner loop: there is no branch in it but the loop's own.
func (a *alike) refill(demands []int64) totals {
	var t totals
	burst := a.burst
	level, left := a.level[:len(demands)], a.left[:len(demands)]
	for i, x := range demands {
		v := level[i]
		need := max(v-burst, 0) + left[i] + x - quotaTicks
		v = max(v+x-quotaTicks, 0)
		short := max(v-burst, 0)
		level[i] = v
		t.demand += x
		t.throttled += int64(uint64(burst-v) >> 63)
		t.free += max(-need, 0)
		want := max(need, 0) - short
		left[i] = want
		t.wants += want
		t.short += short
	}
	return t
}

// share takes free from wants that sum to more: equal shares, capped by each want. The
// level of the water rises until what is left is less than one tick each; the first
// groups get that.
func share(wants []int64, free int64) {
	level := int64(0)
	for {
		taken, open := int64(0), int64(0)
		for _, w := range wants {
			taken += min(w, level)
			open += int64(uint64(level-w) >> 63)
		}
		rest := free - taken
		if rest < open {
			drain(wants, level, rest)
			return
		}
		level += rest / open
	}
}

// drain takes the level from each want, and one tick more as long as there is a rest.
func drain(wants []int64, level, rest int64) {
	for i, w := range wants {
		wants[i] = max(w-level, 0)
	}
	for i := 0; rest > 0; i++ {
		if wants[i] > 0 {
			wants[i]--
			rest--
		}
	}
}
