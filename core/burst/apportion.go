package burst

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// claim is somebody's wish for a part of the idle time of CPUs.
type claim struct {
	set    int  // index into apportioner.sets
	weight Rate // > 0
	most   Rate // 0 <= grant <= most
	grant  Rate
	done   bool
}

// pool is what the claims whose CPUs are within its CPUs can have together.
type pool struct {
	cpus cpuset.Set
	room Rate
	left Rate // of room, while claims are granted
}

// apportioner apportions the idle time of CPUs. Its fields are scratch that is used again.
type apportioner struct {
	sets   []cpuset.Set // different ones
	pools  []pool
	within []bool // pool x set: the set is within the pool's CPUs
	weight []Rate // by set, of the claims that are not done
}

// maxPools bounds the unions of overlapping sets that are looked at.
const maxPools = 128

// set returns the index of a CPU set.
func (d *apportioner) set(cpus cpuset.Set) int {
	if i := slices.Index(d.sets, cpus); i >= 0 {
		return i
	}
	d.sets = append(d.sets, cpus)
	return len(d.sets) - 1
}

// spread makes the pools: each set, and each union of sets that overlap. Claims can be
// served together exactly when those within each union of sets can; a union of sets that
// do not overlap says no more than they do. Beyond maxPools, all CPUs make the last pool.
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

// take reduces the room of all pools that the set is within.
func (d *apportioner) take(set int, amount Rate) {
	for i := range d.pools {
		if d.within[i*len(d.sets)+set] {
			d.pools[i].left -= amount
		}
	}
}

// apportion grants each claim its share of what is left in the pools, in proportion to
// the weights: all grow together until one has what it wants or a pool that it is in is
// empty; the others go on. Nobody's grant could be raised without lowering that of
// somebody who has no more for his weight.
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

// weigh sums up the weights of the claims that are not done; false when all are.
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

// tightest returns the pool that has least left for the weight of its open claims.
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

// satisfy grants what they want to those whose share of the level left/weight is at
// least that.
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

// exhaust divides what is left in a pool.
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
