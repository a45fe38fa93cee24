package agent

import (
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
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

// TestOwnWeightIsTold checks that systemd is told of the agent's weight, like of all other
// settings.
func TestOwnWeightIsTold(t *testing.T) {
	tree := newTree(t)
	k, err := openKernel(tree.root)
	if err != nil {
		t.Fatal(err)
	}
	k.naming = kubepods.Naming{Driver: kubepods.Systemd}
	for _, tier := range nodeplan.Tiers() {
		tree.group(k.naming.Tier(tier), "-1")
	}
	pod := k.naming.Pod(nodeplan.Burstable, "1")
	container := k.naming.Container(nodeplan.Burstable, "1", "cri-containerd", containerID('a'))
	for _, group := range []string{pod, container} {
		tree.group(group, "-1")
		tree.file("sys/fs/cgroup/cpu"+group+"/cpu.shares", "10")
	}
	if err := k.raiseWeight(container + "/inner"); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]cgroup.Weight{pod: ownShares, container: 10} {
		if s, err := k.groups.Read(group); err != nil || s.Weight != want {
			t.Errorf("%s has %d shares (%v), want %d", group, s.Weight, err, want)
		}
	}
	if told := k.untold[pod].Weight; told == nil || *told != 25 {
		t.Errorf("systemd will be told a weight of %v, want 25", told)
	}
	if k.systemdErr == nil {
		t.Error("no error of a systemd that cannot be reached")
	}
}
