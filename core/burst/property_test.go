package burst

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
)

// life is one container on a machine on which everything fails that can.
type life struct {
	t          *rapid.T
	r          *rand.Rand
	m          machine
	g          *group
	controller *Controller
	trouble    string
	meddled    bool            // another writer wrote the quota in force
	control    time.Duration   // the last tick that supervised the quota
	ticked     time.Duration   // the last tick
	late       time.Duration   // the longest time that it was raised without supervision
	granted    time.Duration   // CPU time that other writers granted
	forgotten  time.Duration   // CPU time that restarts of the agent may have hidden
	troubled   bool            // others wrote, or writes had no effect, since the agent started
	asked      []time.Duration // when the controller requested writes
}

func drawBase(t *rapid.T) bandwidth.Limits {
	period := rapid.SampledFrom([]time.Duration{10 * ms, 50 * ms, 100 * ms, 400 * ms}).Draw(t, "period")
	quota := max(ms, period*time.Duration(rapid.IntRange(5, 300).Draw(t, "percent of a CPU"))/100)
	burst := quota * time.Duration(rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "burst percent")) / 100
	return bandwidth.Limits{Quota: quota, Period: period, Burst: burst.Truncate(time.Microsecond)}
}

func drawPolicy(t *rapid.T) Policy {
	return Policy{
		Mode:              rapid.SampledFrom(append(Modes(), Quota, Quota)).Draw(t, "mode"),
		BurstPercent:      rapid.SampledFrom([]int{100, 1000}).Draw(t, "burstPercent"),
		QuotaPercent:      rapid.SampledFrom([]int{100, 110, 200, 300, 1000}).Draw(t, "quotaPercent"),
		QuotaBurstSeconds: rapid.SampledFrom([]int{NoEnd, 1, 2, 10, 60}).Draw(t, "quotaBurstSeconds"),
	}
}

func drawLife(t *rapid.T) *life {
	l := &life{t: t, controller: New(), r: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))}
	l.m.cpus = rapid.IntRange(1, 8).Draw(t, "cpus")
	l.g = newGroup(t, "g", drawBase(t), drawPolicy(t), load{})
	l.m.groups = []*group{l.g}
	return l
}

// segment is some time with one load and one kind of trouble.
func (l *life) segment() {
	l.g.load = load{
		amount:  time.Duration(rapid.SampledFrom([]int{0, 0, 5, 20, 60, 200, 1000}).Draw(l.t, "ms of demand")) * ms,
		every:   time.Duration(rapid.SampledFrom([]int{10, 100, 503, 3001}).Draw(l.t, "every ms")) * ms,
		threads: rapid.IntRange(1, 8).Draw(l.t, "threads"),
	}
	l.g.queue = min(l.g.queue, time.Second)
	l.m.others = rate(rapid.IntRange(0, 4).Draw(l.t, "others")) * oneCPU / 2
	l.trouble = rapid.SampledFrom([]string{"", "", "", "late", "broken", "hidden", "meddling", "restarts"}).Draw(l.t, "trouble")
	for end := l.m.now + time.Duration(rapid.SampledFrom([]int{1, 5, 20, 60}).Draw(l.t, "seconds"))*time.Second; l.m.now < end; {
		l.round()
	}
}

// round is the time to the next tick, and the tick.
func (l *life) round() {
	wait := time.Duration(95+l.r.IntN(15)) * ms
	l.g.broken, l.g.missing = false, false
	switch l.trouble {
	case "late":
		if l.r.IntN(20) == 0 {
			wait = time.Duration(l.r.IntN(5000)) * ms
		}
	case "broken":
		l.g.broken = l.r.IntN(3) > 0
	case "hidden":
		l.g.missing = l.r.IntN(4) > 0
	case "meddling":
		if l.r.IntN(20) == 0 {
			l.meddle()
		}
	case "restarts":
		if l.r.IntN(30) == 0 {
			l.restart(wait)
		}
	}
	l.m.run(wait)
	l.tick()
}

