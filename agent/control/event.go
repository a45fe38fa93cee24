package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// Event is what the caller has learned. A field that is not set says nothing.
type Event struct {
	// Machine is the topology of the machine, of which CPUs may have gone online or offline. MachineNotes
	// are what is wrong with it, and assumed instead.
	Machine      *topology.Machine
	MachineNotes []string
	Kubelet      *Kubelet
	// StrangeKubelet is set if another program may answer at the kubelet's port.
	StrangeKubelet *bool
	Reserved       *ledger.MilliCPU // the difference of capacity and allocatable of the Node object
	// Busy is the load of the CPUs in thousandths, and Used the containers' share of it.
	Busy map[cpuset.CPU]ledger.MilliCPU
	Used map[nodeplan.Ref]ledger.MilliCPU
	// Pods are all pods that are bound to the node, and StaticPods those that the kubelet runs, by its ids.
	Pods       []*corev1.Pod
	StaticPods map[ledger.PodID]types.NamespacedName
	// StaticPodsAsked is set once the kubelet was asked for these, whether or not it has answered.
	StaticPodsAsked bool
	// Groups are the present settings of all cgroups, and Group those of one that was created since.
	Groups *groups.View
	Group  *Group
	// Sandboxes are pods for which the runtime has a sandbox. Created are containers that it is about to
	// create, At a time, and Stopped those that have stopped, both with their ids.
	Sandboxes        map[ledger.PodID]types.NamespacedName
	Created, Stopped map[nodeplan.Ref]string
	At               time.Time
	// RuntimeWrites is set if the runtime may write CPUs that an agent has once told it.
	RuntimeWrites bool
	// Allocations are what an earlier agent has allocated, as far as that could be read. InForce is set if
	// settings of it may be in force.
	Allocations api.Allocations
	Unreadable  error
	InForce     bool
	// Ceilings replace those of the configuration.
	Ceilings *api.Ceilings
	// Unclaim are resource claims whose CPUs are taken back.
	Unclaim []types.UID
	// Standing are the warnings of those that carry out decisions, not nil if they are known. They have no
	// pods, and their reasons are groups.Impaired, or those of problems of the node.
	Standing []Notice
}

// Group is a cgroup of a pod or container.
type Group struct {
	Path     string
	Where    kubepods.Place
	Settings cgroup.Settings
}

// Step takes an event in.
func (c *Control) Step(e Event) {
	c.prepared = false
	n := &c.node
	if e.Machine != nil {
		n.allowed.machine, n.notes = e.Machine, e.MachineNotes
		c.allow()
	}
	if e.Kubelet != nil {
		n.kubelet = e.Kubelet
	}
	if e.StrangeKubelet != nil {
		n.strangeKubelet = *e.StrangeKubelet
	}
	if e.Ceilings != nil {
		ceilings := e.Ceilings.Allowing(c.config.Burst)
		c.Pods.SetCeilings(ceilings)
		c.allocate.SetCeilings(ceilings)
		c.quota.SetCeilings(ceilings)
	}
	if e.Reserved != nil {
		n.reserved = e.Reserved
	}
	if e.Busy != nil {
		n.usage, n.used = nodeplan.Usage{Sequence: n.usage.Sequence + 1, Busy: e.Busy}, e.Used
	}
	if e.Allocations != nil || e.Unreadable != nil {
		c.allocate.Resume(e.Allocations, e.Unreadable)
	}
	if e.InForce {
		c.stakes.limits.hold()
	}
	if e.InForce || e.RuntimeWrites {
		c.stakes.cpusets.hold()
	}
	if e.Standing != nil {
		n.standing = e.Standing
	}
	n.asked = n.asked || e.StaticPodsAsked
	c.allocate.Unclaim(e.Unclaim...)
	c.stepPods(&e)
	c.stepGroups(&e)
}

func (c *Control) stepPods(e *Event) {
	if e.Pods != nil {
		c.Pods.SetPods(e.Pods, c.round.Runs)
	}
	if e.StaticPods != nil {
		c.Pods.SetStaticPods(e.StaticPods)
	}
	for id, name := range e.Sandboxes {
		c.Pods.AddSandbox(id, name)
	}
	for ref, id := range e.Created {
		c.Pods.Created(e.At, ref, id)
	}
	for ref, id := range e.Stopped {
		c.Pods.Stopped(ref, id)
	}
	c.round.Pods = c.Pods.All
}

func (c *Control) stepGroups(e *Event) {
	if e.Groups != nil {
		c.round.Observe(*e.Groups)
		c.Pods.Forget(c.round.Runs)
		c.round.Pods, c.watch.changed = c.Pods.All, nil
		for path, now := range e.Groups.Settings {
			c.compare(path, now)
		}
		c.allow()
	}
	if e.Group != nil && c.round.Observed() {
		c.round.Add(e.Group.Path, e.Group.Where, e.Group.Settings)
	}
}
