package control

import (
	"slices"
	"time"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
)

// begin passes the inputs to the next round.
func (c *Control) begin(now time.Time) {
	r := &c.round
	r.Locate(c.Pods.Containers())
	r.Now, r.Changed, r.Period, r.Pods = now, c.watch.limits(), c.node.kubelet.Quota.PeriodOrDefault(), c.Pods.All
	r.BindingOff, r.Books = c.node.kubelet.bindingOff(), c.books()
	r.Binds = r.BindingOff == ""
	r.Claims = c.allocate.Claims(r)
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

// state returns the input of a plan.
func (c *Control) state() nodeplan.State {
	s := nodeplan.State{
		Index:         c.round.Index,
		Config:        c.round.Books,
		Allowed:       c.round.Allowed,
		BindingOff:    c.round.BindingOff,
		Kubelet:       c.node.kubelet.Quota,
		Usage:         c.node.usage,
		NoKernelBurst: c.round.NoBurst,
	}
	for i := range c.Pods.All {
		pod := c.Pods.All[i].Plan
		pod.Containers = slices.Clone(pod.Containers)
		for j := range pod.Containers {
			container := &pod.Containers[j]
			ref := nodeplan.Ref{Pod: pod.ID, Container: container.Name}
			container.Used = c.node.used[ref]
			if c.Pods.IsCreated(ref) {
				container.Phase = nodeplan.Running
			}
		}
		s.Pods = append(s.Pods, pod)
	}
	for _, k := range c.controllers {
		k.Input(&c.round, &s)
	}
	for i := range s.Pods {
		if p := &s.Pods[i]; !c.round.Counts(p.ID, &p.Claim) {
			p.Claim.SharedRequest = 0
		}
	}
	return s
}

// bindingOff returns the reason why CPUs must not be bound under the kubelet's CPU manager policy,
// or "".
func (k *Kubelet) bindingOff() string {
	switch {
	case k.NoPodGroups:
		return "the kubelet's cgroupsPerQOS is false, so its pods have no groups that can be found: set it to true and restart the kubelet"
	case k.CPUManagerPolicy == "none":
		return ""
	}
	return "the kubelet's cpuManagerPolicy is " + k.CPUManagerPolicy + ", so the kubelet binds containers itself: " +
		"stop the kubelet, set it to none, delete cpu_manager_state in the kubelet's directory, and start the kubelet"
}
