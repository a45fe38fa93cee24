package inside

import (
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
