package inside

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/priority"
	"pinfold.dev/pinfold/test/must"
)

// testSeparation runs an online pod and a batch pod on the two hardware threads of a core, by the
// cgroups' own accounting: without a cookie at the same time, with one in turns, and with idle
// priority besides, the batch pod only while the online pod does not run.
func testSeparation(t *testing.T, m machine) {
	lacking := priority.Lacking("/", m.FS, cgroup.Settings{}, priority.CheckCores())
	if why := lacking[colocation.CoreScheduling]; why != "" {
		t.Fatal(why)
	}
	core := slices.Collect(m.topology.Cores()[0].CPUs.All())
	online, batch := m.pod(), m.other()
	for i, pod := range []string{online, batch} {
		cpus := cpuset.Of(core[i])
		m.apply(t, map[string]cgroup.Wanted{pod: {CPUs: &cpus}})
		start(t, 1, "busy", pod+"/container").begin(t)
	}
	file := filepath.Join(t.TempDir(), "cookie")
	open := func() *priority.Cookies {
		return must.Get(priority.OpenCookies(m.FS, file))(t)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// The host may not run an emulated CPU for a while, whose time is then accounted to a later window.
	// So one of three windows must be right.
	const window, chances = 2 * time.Second, 3
	check := func(when string, leastOnline, leastBatch, mostBatch float64) {
		t.Helper()
		for range chances {
			used := m.during(t, window, online, batch)
			share := func(i int) float64 { return float64(used[i].Usage) / float64(window) }
			t.Logf("%s: online %.2f of a CPU, batch %.2f", when, share(0), share(1))
			if share(0) >= leastOnline && share(1) >= leastBatch && share(1) <= mostBatch {
				return
			}
		}
		t.Errorf("%s: want online %g and more, batch %g to %g", when, leastOnline, leastBatch, mostBatch)
	}
	check("without a cookie", 0.7, 0.7, 1.1)
	must(open().Give([]string{batch}))
	check("with a cookie", 0.2, 0.1, 0.8)
	m.apply(t, map[string]cgroup.Wanted{batch: {Idle: new(true)}})
	check("with a cookie and idle priority", 0.8, 0, 0.2)

	kept := open() // as a new process does
	must(kept.Give([]string{batch}))
	check("with the cookie given again", 0.8, 0, 0.2)
	must(kept.Take([]string{online, batch}))
	check("after the cookie was taken", 0.7, 0.7, 1.1)
	must(kept.Forget())
	if open().Used() {
		t.Error("the cookie is not forgotten")
	}
}
