package inside

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// testThreads moves a busy process with many threads between CPUs.
func testThreads(t *testing.T, m machine) {
	const own = 12 // threads, besides those of the Go runtime
	p := start(t, own, "busy", m.container())
	p.begin(t)
	for _, list := range []string{"0-15", "6-7", "0,8", "13", "4-11"} {
		cpus := cpuset.MustParse(list)
		m.apply(t, map[string]cgroup.Wanted{m.container(): {CPUs: &cpus}})
		p.within(t, cpus, own)
	}
	threads := must.Get(cgrouptree.Threads(m.FS, m.container()))(t)
	slices.Sort(threads)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(p.allowed(t))), threads); diff != "" {
		t.Errorf("threads: -/proc +cgroup.threads:\n%s", diff)
	}
}

// within checks that each thread is allowed exactly these CPUs, and soon runs on them.
func (p *task) within(t *testing.T, cpus cpuset.Set, atLeast int) {
	t.Helper()
	allowed := p.allowed(t)
	for tid, on := range allowed {
		if on != cpus {
			t.Errorf("thread %d may run on %s, want %s", tid, on, cpus)
		}
	}
	if len(allowed) < atLeast {
		t.Errorf("%d threads, want %d and more", len(allowed), atLeast)
	}
	wait.Until(t, "the busy threads run on a subset of "+cpus.String(), func() error {
		if on := p.runningOn(t); on.IsEmpty() || !on.IsSubsetOf(cpus) {
			return fmt.Errorf("they run on %q", on)
		}
		return nil
	})
}

// testPlacement binds a process to the CPUs that the scheduler would choose, according to the
// kernel's topology.
func testPlacement(t *testing.T, m machine) {
	const n = 4
	free := m.topology.Online().Difference(cpuset.Of(0, 5)) // one thread each of two cores is taken
	r := must.Get(placement.NewIndex(m.topology).Place(free, placement.Request{CPUs: n}))(t)
	if r.CPUs.Len() != n || r.Quality.NUMANodes != 1 || r.Quality.SplitCores != 0 {
		t.Errorf("chosen %s, %+v; want %d CPUs of one NUMA node and no split core", r.CPUs, r.Quality, n)
	}
	p := start(t, n, "busy", m.container())
	p.begin(t)
	m.apply(t, map[string]cgroup.Wanted{m.container(): {CPUs: &r.CPUs}})
	p.within(t, r.CPUs, n)
}

// testBurst runs a task that occasionally needs 150 ms of CPU time, with a quota of 100 ms per 200
// ms. It is throttled, and with a burst of the same size it is not.
func testBurst(t *testing.T, m machine) {
	quota, period, window := ms(100), ms(200), 8*burstPause
	m.apply(t, map[string]cgroup.Wanted{m.container(): {Quota: quota, Period: period, CPUs: set("2")}})
	p := start(t, 1, "bursty", m.container())
	p.begin(t)
	once(t, func() error {
		m.apply(t, map[string]cgroup.Wanted{m.container(): {Burst: ms(0)}})
		without := m.during(t, window)[0]
		m.apply(t, map[string]cgroup.Wanted{m.container(): {Burst: quota}})
		with := m.during(t, window)[0]
		t.Logf("without burst: %+v", without)
		t.Logf("with burst: %+v", with)
		switch {
		case without.Throttled < 3 || without.ThrottledTime <= 0 || without.Bursts != 0:
			return errors.New("without burst, want throttled periods and no bursts")
		case with.Bursts < 3 || with.BurstTime <= 0 || with.NoBursts:
			return errors.New("with burst, want bursts")
		case with.Throttled > without.Throttled/2:
			return errors.New("want the task to be throttled at most half as often with burst")
		}
		return nil
	})
}

// testShares lets two pods compete for one CPU: by weight, and with one of them idle.
func testShares(t *testing.T, m machine) {
	cpu := cpuset.Of(3)
	both := []string{m.pod(), m.other()}
	for _, pod := range both {
		m.apply(t, map[string]cgroup.Wanted{pod: {CPUs: &cpu}})
		start(t, 1, "busy", pod+"/container").begin(t)
	}
	for _, c := range []struct {
		name        string
		pod         cgroup.Wanted
		least, most float64 // range of the pod's share divided by the other's
	}{
		{"equal", cgroup.Wanted{Weight: new(cgroup.Weight(100))}, 0.6, 1.6},
		{"four times", cgroup.Wanted{Weight: new(cgroup.Weight(400))}, 2, 8},
		{"idle", cgroup.Wanted{Idle: new(true)}, 0, 0.2},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.apply(t, map[string]cgroup.Wanted{m.pod(): c.pod})
			once(t, func() error {
				used := m.during(t, 3*time.Second, both...)
				ratio := float64(used[0].Usage) / float64(used[1].Usage)
				t.Logf("used %v and %v", used[0].Usage, used[1].Usage)
				if !(ratio >= c.least && ratio <= c.most) {
					return fmt.Errorf("ratio %.2f, want %v to %v", ratio, c.least, c.most)
				}
				return nil
			})
		})
	}
}

// during returns the change of the statistics of cgroups, by default the container's, over a time.
func (m machine) during(t *testing.T, d time.Duration, groups ...string) []cgroupstat.Stat {
	t.Helper()
	if groups == nil {
		groups = []string{m.container()}
	}
	read := func() (all []cgroupstat.Stat) {
		for _, g := range groups {
			s := must.Get(cgroupstat.Read(m.FS, g))(t)
			all = append(all, s)
		}
		return all
	}
	before := read()
	time.Sleep(d)
	after := read()
	for i := range after {
		a, b := &after[i], before[i]
		a.Periods, a.Throttled, a.Bursts = a.Periods-b.Periods, a.Throttled-b.Throttled, a.Bursts-b.Bursts
		a.ThrottledTime, a.BurstTime, a.Usage = a.ThrottledTime-b.ThrottledTime, a.BurstTime-b.BurstTime, a.Usage-b.Usage
	}
	return after
}
