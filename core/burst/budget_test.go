package burst

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/test/must"
)

// TestBudget requests other settings at any moment, and writes them if the budget pays. The group
// uses no more than its quota grants, plus the bucket with which it began. After being idle it pays
// again.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		setting := func() bandwidth.Limits { // a fifth of a CPU
			period := []time.Duration{5 * ms, 100 * ms, 999 * ms, time.Second}[r.IntN(4)]
			quota := period / 5
			return bandwidth.Limits{Quota: quota, Period: period, Burst: []time.Duration{0, quota / 2, quota}[r.IntN(3)].Truncate(time.Microsecond)}
		}
		l := setting()
		kernel := must.Get(bandwidthtest.NewController(l))(t)
		b := OpenNew(0, l)
		if rapid.Bool().Draw(t, "known") {
			b = OpenKnown(0, l)
		}
		threads := time.Duration(rapid.IntRange(1, 8).Draw(t, "threads"))
		every, idle := rapid.IntRange(1, 3000).Draw(t, "ms between wishes"), rapid.IntRange(0, 9).Draw(t, "tenths idle")
		const fifth = 5
		slack := l.Quota + l.Burst
		refill, writes := l.Period, 0
		for now := time.Duration(0); now < time.Minute; now += ms {
			if now >= refill {
				kernel.Tick()
				refill += kernel.Limits().Period
			}
			if r.IntN(10) >= idle {
				kernel.Use(max(0, threads*ms-kernel.Backlog()))
			}
			if r.IntN(every) == 0 {
				l, to := kernel.Limits(), setting()
				b.Used(now, kernel.Stats().Usage)
				if !b.Pays(max(l.Quota, to.Quota), max(l.Burst, to.Burst)) {
					continue
				}
				must.Do(t, kernel.Write(to))
				b.InForce(now, to)
				writes++
			}
			if used := kernel.Stats().Usage; used > now/fifth+slack {
				t.Fatalf("at %v: used %v, after %d writes; the limit allows %v and a slack of %v", now, used, writes, now/fifth, slack)
			}
		}
		now, quota := time.Minute, time.Second/fifth
		b.Used(now, kernel.Stats().Usage)
		if b.Used(now+10*time.Second, kernel.Stats().Usage); !b.Pays(quota, quota) {
			t.Fatalf("a group that did nothing for 10 s does not pay for a quota and a burst of %v: %+v", quota, b)
		}
	})
}

// TestBudgetAfterRestarts: a group that existed before, was created again, or had no quota for a
// while has no credit; debt is kept.
func TestBudgetAfterRestarts(t *testing.T) {
	limits, none := bandwidth.Limits{Quota: 10 * ms, Period: 100 * ms}, bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * ms}
	pays := func(what string, b *Budget, now, usage time.Duration, want bool) {
		t.Helper()
		if b.Used(now, usage); b.Pays(10*ms, 0) != want {
			t.Errorf("%s: pays %v, want %v: %+v", what, !want, want, b)
		}
	}
	b := OpenNew(0, limits)
	pays("a new group", &b, 0, 0, false)
	pays("it uses its limit", &b, time.Second, 90*ms, false)
	pays("it idles", &b, 2*time.Second, 90*ms, true)
	pays("it uses more than its limit", &b, 3*time.Second, time.Second, false)
	b.Replaced(4*time.Second, limits)
	pays("its next group is in debt", &b, 4*time.Second, 0, false)
	b = OpenNew(0, limits)
	b.Replaced(0, limits)
	pays("a group made anew", &b, 0, 0, false)
	b = OpenKnown(0, limits)
	pays("a group that was found", &b, time.Second, time.Hour, false)
	pays("it idles", &b, 2*time.Second, time.Hour, true)
	b.InForce(2*time.Second, none)
	b.InForce(3*time.Second, limits)
	pays("its quota was lifted", &b, 3*time.Second, time.Hour+100*ms, false)
	b.InForce(3*time.Second, none)
	b.Used(4*time.Second, time.Hour+time.Second)
	pays("it is lifted for good, in which nothing is gained", &b, 100*time.Second, time.Hour+time.Minute, false)
}
