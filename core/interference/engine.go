package interference

import "fmt"

// quotaTicks is the smallest quota in ticks, the unit of all amounts. It is close to 2^32, and a
// multiple of 1000 so that demands of a thousandth of the quota are exact and their sums meet the
// capacity exactly. Whether a sum exceeds the capacity is decided exactly, too.
const quotaTicks = 1000 << 22

// roomTicks is the maximum that all groups together may hold, so that sums fit into 63 bits.
const roomTicks = 1 << 58

// engine steps all groups of one replica through periods.
type engine interface {
	// step simulates one period and reports whether it missed its deadline.
	step() (missed bool, err error)
	// sums returns the sums since the last reset, one per kind of group.
	sums() []sums
	reset()
}

// sums are over the groups of one kind and over periods, in ticks.
type sums struct {
	demand, backlog, burst float64
	throttled              int64
	busy                   int64 // periods of the machine; of the first kind only
}

// Rule defines when a period misses its deadline. Strict and Published compare the capacity with the submitted
// demand: what the groups need, limited by their quota and tokens.
type Rule int

const (
	// Strict misses the deadline of a period if the submitted demand exceeds the capacity.
	Strict Rule = iota
	// Published is the rule of the tables on the Linux kernel's mailing list (Huaixin Chang, 12 May
	// 2021): as Strict, except that a period counts as met if every group needs its whole quota or
	// more, because nothing is left to divide. With few groups under high load this hides more than
	// half of the misses. In the tables the quotas sum to the capacity; if they sum to more and do
	// not fit, it is as Strict.
	Published
	// Apart is for periods that begin at a time of their own in each group, as in the kernel. A period of the
	// machine misses its deadline if it had no idle capacity, and work that was let through is left.
	Apart
)

// String returns the name of the rule as users write it.
func (r Rule) String() string { return []string{"strict", "published", "apart"}[r] }

// ParseRule parses the name of a rule.
func ParseRule(word string) (Rule, error) {
	for _, r := range []Rule{Strict, Published, Apart} {
		if word == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("no rule %q for a missed deadline; write strict, published or apart", word)
}

// roundingTicks is a millionth of the smallest quota. Amounts are divided in whole ticks, so an
// amount that would be 0 in real numbers may be a few ticks.
const roundingTicks = quotaTicks / 1_000_000

// missed reports whether a period missed its deadline. free is the capacity that the quotas leave,
// negative if not even these fit; wants is submitted beyond the quotas. Sums over all groups are
// exact, but whether every group needs its whole quota is not.
func (r Rule) missed(free, wants int64) bool {
	if r == Published && free >= 0 && free <= roundingTicks {
		return false
	}
	return wants > free
}

// uniform is the engine for identical groups whose quotas sum to the capacity.
//
// Of each group it keeps depth = backlog - tokens, which is the debt of bandwidth.NextDebt less the
// burst and does not depend on the other groups: depth' = max(depth + X - quota, -burst). A
// positive depth is backlog for lack of tokens. Separately it keeps the part of the backlog for
// which the group had tokens, but the other groups left no capacity.
type uniform struct {
	rule     Rule
	burst    int64
	demand   *rows
	depth    []int64
	unserved []int64 // backlog for lack of capacity
	sum      sums
	// Totals after the last period: the backlog for lack of tokens, and that for lack of capacity.
	lastShort, lastUnserved int64
}

func newUniform(m int, rule Rule, burst int64, d drawer) *uniform {
	a := &uniform{rule: rule, burst: burst, demand: newRows(d, m), depth: make([]int64, m), unserved: make([]int64, m)}
	for i := range a.depth {
		a.depth[i] = -burst
	}
	return a
}

func (a *uniform) sums() []sums { return []sums{a.sum} }
func (a *uniform) reset()       { a.sum = sums{} }

func (a *uniform) step() (bool, error) {
	excesses, err := a.demand.next()
	if err != nil {
		return false, err
	}
	excess, wants, short, throttled := refill(excesses, a.depth, a.unserved, -a.burst)
	// Together, the groups need lastShort + lastUnserved + excess more than their quotas. Some need
	// wants + short more than theirs; the difference is free.
	free := wants + short - a.lastShort - a.lastUnserved - excess
	used := min(wants, free)
	a.lastShort, a.lastUnserved = short, wants-used
	if wants <= free {
		clear(a.unserved)
	} else {
		share(a.unserved, free)
	}
	a.sum.demand += float64(excess + quotaTicks*int64(len(excesses)))
	a.sum.backlog += float64(short + wants - used)
	a.sum.burst += float64(used)
	a.sum.throttled += throttled
	return a.rule.missed(free, wants), nil
}

// refill adds demand and quota of one period to each group and sets unserved to what the group wants
// beyond its quota and has tokens for. It returns sums over the groups: demand less quota, wants,
// needs without tokens, and the number of throttled groups. It is the inner loop, free of branches,
// with all variables in registers.
func refill(excesses, depth, unserved []int64, full int64) (excess, wants, short, throttled int64) {
	depth, unserved = depth[:len(excesses)], unserved[:len(excesses)]
	for i, x := range excesses {
		excess += x
		d := depth[i]
		need := unserved[i] + x + max(d, 0)
		d = max(d+x, full)
		depth[i] = d
		lack := max(d, 0)
		short += lack
		want := max(need, 0) - lack
		unserved[i] = want
		wants += want
		throttled += int64(uint64(-d) >> 63)
	}
	return excess, wants, short, throttled
}

// share takes free from wants that sum to more, in equal shares capped by each want
// (water-filling). The level rises until less than one tick per open want is left, which the first
// groups get.
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

// drain takes the level from each want, and one tick more until rest is used up.
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
