package burst

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// claim is a container's request for a part of the idle time of CPUs.
type claim struct {
	set    int  // index into apportioner.sets
	weight Rate // > 0
	most   Rate // 0 <= grant <= most
	grant  Rate
	done   bool
}

// pool is a set of CPUs, and the idle time that claims within it can share.
type pool struct {
	cpus cpuset.Set
	room Rate
	left Rate // of room
}

// apportioner divides the idle time of CPUs among claims. It reuses its memory.
type apportioner struct {
	sets   []cpuset.Set // different ones
	pools  []pool
	within []bool // pool x set: whether the set is within the pool's CPUs
	weight []Rate // of open claims, by set
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

// take reduces the room of all pools that contain the set.
func (d *apportioner) take(set int, amount Rate) {
	for i := range d.pools {
		if d.within[i*len(d.sets)+set] {
			d.pools[i].left -= amount
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
		if !d.satisfy(claims, d.pools[tight].left, weight) {
			d.exhaust(claims, tight, weight)
		}
	}
}

// weigh sums the weights of open claims, and reports whether there are any.
func (d *apportioner) weigh(claims []claim) (open bool) {
	d.weight = append(d.weight[:0], make([]Rate, len(d.sets))...)
	for i := range claims {
		if !claims[i].done {
			d.weight[claims[i].set] += claims[i].weight
			open = true
		}
	}
	return open
}

// tightest returns the pool with the least room per weight of its open claims.
func (d *apportioner) tightest() (tight int, weight Rate) {
	tight = -1
	for i := range d.pools {
		var w Rate
		for s := range d.sets {
			if d.within[i*len(d.sets)+s] {
				w += d.weight[s]
			}
		}
		if w > 0 && (tight < 0 || less(d.pools[i].left, w, d.pools[tight].left, weight)) {
			tight, weight = i, w
		}
	}
	return tight, weight
}

// satisfy grants claims in full that want at most their share of the level left/weight.
func (d *apportioner) satisfy(claims []claim, left, weight Rate) (some bool) {
	for i := range claims {
		c := &claims[i]
		if !c.done && c.most <= share(left, c.weight, weight) {
			c.grant, c.done, some = c.most, true, true
			d.take(c.set, c.grant)
		}
	}
	return some
}

// exhaust divides what is left in a pool among its open claims.
func (d *apportioner) exhaust(claims []claim, tight int, weight Rate) {
	left := d.pools[tight].left
	for i := range claims {
		c := &claims[i]
		if !c.done && d.within[tight*len(d.sets)+c.set] {
			c.grant, c.done = share(left, c.weight, weight), true
			d.take(c.set, c.grant)
		}
	}
}

func share(left, part, whole Rate) Rate {
	return Rate(mulDiv(int64(left), int64(part), int64(whole)))
}
