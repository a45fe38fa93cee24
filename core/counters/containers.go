package counters

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// lastOnes returns the containers that have the limit and the period of those that were seen last. If
// these differ, as in a rollout, the limit of most counts, and else that of the newer ones.
func lastOnes(containers []Container) (chosen []Container) {
	type settings struct {
		limit  float64
		period time.Duration
	}
	of := func(c *Container) settings { return settings{c.Limit, c.Period} }
	latest := 0.
	for i := range containers {
		latest = max(latest, containers[i].last())
	}
	if latest == 0 {
		return nil
	}
	number, seen := map[settings]int{}, map[settings]time.Duration{}
	for i := range containers {
		c := &containers[i]
		for _, s := range c.Slices {
			seen[of(c)] += s.Seen
		}
		if c.last() >= latest-2*c.Window.Seconds() {
			number[of(c)]++
		}
	}
	best := slices.MinFunc(slices.Collect(maps.Keys(number)), func(a, b settings) int {
		return cmp.Or(cmp.Compare(number[b], number[a]), cmp.Compare(seen[a], seen[b]), cmp.Compare(a.limit, b.limit))
	})
	for i := range containers {
		if of(&containers[i]) == best {
			chosen = append(chosen, containers[i])
		}
	}
	return chosen
}

// last returns when a container was last seen: in seconds, or if that is not known, in slices. It is 0
// for one that was never seen.
func (c *Container) last() float64 {
	for at := len(c.Slices) - 1; at >= 0; at-- {
		if c.Slices[at].Seen > 0 || c.Changed {
			return cmp.Or(c.Last, float64(at+1))
		}
	}
	return 0
}

// request returns the request of the container that was seen last, or the largest of several.
func request(chosen []Container) float64 {
	newest := slices.MaxFunc(chosen, func(a, b Container) int {
		return cmp.Or(cmp.Compare(a.last(), b.last()), cmp.Compare(a.Request, b.Request))
	})
	return newest.Request
}

// worst returns the largest share of periods in which one container was throttled, of those that were
// counted for at least a time.
func worst(chosen []Container, least time.Duration) (share float64) {
	for i := range chosen {
		one := sum{}
		for _, s := range add(chosen[i : i+1]) {
			one.counted += s.counted
			one.throttled += s.throttled
		}
		if one.counted >= least {
			share = max(share, one.throttled/(one.counted.Seconds()/chosen[i].Period.Seconds()))
		}
	}
	return share
}

// sum is what all containers counted in a slice.
type sum struct {
	seen                             time.Duration
	measured                         time.Duration // the time in which usage was
	used, high, runs                 float64
	periods, throttled, throttledFor float64
	counted                          time.Duration // the time in which periods were counted
}

// highWindows is the least number of windows whose high quantile is not their maximum, and so that of
// a start or of another rare time.
const highWindows = 21

func add(containers []Container) []sum {
	sums := make([]sum, len(containers[0].Slices))
	longest := time.Duration(0)
	for _, c := range containers {
		for _, s := range c.Slices {
			longest = max(longest, s.Seen)
		}
	}
	for _, c := range containers {
		least := highWindows * c.Window // for the high quantile
		if longest < least {
			least = 0
		}
		for i, s := range c.Slices {
			if s.Seen <= 0 {
				continue
			}
			one := &sums[i]
			one.seen += s.Seen
			one.runs += s.Runs
			if !math.IsNaN(s.Mean) {
				one.measured += s.Seen
				one.used += s.Mean * s.Seen.Seconds()
			}
			if s.High > one.high && s.Seen >= least {
				one.high = s.High
			}
			if math.IsNaN(s.Throttled) {
				continue
			}
			one.counted += s.Seen
			if !math.IsNaN(s.Periods) {
				one.periods += s.Periods
			}
			one.throttled += s.Throttled
			one.throttledFor += s.ThrottledSeconds
		}
	}
	return sums
}
