package control

import (
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/nri"
)

// Give returns the settings with which a container is to be created, after the last decision was
// carried out. It contains a quota only if that differs from the kubelet's, so that other plugins
// may set the quota of all other containers.
func (c *Control) Give(ref nodeplan.Ref) nri.Settings {
	if c.hold() != "" {
		return nri.Settings{}
	}
	settings, ordinary := find(c.desired, ref)
	if settings == nil { // of a pod that is not known
		if !c.bound() {
			return nri.Settings{}
		}
		return nri.Settings{CPUs: c.free(ref.Pod, c.desired.Shared, false)}
	}
	given := nri.Settings{CPUs: c.free(ref.Pod, settings.CPUs, settings.Home == nodeplan.HomeExclusive)}
	if given.CPUs.IsEmpty() && !settings.CPUs.IsEmpty() {
		return nri.Settings{CPUs: c.free(ref.Pod, c.desired.Shared, false)} // until its own are free
	}

	if l := settings.WithoutBurst(); l != ordinary {
		given.Quota, given.Period = l.Quota, l.Period
		if l.Quota == bandwidth.Unlimited {
			given.Period = 0
		}
	}
	return given
}

// free is what is left of some CPUs without those that other pods still hold where
// one of the two is to have them alone. It is nothing when the pod's group has not got all
// of it: the runtime then gives the container what the pod has.
func (c *Control) free(pod ledger.PodID, cpus cpuset.Set, exclusive bool) cpuset.Set {
	var within string
	for _, p := range c.view.Pods {
		if ledger.PodID(p.UID) == pod {
			within = p.Path
			continue
		}
		for _, container := range p.Containers {
			if c.exists(container.Path) && (exclusive || !c.exclusive[container.Path].IsEmpty()) {
				cpus = cpus.Difference(c.held(container.Path))
			}
		}
	}
	if c.exists(within) && !cpus.IsSubsetOf(c.held(within)) {
		return cpuset.Set{}
	}
	return cpus
}

// find returns a container's settings in the plan, and its bandwidth in the
// kubelet's.
func find(d desired, ref nodeplan.Ref) (*nodeplan.ContainerSettings, bandwidth.Limits) {
	for i := range d.Pods {
		if d.Pods[i].ID != ref.Pod {
			continue
		}
		for j := range d.Pods[i].Containers {
			if c := &d.Pods[i].Containers[j]; c.Name == ref.Container {
				return c, d.ordinary[ref]
			}
		}
	}
	return nil, bandwidth.Limits{}
}

// desired is a plan, and the bandwidth that the kubelet would give containers and, with no
// container's name, pods.
type desired struct {
	nodeplan.Desired
	ordinary map[nodeplan.Ref]bandwidth.Limits
}

func newDesired(s nodeplan.State, d nodeplan.Desired) desired {
	ordinary := map[nodeplan.Ref]bandwidth.Limits{}
	for _, p := range nodeplan.Kubelet(s).Pods {
		ordinary[nodeplan.Ref{Pod: p.ID}] = p.Limits
		for _, c := range p.Containers {
			ordinary[nodeplan.Ref{Pod: p.ID, Container: c.Name}] = c.Limits
		}
	}
	return desired{d, ordinary}
}

// CoreSetGroups returns the groups of the containers that have core sets.
func (c *Control) CoreSetGroups() map[nodeplan.Ref]string {
	if c.view == nil || len(c.previous.Sets) == 0 {
		return nil
	}
	found := map[nodeplan.Ref]string{}
	for ref, path := range c.locate().containers {
		if _, ok := c.previous.Sets[ref]; ok {
			found[ref] = path
		}
	}
	return found
}
