package agent

import (
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// TestTellSystemd checks what is remembered for a systemd that cannot be reached, for groups of a
// fixture without one.
func TestTellSystemd(t *testing.T) {
	tree := newTree(t)
	group := tree.podOf("1", containerID('a'))
	k, err := openKernel(tree.root)
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	cpus, none, quota, period, burst := cpuset.Of(1), bandwidth.Unlimited, 50*ms, 20*ms, ms
	if err := k.tellSystemd(map[string]cgroup.Wanted{group: {CPUs: &cpus}}, nil); err != nil || len(k.untold) != 0 {
		t.Errorf("with the driver cgroupfs: %v, %v", err, k.untold)
	}
	k.naming = kubepods.Naming{Driver: kubepods.Systemd}
	tell := func(w cgroup.Wanted, raised ...string) cgroup.Wanted {
		t.Helper()
		if err := k.tellSystemd(map[string]cgroup.Wanted{group: w}, raised); err == nil && w != (cgroup.Wanted{Burst: &burst}) {
			t.Errorf("%+v: no error", w)
		}
		return k.untold[group]
	}
	if got := tell(cgroup.Wanted{Burst: &burst}); got != (cgroup.Wanted{}) {
		t.Errorf("of a burst it remembers %+v", got)
	}
	if got := tell(cgroup.Wanted{Quota: &quota}); *got.Quota != quota || *got.Period != 100*ms || got.Burst != nil {
		t.Errorf("of a quota it remembers %+v, want it with the period of the group", got)
	}
	if got := tell(cgroup.Wanted{CPUs: &cpus, Period: &period}); *got.Quota != quota || *got.Period != period || *got.CPUs != cpus {
		t.Errorf("it remembers %+v, want all changes", got)
	}
	if got := tell(cgroup.Wanted{Quota: &none}, group); *got.Quota != quota {
		t.Errorf("of a raised quota it remembers %v, want that of before", got.Quota)
	}
	if err := k.tellSystemd(map[string]cgroup.Wanted{"/gone": {CPUs: &cpus}}, nil); err == nil || len(k.untold) != 1 {
		t.Errorf("after a group that has ended: %v, %v", err, k.untold)
	}
}
