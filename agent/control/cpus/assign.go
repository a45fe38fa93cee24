package cpus

import (
	"slices"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
)

// assignments returns the planned cpusets of cgroups that exist. Unknown containers get the shared
// CPUs, but those stay that run on CPUs of their pod.
func assignments(r *groups.Round) []nodeplan.Assignment {
	to := slices.DeleteFunc(r.Plan.Assignments(), func(a nodeplan.Assignment) bool { return !r.Exists(r.Container[a.Ref]) })
	if !r.Binds {
		return to
	}
	for _, ref := range r.Unknown {
		if held := r.Held(r.Container[ref]); r.Exists(r.Container[ref]) && held.IsSubsetOf(r.Unlisted[ref.Pod]) {
			to = append(to, nodeplan.Assignment{Ref: ref, CPUs: held, Exclusive: true})
		} else if r.Exists(r.Container[ref]) && !r.Plan.Shared.IsEmpty() {
			to = append(to, nodeplan.Assignment{Ref: ref, CPUs: r.Plan.Shared})
		}
	}
	pods := plannedByPod(r)
	for _, ref := range r.Others {
		if a := otherAssignment(r, ref, pods[ref.Pod]); r.Exists(r.Container[ref]) && !a.CPUs.IsEmpty() {
			to = append(to, a)
		}
	}
	for i := range to {
		to[i].CPUs = r.Within(r.Container[to[i].Ref], to[i].CPUs)
	}
	return to
}

// plannedCPUs are the planned CPUs of the running containers of a pod.
type plannedCPUs struct {
	all, exclusive cpuset.Set // of those that have no cgroup of their own
	own            cpuset.Set // all exclusive ones
}

// plannedByPod returns the planned CPUs by pod, if any pod has a cgroup whose name is not a
// container's.
func plannedByPod(r *groups.Round) map[ledger.PodID]plannedCPUs {
	if len(r.Others) == 0 {
		return nil
	}
	pods := map[ledger.PodID]plannedCPUs{}
	for _, a := range r.Plan.Assignments() {
		in := pods[a.Ref.Pod]
		runsHere := !r.Exists(r.Container[a.Ref])
		if runsHere {
			in.all = in.all.Union(a.CPUs)
		}
		if a.Exclusive {
			in.own = in.own.Union(a.CPUs)
		}
		if runsHere && a.Exclusive {
			in.exclusive = in.exclusive.Union(a.CPUs)
		}
		pods[a.Ref.Pod] = in
	}
	return pods
}

// otherAssignment returns the CPUs of a cgroup whose name is not a container's. Running containers
// of its pod that have no cgroup of their own (for example, in a virtual machine) run in it, so it
// gets their CPUs. Without such containers it is a helper, and gets the shared CPUs. In a pod with
// exclusive CPUs it gets only these, because the pod's quota is removed and nothing else bounds it.
// CRI-O's monitor is an exception.
func otherAssignment(r *groups.Round, other nodeplan.Ref, in plannedCPUs) nodeplan.Assignment {
	switch {
	case !in.exclusive.IsEmpty():
		return nodeplan.Assignment{Ref: other, CPUs: in.exclusive, Exclusive: true}
	case !in.own.IsEmpty() && !groups.IsMonitor(r.Container[other]):
		return nodeplan.Assignment{Ref: other, CPUs: in.own, Exclusive: true}
	case !in.all.IsEmpty():
		return nodeplan.Assignment{Ref: other, CPUs: in.all}
	}
	return nodeplan.Assignment{Ref: other, CPUs: r.Plan.Shared}
}

// assignmentsNow returns the present cpusets of the containers in to.
func (c *Controller) assignmentsNow(r *groups.Round, to []nodeplan.Assignment) []nodeplan.Assignment {
	var from []nodeplan.Assignment
	for _, a := range to {
		path := r.Container[a.Ref]
		own, planned := c.exclusive[path]
		held := r.Held(path)         // not exclusive if the cgroup holds more than its own CPUs
		if !planned && a.Exclusive { // set by an earlier agent, which may have chosen others and removed the quota
			if own = a.CPUs; r.Settings[path].Quota == bandwidth.Unlimited && held.Len() <= own.Len() {
				own = held
			}
		}
		stuck := a.Exclusive && held.IsSubsetOf(c.before[path])
		from = append(from, nodeplan.Assignment{Ref: a.Ref, CPUs: held, Exclusive: !own.IsEmpty() && held.IsSubsetOf(own) || stuck})
	}
	return from
}

// podCPUs returns the planned cpusets of the pods' cgroups that exist, by path. Unknown pods get
// the shared CPUs, and keep their own. If the agent does not bind CPUs, every pod gets all of them.
func podCPUs(r *groups.Round) map[string]cpuset.Set {
	planned := make(map[ledger.PodID]cpuset.Set, len(r.Plan.Pods))
	for i := range r.Plan.Pods {
		planned[r.Plan.Pods[i].ID] = r.Plan.Pods[i].CPUs
	}
	all := make(map[string]cpuset.Set, len(r.Pod))
	for id, path := range r.Pod {
		cpus, ok := planned[id]
		switch {
		case !r.Binds:
			cpus = r.Online
		case !ok:
			cpus = r.Plan.Shared.Union(r.Unlisted[id])
		}
		if r.Exists(path) && !cpus.IsEmpty() {
			all[path] = r.Within(path, cpus)
		}
	}
	return all
}
