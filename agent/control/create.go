package control

import (
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/nri"
)

// plan is a plan for the node and what the kubelet would set instead.
type plan struct {
	nodeplan.Desired
	// kubelet is the bandwidth that the kubelet would give containers and, with Container == "",
	// pods.
	kubelet map[nodeplan.Ref]bandwidth.Limits
}

func newPlan(s nodeplan.State, d nodeplan.Desired) plan {
	kubelet := map[nodeplan.Ref]bandwidth.Limits{}
	for _, p := range nodeplan.Kubelet(s).Pods {
		kubelet[nodeplan.Ref{Pod: p.ID}] = p.Limits
		for _, c := range p.Containers {
			kubelet[nodeplan.Ref{Pod: p.ID, Container: c.Name}] = c.Limits
		}
	}
	return plan{d, kubelet}
}

// container returns the planned settings of a container, or nil.
func (p *plan) container(ref nodeplan.Ref) *nodeplan.ContainerSettings {
	for i := range p.Pods {
		for j := range p.Pods[i].Containers {
			if c := &p.Pods[i].Containers[j]; p.Pods[i].ID == ref.Pod && c.Name == ref.Container {
				return c
			}
		}
	}
	return nil
}

// Ask makes the settings with which a container is to be created, or updated, a part of the status
// after the next decision.
func (c *Control) Ask(ref nodeplan.Ref) { c.asked = &ref }

// createSettings returns the settings with which a container is to be created. It contains a quota
// only if that differs from the kubelet's, so that other plugins may set the quota of all other
// containers.
func (c *Control) createSettings(ref nodeplan.Ref) nri.Settings {
	planned := c.plan.container(ref)
	if planned == nil { // the pod is unknown
		if !c.binds() {
			return nri.Settings{}
		}
		return nri.Settings{CPUs: c.free(ref.Pod, c.plan.Shared, false)}
	}
	settings := nri.Settings{CPUs: c.free(ref.Pod, planned.CPUs, planned.Home == nodeplan.HomeExclusive)}
	if settings.CPUs.IsEmpty() && !planned.CPUs.IsEmpty() {
		return nri.Settings{CPUs: c.free(ref.Pod, c.plan.Shared, false)} // until its own are free
	}
	// Not a raised quota: the runtime would report it, and the kubelet would take it for the limit.
	if l := planned.Base.WithoutBurst(); l != c.plan.kubelet[ref] {
		settings.Quota, settings.Period = l.Quota, l.Period
		if l.Quota == bandwidth.Unlimited {
			settings.Period = 0
		}
	}
	return settings
}

// free returns cpus without those that a container of another pod still holds, if that container or
// the new one (exclusive) is to have its CPUs exclusively. It returns the empty set if the pod's
// cgroup does not have all of cpus: the runtime then gives the container the CPUs of the pod.
func (c *Control) free(pod ledger.PodID, cpus cpuset.Set, exclusive bool) cpuset.Set {
	var podGroup string
	for _, p := range c.view.Pods {
		if ledger.PodID(p.UID) == pod {
			podGroup = p.Path
			continue
		}
		for _, container := range p.Containers {
			if c.exists(container.Path) && (exclusive || !c.exclusive[container.Path].IsEmpty()) {
				cpus = cpus.Difference(c.held(container.Path))
			}
		}
	}
	if c.exists(podGroup) && !cpus.IsSubsetOf(c.held(podGroup)) {
		return cpuset.Set{}
	}
	return cpus
}
