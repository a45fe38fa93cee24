package control

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
)

// begin passes the inputs to the next round.
func (c *Control) begin() {
	r := &c.round
	r.Locate(c.Containers())
	r.Binds, r.Period, r.Pods = c.node.kubelet.bindingOff() == "", c.node.kubelet.Quota.PeriodOrDefault(), c.All
}

// books returns the configuration of the node's books. What runs on CPUs that pods may not use needs no
// others.
func (c *Control) books() ledger.Config {
	config := ledger.Config{ReservedCPUs: c.node.kubelet.ReservedCPUs, MinShared: c.config.MinShared}
	for _, cpus := range c.round.Allowed { // each QoS class needs shared ones
		if cpus != c.round.Online {
			config.ReservedCPUs = config.ReservedCPUs.Union(cpus.FirstN(max(1, c.config.MinShared)))
		}
	}
	if c.node.reserved != nil {
		config.Reserved = max(0, *c.node.reserved-ledger.MilliCPU(c.round.Withheld.Len())*1000)
	}
	return config
}

// requested returns the annotations that a pod has.
func requested(s *pods.Pod) pods.Annotations { return s.Annotations }

// state returns the input of a plan.
func (c *Control) state(annotationsOf func(*pods.Pod) pods.Annotations) nodeplan.State {
	kubelet := c.node.kubelet
	s := nodeplan.State{
		Index:         c.node.index,
		Config:        c.books(),
		Allowed:       c.round.Allowed,
		BindingOff:    kubelet.bindingOff(),
		Kubelet:       kubelet.Quota,
		Usage:         c.node.usage,
		Previous:      c.cpus.CoreSets(&c.round),
		Tuning:        c.config.Tuning,
		Batch:         c.batch.Mechanisms(c.round.Groups),
		BatchBudget:   c.batch.Budget(),
		NoKernelBurst: c.round.NoBurst,
	}
	for i := range c.All {
		pod, a := c.All[i].Plan, annotationsOf(&c.All[i])
		pod.Class, pod.Period, pod.Burst = a.Class, a.Period, a.Burst
		if !a.Allocated && c.All[i].Annotations.Allocated {
			pod.Claim.Containers, pod.Claim.SharedRequest = nil, api.EffectiveRequest(c.All[i].Object)
		}
		pod.Containers = slices.Clone(pod.Containers)
		for j := range pod.Containers {
			container := &pod.Containers[j]
			ref := nodeplan.Ref{Pod: pod.ID, Container: container.Name}
			container.Used = c.node.used[ref]
			container.Raised = c.quota.QuotaAbove(c.round.Groups, c.round.Container[ref], cmp.Or(pod.Period, s.Kubelet.PeriodOrDefault()))
			if c.IsCreated(ref) {
				container.Phase = nodeplan.Running
			}
		}
		s.Pods = append(s.Pods, pod)
	}
	return s
}

// bindingOff returns the reason why CPUs must not be bound under the kubelet's CPU manager policy,
// or "".
func (k *Kubelet) bindingOff() string {
	switch {
	case k.NoPodGroups:
		return "the kubelet's cgroupsPerQOS is false, so its pods have no groups that can be found: set it to true"
	case k.CPUManagerPolicy == "none":
		return ""
	}
	return "the kubelet's cpuManagerPolicy is " + k.CPUManagerPolicy + ", so the kubelet binds containers itself: " +
		"set it to none, delete cpu_manager_state in the kubelet's directory and restart the kubelet"
}
