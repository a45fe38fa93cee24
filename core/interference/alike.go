package interference

// alike is the engine for groups that are all alike and whose quotas sum to the capacity.
//
// Of each group it keeps its depth, backlog - tokens, which is a random walk with a floor
// whatever the others do: depth' = max(depth + X - quota, -burst). What is above 0 is
// backlog for want of tokens. Beside that stands the part of the backlog that it had tokens
// for and that the others left no room for.
type alike struct {
	rule   Rule
	burst  int64
	demand *rows
	depth  []int64
	left   []int64 // of the backlog, for want of room
	last   balance
	sum    sums
}

// balance is what a period leaves, over all groups: short is what they have no tokens
// for, left what they have tokens for and no room.
type balance struct{ short, left int64 }

func newAlike(m int, rule Rule, burst int64, d drawer) *alike {
	a := &alike{rule: rule, burst: burst, demand: newRows(d, m), depth: make([]int64, m), left: make([]int64, m)}
	for i := range a.depth {
		a.depth[i] = -burst
	}
	return a
}

func (a *alike) sums() []sums { return []sums{a.sum} }
func (a *alike) reset()       { a.sum = sums{} }

func (a *alike) step() (bool, error) {
	excesses, err := a.demand.next()
	if err != nil {
		return false, err
	}
	excess, wants, short, throttled := refill(excesses, a.depth, a.left, -a.burst)
	// What the groups take of their quotas and want or lack beyond them is what they
	// needed, so what they leave of the quotas follows.
	free := wants + short - a.last.short - a.last.left - excess
	used := min(wants, free)
	a.last = balance{short: short, left: wants - used}
	if wants <= free {
		clear(a.left)
	} else {
		share(a.left, free)
	}
	a.sum.demand += float64(excess + quotaTicks*int64(len(excesses)))
	a.sum.backlog += float64(short + wants - used)
	a.sum.burst += float64(used)
	a.sum.throttled += throttled
	return a.rule.missed(free, wants), nil
}

// refill gives each group its demand and its quota, and leaves in left what it wants and has
// tokens for beyond that. It returns sums: of demands less quotas, of wants, of what there
// are no tokens for, and of throttled groups. It is the inner loop: there is no branch in
// it but the loop's own, and all that it needs is in registers.
func refill(excesses, depth, left []int64, full int64) (excess, wants, short, throttled int64) {
	depth, left = depth[:len(excesses)], left[:len(excesses)]
	for i, x := range excesses {
		excess += x
		d := depth[i]
		need := left[i] + x + max(d, 0)
		d = max(d+x, full)
		depth[i] = d
		lack := max(d, 0)
		short += lack
		want := max(need, 0) - lack
		left[i] = want
		wants += want
		throttled += int64(uint64(-d) >> 63)
	}
	return excess, wants, short, throttled
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