func (l *life) tick() {
	tick := l.m.tick()
	if l.r.IntN(3) == 0 {
		for i := range tick.Idle { // random idle times
			tick.Idle[i] = time.Duration(l.r.Int64N(int64(tick.Interval + 1)))
		}
	}
	decisions := l.controller.Step(&tick, nil)
	l.m.run(time.Duration(l.r.IntN(20)) * ms) // the decision is carried out a little later
	d, present := decisions[0], l.g.kernel.Limits().Quota
	if present > l.g.base.Quota {
		l.late = max(l.late, l.m.now-l.control)
		if l.meddled {
			l.granted += l.above(present, l.m.now-l.ticked)
		}
	}
	if d.Write {
		l.asked = append(l.asked, tick.Now)
	}
	l.m.obey(l.t, decisions)
	if d.Raised && !l.g.missing || l.g.kernel.Limits().Quota == l.g.base.Quota {
		l.control = tick.Now
	}
	l.ticked = l.m.now
	l.meddled = l.meddled && d.Quota != l.g.kernel.Limits().Quota
	l.check(d)
	l.countWrites()
}

// countWrites bounds the writes of any minute. Raises are at least 10 s apart, then 20, 40 and so
// on, and each is followed by at most two reductions. A quota of another writer is reverted, and a
// write without effect is retried, after 1, 2, 4, 8 s and then every 10 s, starting again at 1 s
// with each new decision.
func (l *life) countWrites() {
	l.troubled = l.troubled || l.trouble == "broken" || l.trouble == "meddling"
	for len(l.asked) > 0 && l.m.now-l.asked[0] > time.Minute {
		l.asked = l.asked[1:]
	}
	most := 11 // three for each of three raises, two for the one before
	if l.troubled {
		most = 11 * 4
	}
	if len(l.asked) > most {
		l.t.Fatalf("%d writes within a minute: %v", len(l.asked), l.asked)
	}
}

// above returns how much a quota grants above the limit in some time.
func (l *life) above(quota, during time.Duration) time.Duration {
	return scaled(max(0, quota-l.g.base.Quota), during, l.g.base.Period)
}

// meddle writes a quota as another writer.
func (l *life) meddle() {
	now := l.g.kernel.Limits()
	now.Quota = max(now.Burst, l.g.base.Quota*time.Duration(1+l.r.IntN(3)))
	l.granted += 2*(now.Quota+now.Burst) + l.g.base.Quota // immediately, at the next refill, and by the write that reverts it
	l.meddled = true
	l.g.broken = false
	l.g.write(l.t, now)
}

// restart ends the agent and starts another one after some time, which does not learn of earlier
// writes.
func (l *life) restart(wait time.Duration) {
	down := time.Duration(l.r.IntN(3000)) * ms
	l.m.run(down)
	if present := l.g.kernel.Limits().Quota; present > l.g.base.Quota {
		l.forgotten += Slack(l.g.base, l.g.policy, l.m.now+wait-l.control) - Slack(l.g.base, l.g.policy, 0)
	}
	l.controller = New()
	l.g.writes = 0
	l.asked, l.troubled = nil, false
}

func (l *life) check(d Decision) {
	g := l.g
	limit := scaled(g.base.Quota, l.m.now, g.base.Period)
	used := g.kernel.Stats().Usage
	if slack := Slack(g.base, g.policy, l.late); used > limit+slack+l.granted+l.forgotten {
		l.t.Fatalf("at %v: used %v of %v with slack %v, given away %v, forgotten %v", l.m.now, used, limit, slack, l.granted, l.forgotten)
	}
	highest := g.base.Quota * time.Duration(max(100, g.policy.QuotaPercent)) / 100
	switch {
	case d.Quota < g.base.Quota || d.Quota > highest:
		l.t.Fatalf("quota %v is not within %v and %v", d.Quota, g.base.Quota, highest)
	case d.Raised != (d.Quota > g.base.Quota):
		l.t.Fatalf("raised %v, but quota %v", d.Raised, d.Quota)
	case d.Raised && (!g.policy.Mode.Uses().Quota || g.policy.QuotaPercent <= 100):
		l.t.Fatalf("raised, but the policy is %+v", g.policy)
	case d.Tokens > capacity(g.base.Quota, g.base.Period, g.policy):
		l.t.Fatalf("tokens %v above the capacity", d.Tokens)
	}
}

// TestLimitHolds: regardless of demand, delays and failures, a container uses at most limit x time
// plus a constant.
func TestLimitHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLife(t)
		for range rapid.IntRange(1, 6).Draw(t, "segments") {
			l.segment()
		}
	})
}
