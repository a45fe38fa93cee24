package nodeplan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/qos"
)

// TestRaise: a raise changes only the quotas of containers and of their pods. Each is within its
// policy, and a pod's quota increases by what its containers gain together in any phase.
func TestRaise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		base := Plan(s)
		drawRaises(t, &s)
		raised := Plan(s)
		if d := cmp.Diff(base, raised, cmp.Comparer(equalSets), cmpopts.IgnoreFields(bandwidth.Limits{}, "Quota")); d != "" {
			t.Fatalf("a raise changes something else:\n%s", d)
		}
		for i, p := range raised.Pods {
			pod := &s.Pods[i]
			for j, c := range p.Containers {
				before := base.Pods[i].Containers[j].Quota
				if c.Base.Quota != before || c.Quota < before || c.Quota > c.Highest {
					t.Fatalf("%s/%s has quota %v, %+v, before %v", p.ID, c.Name, c.Quota, c.Raising, before)
				}
				asked := pod.container(c.Name).Raised
				if mayRaise(pod, &c) && min(asked, c.Highest) > before != (c.Quota > before) || !mayRaise(pod, &c) && c.Quota != before {
					t.Fatalf("%s/%s has quota %v instead of %v, %v was decided, policy %+v", p.ID, c.Name, c.Quota, before, asked, pod.Burst)
				}
			}
			checkPodsRaise(t, pod, p, base.Pods[i])
		}
	})
}

// mayRaise reports whether the policy of the container's pod permits a raise.
func mayRaise(p *Pod, c *ContainerSettings) bool {
	policy := p.Burst
	limits, declared := p.containerLimits()
	return policy.Mode.Uses().Quota && policy.QuotaPercent > 100 && p.Class != qos.BE &&
		p.container(c.Name).Limit > 0 && c.Base.Quota > 0 && (p.Limit == 0 || declared && p.Limit >= limits)
}

func checkPodsRaise(t *rapid.T, pod *Pod, raised, base PodSettings) {
	most := 0.0
	for at := range raised.Containers {
		sum := 0.0
		role := pod.container(raised.Containers[at].Name).Role
		for i, c := range raised.Containers {
			other := pod.container(c.Name).Role
			if i == at || role != ledger.RoleInit && other != ledger.RoleInit || role == ledger.RoleInit && i < at && other == ledger.RoleSidecar {
				sum += cpus(c.Quota-c.Base.Quota, c.Period)
			}
		}
		most = max(most, sum)
	}
	const rounding = 1e-9
	switch got := cpus(raised.Quota-base.Quota, raised.Period); {
	case base.Quota == bandwidth.Unlimited && raised.Quota != bandwidth.Unlimited:
		t.Fatalf("%s had no quota and has %v", raised.ID, raised.Quota)
	case base.Quota > 0 && (got < most-rounding || got > most+cpus(10*time.Microsecond, raised.Period)):
		t.Fatalf("%s has %v CPUs more, its containers %v: %+v", raised.ID, got, most, raised)
	}
}

func cpus(quota, period time.Duration) float64 {
	if period == 0 {
		return 0
	}
	return float64(quota) / float64(period)
}
