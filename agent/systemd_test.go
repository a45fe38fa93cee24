package agent

import (
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// TestUntold checks what is remembered for systemd until it can be told.
func TestUntold(t *testing.T) {
	tree := newTree(t)
	group := tree.podOf("1", containerID('a'))
	k, err := openKernel(tree.root)
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	cpus, unlimited, quota, period, burst := cpuset.Of(1), bandwidth.Unlimited, 50*ms, 20*ms, ms
	if outcome := k.Apply(map[string]cgroup.Wanted{group: {CPUs: &cpus}}); outcome.Err() != nil || len(k.units.untold) != 0 {
		t.Errorf("with the driver cgroupfs: %v, %v", outcome.Err(), k.units.untold)
	}
	k.naming = kubepods.Naming{Driver: kubepods.Systemd}
	apply := func(w cgroup.Wanted, raised ...string) cgroup.Wanted {
		t.Helper()
		k.units.raises(raised)
		if err := k.Apply(map[string]cgroup.Wanted{group: w}).Err(); err != nil {
			t.Error(err)
		}
		if unit := k.units.untold[group]; unit != nil {
			return unit.Wanted
		}
		return cgroup.Wanted{}
	}
	if got := apply(cgroup.Wanted{Burst: &burst}); got != (cgroup.Wanted{}) {
		t.Errorf("of a burst it remembers %+v", got)
	}
	if got := apply(cgroup.Wanted{Quota: &quota}); *got.Quota != quota || *got.Period != 100*ms || got.Burst != nil {
		t.Errorf("of a quota it remembers %+v, want it with the period of the group", got)
	}
	if got := apply(cgroup.Wanted{CPUs: &cpus, Period: &period}); *got.Quota != quota || *got.Period != period || *got.CPUs != cpus {
		t.Errorf("it remembers %+v, want all changes", got)
	}
	if got := apply(cgroup.Wanted{Quota: &unlimited}, group); *got.Quota != quota {
		t.Errorf("of a raised quota it remembers %v, want that of before", got.Quota)
	}
	if next, _ := k.units.next(); next != group {
		t.Errorf("systemd is told of %q next, want the group whose CPUs have changed", next)
	}
	k.units.untold[group].CPUs = nil
	if next, _ := k.units.next(); next != "" {
		t.Errorf("systemd is told of %s, whose quota is raised", next)
	}
	k.units.raises(nil)
	if err := k.units.flush(t.Context(), flushLimit); err == nil || !strings.Contains(err.Error(), "connect to systemd") {
		t.Errorf("without a systemd: %v", err)
	}
	k.units.wrote(map[string]cgroup.Wanted{"/gone": {CPUs: &cpus}})
	k.units.pause()()
	if len(k.units.untold) != 1 {
		t.Errorf("after a group that has ended: %v", k.units.untold)
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
	for _, tier := range qos.Tiers() {
		tree.group(k.naming.Tier(tier), "-1")
	}
	pod := k.naming.Pod(qos.Burstable, "1")
	container := k.naming.Container(qos.Burstable, "1", "cri-containerd", containerID('a'))
	for _, group := range []string{pod, container} {
		tree.group(group, "-1")
		tree.file("sys/fs/cgroup/cpu"+group+"/cpu.shares", "10")
	}
	if err := k.setWeight(container+"/inner", true, nil); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]cgroup.Weight{pod: ownShares, container: 10} {
		if s, err := k.groups.Read(group); err != nil || s.Weight != want {
			t.Errorf("%s has %d shares (%v), want %d", group, s.Weight, err, want)
		}
	}
	if told := k.units.untold[pod]; told == nil || *told.Weight != 25 {
		t.Errorf("systemd will be told %+v, want a weight of 25", told)
	}
}
