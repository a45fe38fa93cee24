package blame

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFold adds waits behind many processes of many groups, to several Parts that are added up. The
// sum and that of each group are exact, there are few entries, and each process has its time but
// for 1 in maxBehind of all.
func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		groups := rapid.SampledFrom([]int{1, 2, 50, maxBehind * 4}).Draw(t, "groups")
		processes := rapid.SampledFrom([]int{1, 50, maxBehind, maxBehind * 30}).Draw(t, "processes")
		all := make([]Parts, rapid.IntRange(1, 4).Draw(t, "parts"))
		exact, byGroup, total := map[Occupant]time.Duration{}, map[Group]time.Duration{}, time.Duration(0)
		for range 5000 {
			by := Occupant{Group(1 + random.IntN(groups)), 1 + random.IntN(processes)}
			d := time.Duration(1 + random.IntN(100))
			if random.IntN(3) == 0 { // a few are heavy
				by, d = Occupant{Group(1 + random.IntN(groups)%3), 1 + random.IntN(processes)%5}, 10*d
			}
			all[random.IntN(len(all))].Count(Waiting, by, 1, d)
			exact[by], byGroup[by.Group], total = exact[by]+d, byGroup[by.Group]+d, total+d
		}
		var sum Parts
		for i := range all {
			sum.Add(&all[i])
		}
		if len(sum.Behind) > 3*maxBehind {
			t.Errorf("%d entries", len(sum.Behind))
		}
		got := map[Group]time.Duration{}
		for by, d := range sum.Behind {
			if got[by.Group] += d; d <= 0 {
				t.Errorf("%v: %v", by, d)
			}
		}
		for g, d := range byGroup {
			if lost := d - got[g]; lost < 0 || lost > 0 && got[0] == 0 || lost > total/maxBehind && groups <= 50 {
				t.Errorf("group %d: %v, want %v", g, got[g], d)
			}
			got[0] -= d - got[g]
		}
		if got[0] != 0 || sum.Waiting() != total {
			t.Errorf("%v too much, %v of %v", got[0], sum.Waiting(), total)
		}
		for by, d := range exact {
			lost := d - sum.Behind[by]
			if lost < 0 || lost > total/maxBehind || lost > 0 && len(exact) <= maxBehind {
				t.Errorf("%v: %v, want %v; of %v in all", by, sum.Behind[by], d, total)
			}
		}
	})
}

// TestManyShortThreads: threads that live for a moment take no memory when they have ended, nor do
// those that they waited behind.
func TestManyShortThreads(t *testing.T) {
	const watched, other Group = 1, 2
	const many = 100_000
	a := New(Options{Watched: map[Group]Group{watched: watched}, Longest: 5})
	now, heaps := time.Duration(0), map[int]uint64{}
	for i := range many {
		own, neighbour := Thread{2*i + 1, 2*i + 1, watched}, Thread{2*i + 2, 2*i + 2, cmp.Or(Group(i%2)*other, 3)}
		idle := Thread{0, 0, 4}
		for _, e := range []Event{
			{Kind: Wakeup, Thread: own, State: Waiting, Other: neighbour},
			{Kind: Switch, Thread: neighbour, State: Dead, Other: own},
			{Kind: Switch, Thread: own, State: Dead, Other: idle},
		} {
			now += time.Microsecond
			e.Time = now
			a.Add(e)
		}
		if n := i + 1; n == many/10 || n == many {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heaps[n] = m.HeapAlloc
		}
	}
	if ratio := float64(heaps[many]) / float64(heaps[many/10]); ratio > 1.3 {
		t.Errorf("the heap has grown %.2f times from %d to %d threads", ratio, many/10, many)
	}
	r := a.Report(now)
	sum := r.Groups[watched]
	behind := map[Group]time.Duration{}
	for by, d := range sum.Behind {
		behind[by.Group] += d
	}
	if sum.Others != many*time.Microsecond || behind[other] != many/2*time.Microsecond || behind[3] != many/2*time.Microsecond {
		t.Errorf("waited %v, behind groups %v", sum.Others, behind)
	}
	if n := len(r.Processes()); n > 2*maxEnded+3*maxBehind+20 {
		t.Errorf("the report names %d processes", n)
	}
}
