package burst

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
)

// TestTogether lets containers compete for the same CPUs. Each keeps its limit in the long run, and
// quotas are raised no further than the CPUs allow, except for the third by which one may exceed
// its share.
func TestTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{cpus: rapid.IntRange(2, 8).Draw(t, "cpus")}
		for i := range rapid.IntRange(2, 5).Draw(t, "groups") {
			m.groups = append(m.groups, drawGroup(t, fmt.Sprint(i)))
		}
		r := rand.New(rand.NewPCG(2, rapid.Uint64().Draw(t, "seed")))
		c := New()
		for range rapid.IntRange(1, 4).Draw(t, "segments") {
			for _, g := range m.groups {
				g.load.amount = time.Duration(rapid.SampledFrom([]int{0, 0, 10, 40, 200}).Draw(t, "ms of demand")) * ms
			}
			m.others = rate(rapid.IntRange(0, 4).Draw(t, "others")) * oneCPU / 2
			for range 300 {
				m.run(time.Duration(95+r.IntN(15)) * ms)
				tick := m.tick()
				decisions := c.Step(&tick, nil)
				checkRaises(t, m, decisions)
				m.obey(t, decisions)
				checkLimits(t, m)
			}
		}
	})
}

func drawGroup(t *rapid.T, name string) *group {
	quota := time.Duration(rapid.IntRange(1, 10).Draw(t, "tenths of a CPU")) * 10 * ms
	base := bandwidth.Limits{Quota: quota, Period: 100 * ms, Burst: quota * time.Duration(rapid.IntRange(0, 1).Draw(t, "burst"))}
	every := rapid.SampledFrom([]time.Duration{10 * ms, 503 * ms}).Draw(t, "every")
	policy := Policy{Mode: Auto, BurstPercent: 100, QuotaPercent: rapid.IntRange(110, 1000).Draw(t, "quotaPercent"), QuotaBurstSeconds: 60}
	return newGroup(t, name, base, policy, load{every: every, threads: 4})
}

// checkRaises checks the sum of raised quotas whenever one was raised.
func checkRaises(t *rapid.T, m *machine, decisions []Decision) {
	var limits, extra rate
	raised := false
	for i, d := range decisions {
		g := m.groups[i]
		if d.Raised {
			limits += rateOf(g.base.Quota, g.base.Period)
			extra += rateOf(d.Quota-g.base.Quota, g.base.Period)
		}
		raised = raised || d.Write && d.Reason != Shared && d.Raised
	}
	room := rate(m.cpus)*oneCPU - limits
	if raised && 3*extra > 4*max(0, room) {
		t.Fatalf("at %v: raised by %d where there are %d: %+v", m.now, extra, room, decisions)
	}
}

func checkLimits(t *rapid.T, m *machine) {
	for _, g := range m.groups {
		limit := scaled(g.base.Quota, m.now, g.base.Period) + Slack(g.base, g.policy, 0)
		if used := g.kernel.Stats().Usage; used > limit {
			t.Fatalf("at %v: %s used %v of %v", m.now, g.name, used, limit)
		}
	}
}

// TestBurstsAreServed: bursts that fit a raised quota and use at most 60% of the limit on average
// are no longer throttled once the bucket suffices for the first raise, and that takes one write.
func TestBurstsAreServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quota := time.Duration(rapid.IntRange(5, 100).Draw(t, "quota in ms")) * ms
		base := bandwidth.Limits{Quota: quota, Period: 100 * ms, Burst: quota * time.Duration(rapid.IntRange(0, 1).Draw(t, "burst"))}
		amount := quota * time.Duration(rapid.IntRange(50, 280).Draw(t, "burst in percent of quota")) / 100
		mean := rapid.IntRange(10, 60).Draw(t, "mean in percent of the limit")
		every := scaled(amount, 100*100*ms, quota*time.Duration(mean)).Truncate(ms)
		if every < 150*ms || every > 8*time.Second {
			t.Skip("no burst")
		}
		g := newGroup(t, "g", base, Policy{Mode: Auto, BurstPercent: 1000, QuotaPercent: 300, QuotaBurstSeconds: 60},
			load{amount: amount, every: every, threads: 4})
		m := &machine{cpus: 4, groups: []*group{g}}
		r := rand.New(rand.NewPCG(3, rapid.Uint64().Draw(t, "seed")))
		c := New()
		pass := func(d time.Duration) {
			for end := m.now + d; m.now < end; {
				m.run(time.Duration(95+r.IntN(10)) * ms)
				tick := m.tick()
				m.obey(t, c.Step(&tick, nil))
			}
		}
		pass(time.Minute)
		before := g.kernel.Stats().Throttled
		pass(5 * time.Minute)
		if n := g.kernel.Stats().Throttled - before; n > 0 || g.changes > 1 {
			t.Fatalf("%v every %v with quota %v: throttled in %d more periods, %d changes", amount, every, quota, n, g.changes)
		}
	})
}
