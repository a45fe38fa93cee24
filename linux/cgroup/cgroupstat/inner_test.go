package cgroupstat

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// TestInnerGroup reads a container of crun, whose throttling either of two groups counts.
func TestInnerGroup(t *testing.T) {
	fs := openFixture(t, "v2-systemd")
	scope := "/kubepods.slice/cri-containerd-" + strings.Repeat("0123456789abcdef", 4) + ".scope"
	put := func(group, limits string, periods, throttled int, throttledTime, usage time.Duration) {
		t.Helper()
		must.Do(t, os.MkdirAll(fs.Dir(cgroup.CPU, group), 0o755))
		stat := fmt.Sprintf("usage_usec %d\nnr_periods %d\nnr_throttled %d\nthrottled_usec %d\nnr_bursts 0\nburst_usec 0\n",
			usage.Microseconds(), periods, throttled, throttledTime.Microseconds())
		for file, text := range map[cgroup.File]string{cgroup.CPUMax: limits, cgroup.CPUStat: stat, cgroup.CPUMaxBurst: "0"} {
			must.Do(t, os.WriteFile(fs.File(group, file), []byte(text+"\n"), 0o600))
		}
	}
	const ms = time.Millisecond
	put(scope, "max 100000", 0, 0, 0, 30*ms)
	r := openStat(t, fs, scope)
	var s Stat
	expect := func(what string, quota time.Duration, want Stat) {
		t.Helper()
		if l, err := r.Limits(); err != nil || l != (bandwidth.Limits{Quota: quota, Period: 100 * ms}) {
			t.Errorf("%s: limits %+v, %v; want %v", what, l, err, quota)
		}
		if err := r.Read(&s); err != nil || s != want {
			t.Errorf("%s: %+v, %v; want %+v", what, s, err, want)
		}
	}
	expect("before there is another group", bandwidth.Unlimited, Stat{Usage: 30 * ms})
	put(scope+"/container", "20000 100000", 10, 4, 100*ms, 1*ms)
	expect("the quota is in the inner group", 20*ms, Stat{Usage: 30 * ms, Periods: 10, Throttled: 4, ThrottledTime: 100 * ms})
	put(scope, "10000 100000", 10, 3, 200*ms, 40*ms)
	expect("then the scope's is smaller, and it alone throttles", 10*ms, Stat{Usage: 40 * ms, Periods: 20, Throttled: 7, ThrottledTime: 300 * ms})
	put(scope+"/container", "20000 100000", 20, 6, 150*ms, 2*ms)
	put(scope, "30000 100000", 20, 5, 250*ms, 50*ms)
	expect("both throttle at once", 20*ms, Stat{Usage: 50 * ms, Periods: 30, Throttled: 9, ThrottledTime: 350 * ms})
	must.Do(t, os.RemoveAll(fs.Dir(cgroup.CPU, scope+"/container")))
	put(scope, "30000 100000", 21, 5, 250*ms, 60*ms)
	expect("the inner group has ended", 30*ms, Stat{Usage: 60 * ms, Periods: 31, Throttled: 9, ThrottledTime: 350 * ms})
	put(scope+"/container", "20000 100000", 2, 2, 40*ms, 1*ms)
	expect("there is another one", 20*ms, Stat{Usage: 60 * ms, Periods: 33, Throttled: 11, ThrottledTime: 390 * ms})
}
