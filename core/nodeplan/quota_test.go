package nodeplan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
)

// TestQuota: a static container and its pod have no quota; a static-burst container has its limit;
// a pod's quota covers what its containers may use, unless the kubelet's does not either; and a pod
// without CPUs has what the kubelet sets.
func TestQuota(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		for i := range s.Pods {
			s.Pods[i].Period = 0 // rounding up to a least quota is another matter
		}
		d, kubelet := Plan(s), Kubelet(s)
		for i, p := range d.Pods {
			pod := &s.Pods[i]
			lifted := false
			for j, c := range p.Containers {
				static := c.Home == HomeExclusive && claimed(pod, c.Name)
				lifted = lifted || static
				switch {
				case static && c.Quota != bandwidth.Unlimited:
					t.Fatalf("%s/%s is static and has a quota of %v", p.ID, c.Name, c.Quota)
				case c.Home == HomeCoreSet && c.Quota != share(pod.container(c.Name).Limit, c.Period):
					t.Fatalf("%s/%s has a quota of %v, its limit is %v", p.ID, c.Name, c.Quota, pod.container(c.Name).Limit)
				case c.Home == HomeUnbound && c.WithoutBurst() != kubelet.Pods[i].Containers[j].Limits:
					t.Fatalf("%s/%s has %v, the kubelet sets %v", p.ID, c.Name, c.Limits, kubelet.Pods[i].Containers[j].Limits)
				}
			}
			switch {
			case lifted && p.Quota != bandwidth.Unlimited:
				t.Fatalf("%s has a quota of %v above a static container", p.ID, p.Quota)
			case !lifted && p.WithoutBurst() != kubelet.Pods[i].Limits:
				t.Fatalf("%s has %v, the kubelet sets %v", p.ID, p.Limits, kubelet.Pods[i].Limits)
			}
			if lifted {
				checkOthersKeepTheirs(t, pod, p)
			}
		}
	})
}

// TestUnlimitedOnlyOnExclusiveCPUs: whatever a pod's class, tier and period, a quota that the
// kubelet sets is removed from a container only if all its CPUs are exclusive to its pod, and from
// a pod only if everything in it either has such CPUs or a quota.
func TestUnlimitedOnlyOnExclusiveCPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		s.BatchBudget = drawMilli(t, "batchBudget")
		drawRaises(t, &s)
		d, kubelet := Plan(s), Kubelet(s)
		for i, p := range d.Pods {
			for j, c := range p.Containers {
				own := !c.CPUs.IsEmpty() && c.CPUs.IsSubsetOf(d.Exclusive)
				bound := kubelet.Pods[i].Containers[j].Quota > 0 || p.Quota == bandwidth.Unlimited && kubelet.Pods[i].Quota > 0
				if c.Quota == bandwidth.Unlimited && bound && !own {
					t.Fatalf("%s/%s (%s) has no quota on CPUs %s, of which %s are exclusive; its pod has %v, and from the kubelet %v",
						p.ID, c.Name, p.Tier, c.CPUs, d.Exclusive, p.Quota, kubelet.Pods[i].Quota)
				}
			}
			if p.Quota == bandwidth.Unlimited && kubelet.Pods[i].Quota > 0 &&
				!slices.ContainsFunc(p.Containers, func(c ContainerSettings) bool { return c.Home == HomeExclusive }) {
				t.Fatalf("%s (%s, %s) has no quota", p.ID, p.Tier, s.Pods[i].Class)
			}
			var together ledger.Phases[ledger.MilliCPU] // the most that containers use at the same time, exclusive CPUs once
			const rounding = 10                         // of a least quota
			for _, c := range p.Containers {
				container := s.Pods[i].container(c.Name)
				switch use := ledger.MilliCPU(c.Base.Quota * 1000 / c.Base.Period); {
				case claimed(&s.Pods[i], c.Name) && c.Home == HomeExclusive:
					together.Add(container.Role, container.Limit)
				case c.Home != HomeExclusive && !container.Ephemeral:
					together.Add(container.Role, use-rounding)
				}
			}
			if limit := s.Pods[i].podLimit(); p.Quota == bandwidth.Unlimited && kubelet.Pods[i].Quota > 0 && together.Largest() > limit {
				t.Fatalf("%s has a limit of %v, and its containers together %v: %+v", p.ID, limit, together.Largest(), p)
			}
		}
	})
}

func claimed(p *Pod, name string) bool {
	return slices.ContainsFunc(p.Claim.Containers, func(c ledger.ContainerClaim) bool { return c.Name == name })
}

// checkOthersKeepTheirs checks that containers that are not static keep their quota when that of
// their pod is removed.
func checkOthersKeepTheirs(t *rapid.T, pod *Pod, p PodSettings) {
	for _, c := range p.Containers {
		container := pod.container(c.Name)
		static := c.Home == HomeExclusive && claimed(pod, c.Name)
		switch {
		case !static && container.Limit > 0 && c.Quota != max(bandwidth.MinQuota, share(container.Limit, c.Period)):
			t.Fatalf("%s/%s has a limit of %v and a quota of %v", p.ID, c.Name, container.Limit, c.Quota)
		case !static && !container.Ephemeral && container.Limit == 0 && pod.Limit > 0 && (c.Quota == bandwidth.Unlimited || c.Quota > share(pod.Limit+minRemainder, c.Period)):
			t.Fatalf("%s/%s has a quota of %v in a pod limited to %v", p.ID, c.Name, c.Quota, pod.Limit)
		}
	}
}
