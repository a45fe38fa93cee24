package nodeplan

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
)

// TestBurst: exactly the containers with a quota whose policy uses the kernel have a burst. It is
// the percentage of the quota that the policy says, at most the whole quota. A pod with a quota has
// the largest sum of any phase of its life, at most its quota.
func TestBurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		for i, p := range Plan(s).Pods {
			pod := &s.Pods[i]
			kernel, percent := kernelBurst(&s, pod)
			for _, c := range p.Containers {
				want := time.Duration(0)
				if kernel {
					want = (c.Quota * time.Duration(percent) / 100).Truncate(time.Microsecond)
				}
				if c.Burst != want || c.Burst > max(0, c.Quota) {
					t.Fatalf("%s/%s has burst %v of quota %v, want %v (policy %+v)", p.ID, c.Name, c.Burst, c.Quota, want, pod.Burst)
				}
			}
			want := time.Duration(0)
			for at := range p.Containers {
				want = max(want, burstBeside(pod, p.Containers, at))
			}
			if want = min(want, max(0, p.Quota)); p.Burst != want {
				t.Fatalf("%+v has burst %v, want %v", p, p.Burst, want)
			}
		}
	})
}

// kernelBurst returns the kernel's part of the policy of a pod.
func kernelBurst(s *State, p *Pod) (on bool, percent int) {
	mode := p.Burst.Mode
	return (mode == burst.Kernel || mode == burst.Auto) && s.NoKernelBurst == "" && p.Class != BE, min(p.Burst.BurstPercent, 100)
}

// burstBeside returns the sum of the bursts of a container and of those that run at the same time.
func burstBeside(p *Pod, containers []ContainerSettings, at int) (sum time.Duration) {
	role := p.container(containers[at].Name).Role
	for i, c := range containers {
		other := p.container(c.Name).Role
		before := i < at && other == ledger.RoleSidecar
		beside := role != ledger.RoleInit && other != ledger.RoleInit
		if (i == at || beside || before && role == ledger.RoleInit) && !p.container(c.Name).Ephemeral {
			sum += c.Burst
		}
	}
	return sum
}

// TestKernelAcceptsBandwidth: no plan has settings that the kernel rejects, such as a burst above
// the quota or, with cgroup version 1, more quota per period than the pod has.
func TestKernelAcceptsBandwidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		check := func(name string, s Settings) {
			if err := s.Validate(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		state := drawState(t)
		drawRaises(t, &state)
		for i, p := range Plan(state).Pods {
			check(string(p.ID), p.Settings)
			limits, declared := state.Pods[i].containerLimits()
			fits := declared && state.Pods[i].podLimit() >= limits
			for _, c := range p.Containers {
				check(string(p.ID)+"/"+c.Name, c.Settings)
				if fits && p.Quota > 0 && c.Quota > 0 && ratio(c.Limits) > ratio(p.Limits) {
					t.Fatalf("%s/%s has %v per %v, its pod %v per %v", p.ID, c.Name, c.Quota, c.Period, p.Quota, p.Period)
				}
			}
		}
	})
}

// ratio is what the kernel compares (to_ratio in kernel/sched/core.c).
func ratio(b bandwidth.Limits) uint64 {
	return uint64(b.Quota.Microseconds()) << 20 / uint64(b.Period.Microseconds())
}
