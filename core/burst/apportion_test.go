package burst

import (
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
)

const crumb = oneCPU / 1000

// drawApportioner draws sets of up to 6 CPUs, idle time per CPU, and claims.
func drawApportioner(t *rapid.T) (*apportioner, []rate, []claim) {
	d := new(apportioner)
	idle := make([]rate, rapid.IntRange(1, 6).Draw(t, "cpus"))
	for i := range idle {
		idle[i] = rate(rapid.IntRange(0, 20).Draw(t, "idle")) * oneCPU / 20
	}
	var claims []claim
	for range rapid.IntRange(1, 6).Draw(t, "claims") {
		var cpus cpuset.Set
		for cpu := range idle {
			if rapid.Bool().Draw(t, "in") {
				cpus.Add(cpuset.CPU(cpu))
			}
		}
		claims = append(claims, claim{set: d.set(cpus), weight: rate(rapid.IntRange(1, 8).Draw(t, "weight")) * oneCPU / 4,
			max: rate(rapid.IntRange(0, 40).Draw(t, "most")) * oneCPU / 10})
	}
	d.spread()
	for i := range d.pools {
		for cpu := range d.pools[i].cpus.All() {
			d.pools[i].room += idle[cpu]
		}
		d.pools[i].remaining = d.pools[i].room
	}
	return d, idle, claims
}

// fits reports whether the CPUs can serve the amounts: Hall's condition for all sets of CPUs.
func fits(d *apportioner, idle []rate, claims []claim, amounts []rate) bool {
	for bits := range 1 << len(idle) {
		var cpus cpuset.Set
		var room, wanted rate
		for cpu := range idle {
			if bits>>cpu&1 == 1 {
				cpus.Add(cpuset.CPU(cpu))
				room += idle[cpu]
			}
		}
		for i := range claims {
			if d.sets[claims[i].set].IsSubsetOf(cpus) {
				wanted += amounts[i]
			}
		}
		if wanted > room {
			return false
		}
	}
	return true
}

// pour is the slow reference: in turn, each claim gets a crumb in proportion to its weight, until
// it has what it wants or no more fits.
func pour(d *apportioner, idle []rate, claims []claim) []rate {
	amounts := make([]rate, len(claims))
	full := make([]bool, len(claims))
	for done := 0; done < len(claims); {
		for i, c := range claims {
			if full[i] {
				continue
			}
			was := amounts[i]
			amounts[i] = min(c.max, was+crumb*c.weight/oneCPU*4)
			if amounts[i] == was {
				full[i] = true
			} else if !fits(d, idle, claims, amounts) {
				amounts[i], full[i] = was, true
			}
			if full[i] {
				done++
			}
		}
	}
	return amounts
}

// TestApportion compares grants with those of pour: they are proportional, never exceed what is
// available, and what some do not want goes to others.
func TestApportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, idle, claims := drawApportioner(t)
		want := pour(d, idle, claims)
		d.apportion(claims)
		got := make([]rate, len(claims))
		for i, c := range claims {
			got[i] = c.grant
			if c.grant < 0 || c.grant > c.max {
				t.Fatalf("claim %d of %d gets %d", i, c.max, c.grant)
			}
		}
		if !fits(d, idle, claims, got) {
			t.Fatalf("%v is more than there is", got)
		}
		for i := range got {
			if off := got[i] - want[i]; off < -200*crumb/8 || off > 200*crumb/8 {
				t.Fatalf("claim %d gets %d, not about %d: %v, %v", i, got[i], want[i], got, want)
			}
		}
	})
}

// TestApportionManySets has more unions of overlapping sets than maxPools. Grants must still not
// exceed what is available in total and in each set.
func TestApportionManySets(t *testing.T) {
	d := new(apportioner)
	var claims []claim
	const cpus = 200
	for i := range cpus {
		set := cpuset.Of(cpuset.CPU(i), cpuset.CPU((i+7)%cpus))
		claims = append(claims, claim{set: d.set(set), weight: oneCPU, max: 2 * oneCPU})
	}
	d.spread()
	for i := range d.pools {
		d.pools[i].room = rate(d.pools[i].cpus.Len()) * oneCPU / 2
		d.pools[i].remaining = d.pools[i].room
	}
	d.apportion(claims)
	var sum rate
	for _, c := range claims {
		sum += c.grant
		if c.grant > oneCPU {
			t.Errorf("a claim within two half idle CPUs gets %d", c.grant)
		}
	}
	if sum > cpus*oneCPU/2 || sum < cpus*oneCPU/2-cpus {
		t.Errorf("%d of %d granted", sum, cpus*oneCPU/2)
	}
}

// TestIdleWithBatch checks that for any part of the CPUs of batch work no more counts as idle than
// would be without it, and for all of these CPUs exactly that.
func TestIdleWithBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const cpus = 6
		c := New()
		var free [cpus]rate // idle or used by batch work
		for cpu := range free {
			busy := rapid.IntRange(0, 10).Draw(t, "busy")
			batch := rapid.IntRange(0, 10-busy).Draw(t, "batch")
			if rapid.Bool().Draw(t, "in") {
				c.batchCPUs.Add(cpuset.CPU(cpu))
			} else {
				batch = 0
			}
			free[cpu] = rate(10-busy) * oneCPU / 10
			c.idle = append(c.idle, rate(10-busy-batch)*oneCPU/10)
			c.batch += rate(batch) * oneCPU / 10
		}
		for bits := range 1 << cpus {
			var set cpuset.Set
			var most rate
			for cpu := range free {
				if bits>>cpu&1 == 1 {
					set.Add(cpuset.CPU(cpu))
					most += free[cpu]
				}
			}
			got := c.idleOf(set)
			if got > most+crumb || c.batchCPUs.IsSubsetOf(set) && got < most-crumb {
				t.Fatalf("%v of CPUs %s count as idle, and %v are without batch work on %s", got, set, most, c.batchCPUs)
			}
		}
	})
}
