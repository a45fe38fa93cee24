package burst

import (
	"math/bits"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
)

// claim is a container's request for a part of the idle time of CPUs.
type claim struct {
	set    int  // index into apportioner.sets
	weight rate // > 0
	max    rate // 0 <= grant <= max
	grant  rate
	done   bool
}

// pool is a set of CPUs, and the idle time that claims within it can share.
type pool struct {
	cpus      cpuset.Set
	room      rate
	remaining rate // of room
}

// apportioner divides the idle time of CPUs among claims. It reuses its memory.
type apportioner struct {
	sets   []cpuset.Set // different ones
	pools  []pool
	within []bool // pool x set: whether the set is within the pool's CPUs
	weight []rate // of open claims, by set
}

// maxPools bounds the number of unions of overlapping sets.
const maxPools = 128

// set returns the index of a CPU set.
func (d *apportioner) set(cpus cpuset.Set) int {
	if i := slices.Index(d.sets, cpus); i >= 0 {
		return i
	}
	d.sets = append(d.sets, cpus)
	return len(d.sets) - 1
}

// spread makes the pools: each set, and each union of overlapping sets. Claims can be served
// together if and only if those within each such union can (Hall's marriage theorem); a union of
// disjoint sets adds no condition. Beyond maxPools, all CPUs together are the last pool.
func (d *apportioner) spread() {
	d.pools = d.pools[:0]
	for _, s := range d.sets {
		d.pools = append(d.pools, pool{cpus: s})
	}
	for i := 0; i < len(d.pools); i++ {
		for j := range i {
			a, b := d.pools[i].cpus, d.pools[j].cpus
			if !a.Intersects(b) {
				continue
			}
			if len(d.pools) >= len(d.sets)+maxPools {
				d.addUnion(d.all())
				i = len(d.pools)
				break
			}
			d.addUnion(a.Union(b))
		}
	}
	d.within = d.within[:0]
	for i := range d.pools {
		for _, s := range d.sets {
			d.within = append(d.within, s.IsSubsetOf(d.pools[i].cpus))
		}
	}
}

func (d *apportioner) all() (all cpuset.Set) {
	for _, s := range d.sets {
		all = all.Union(s)
	}
	return all
}

func (d *apportioner) addUnion(cpus cpuset.Set) {
	if !slices.ContainsFunc(d.pools, func(p pool) bool { return p.cpus == cpus }) {
		d.pools = append(d.pools, pool{cpus: cpus})
	}
}

// take reduces what is left in all pools that contain the set.
func (d *apportioner) take(set int, amount rate) {
	for i := range d.pools {
		if d.within[i*len(d.sets)+set] {
			d.pools[i].remaining -= amount
		}
	}
}

// apportion grants each claim its max-min fair share of what is left in the pools, in proportion to
// the weights: all grants grow together until a claim has what it wants or one of its pools is
// empty; the others grow on. No grant could be larger without reducing one that is not larger for
// its weight.
func (d *apportioner) apportion(claims []claim) {
	for i := range claims {
		claims[i].grant, claims[i].done = 0, false
	}
	for {
		open := d.weigh(claims)
		if !open {
			return
		}
		tight, weight := d.tightest()
		if !d.satisfy(claims, d.pools[tight].remaining, weight) {
			d.exhaust(claims, tight, weight)
		}
	}
}

// weigh sums the weights of open claims, and reports whether there are any.
func (d *apportioner) weigh(claims []claim) (open bool) {
	d.weight = append(d.weight[:0], make([]rate, len(d.sets))...)
	for i := range claims {
		if !claims[i].done {
			d.weight[claims[i].set] += claims[i].weight
			open = true
		}
	}
	return open
}

// tightest returns the pool with the least left per weight of its open claims, and that weight.
func (d *apportioner) tightest() (tight int, weight rate) {
	tight = -1
	for i := range d.pools {
		var w rate
		for s := range d.sets {
			if d.within[i*len(d.sets)+s] {
				w += d.weight[s]
			}
		}
		if w > 0 && (tight < 0 || less(d.pools[i].remaining, w, d.pools[tight].remaining, weight)) {
			tight, weight = i, w
		}
	}
	return tight, weight
}

// satisfy grants claims in full that want at most their share of the level left/weight.
func (d *apportioner) satisfy(claims []claim, remaining, weight rate) (some bool) {
	for i := range claims {
		c := &claims[i]
		if !c.done && c.max <= share(remaining, c.weight, weight) {
			c.grant, c.done, some = c.max, true, true
			d.take(c.set, c.grant)
		}
	}
	return some
}

// exhaust divides what is left in a pool among its open claims.
func (d *apportioner) exhaust(claims []claim, tight int, weight rate) {
	remaining := d.pools[tight].remaining
	for i := range claims {
		c := &claims[i]
		if !c.done && d.within[tight*len(d.sets)+c.set] {
			c.grant, c.done = share(remaining, c.weight, weight), true
			d.take(c.set, c.grant)
		}
	}
}

func share(remaining, part, whole rate) rate {
	return rate(mulDiv(int64(remaining), int64(part), int64(whole)))
}

// rate is CPU time per time in billionths of a CPU.
type rate int64

// oneCPU is the rate of one busy CPU.
const oneCPU rate = 1e9

// maxAmount bounds all amounts so that sums of a few of them do not overflow. It is 73 CPU years.
const maxAmount = 1 << 61

// mulDiv returns a x b / c, rounded down and at most maxAmount. It returns 0 if any argument is 0
// or negative.
func mulDiv(a, b, c int64) int64 {
	if a <= 0 || b <= 0 || c <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high >= uint64(c) {
		return maxAmount
	}
	quotient, _ := bits.Div64(high, low, uint64(c))
	return int64(min(quotient, maxAmount))
}

// rateOf returns an amount of CPU time in an interval as a rate.
func rateOf(amount, interval time.Duration) rate {
	return rate(mulDiv(int64(amount), int64(oneCPU), int64(interval)))
}

// in returns the CPU time of the rate in a time.
func (r rate) in(t time.Duration) time.Duration {
	return time.Duration(mulDiv(int64(r), int64(t), int64(oneCPU)))
}

// scaled returns amount x part / whole.
func scaled(amount, part, whole time.Duration) time.Duration {
	return time.Duration(mulDiv(int64(amount), int64(part), int64(whole)))
}

// bounded limits an amount to what sums can hold.
func bounded(t time.Duration) time.Duration { return max(-maxAmount, min(t, maxAmount)) }

// toward returns an exponentially smoothed mean: r moved towards value with a time constant, after
// an interval.
func (r rate) toward(value rate, interval, constant time.Duration) rate {
	const whole = 1 << 10
	interval = min(interval, time.Hour)
	weight := mulDiv(int64(interval), whole, int64(interval+constant))
	return r + (value-r)*rate(weight)/whole
}

// less reports whether a/b < c/d, for b and d above zero. Negative a and c count as zero.
func less(a, b, c, d rate) bool {
	h1, l1 := bits.Mul64(uint64(max(0, a)), uint64(d))
	h2, l2 := bits.Mul64(uint64(max(0, c)), uint64(b))
	return h1 < h2 || h1 == h2 && l1 < l2
}
