package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/allocate"
	"pinfold.dev/pinfold/agent/control/batch"
	"pinfold.dev/pinfold/agent/control/cpus"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/agent/control/quota"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// Config is the part of the agent's configuration that decisions depend on.
type Config struct {
	NodeName string
	// MinShared is the number of CPUs that always stay shared. It should equal the scheduler's
	// minSharedCPUs.
	MinShared int
	Tuning    nodeplan.Tuning
	// Priority is how batch pods are put behind all others.
	Priority colocation.Priority
	// Batch bounds the CPU time of all batch pods together. With a threshold of 0 there is no
	// bound.
	Batch colocation.Config
	// Burst is the burst policy of pods without one. All its fields are set: they also fill in the
	// fields that pods omit.
	Burst burst.Policy
	// Ceilings limit what pods can get by their annotations.
	Ceilings api.Ceilings
	// Keys verify the signatures of allocations. Without keys every allocation is accepted.
	Keys *api.Keys
	// QuotaOwner determines what happens when another program changes quota, period or burst.
	QuotaOwner QuotaOwner
	// Partition is the kind of cpuset partition that containers with exclusive CPUs become: "" or
	// cgroup.PartitionMember for none.
	Partition cgroup.Partition
	// Allocates makes the agent give CPUs to the pods that ask, instead of Pinfold's scheduler.
	Allocates bool
	// Repack is how much better its CPUs must get for a running pod to be moved, "" for never.
	Repack allocate.Repack
	// Refuses keeps pods that it cannot give CPUs to from starting. Otherwise they run in the
	// shared CPUs.
	Refuses bool
	// Observe makes the agent write nothing, and say what it would write.
	Observe bool
}

// BoundsBatch reports whether the CPU time of batch pods is bounded.
func (c Config) BoundsBatch() bool { return c.Batch.Threshold > 0 && !c.Observe }

// Partitioned reports whether containers with exclusive CPUs become cpuset partitions.
func (c Config) Partitioned() bool { return c.Partition != "" && c.Partition != cgroup.PartitionMember }

// QuotaOwner determines whose quota, period and burst apply when other programs write them too.
type QuotaOwner string

// The owners.
const (
	// OwnerPinfold restores the agent's values. It is the default.
	OwnerPinfold QuotaOwner = "pinfold"
	// OwnerOther leaves the other program's values until the cgroup ends or its limit changes.
	OwnerOther QuotaOwner = "other"
)

// Kubelet is the part of the kubelet's configuration that the agent uses.
type Kubelet struct {
	CPUManagerPolicy string
	ReservedCPUs     cpuset.Set
	Quota            nodeplan.KubeletConfig
	CgroupRoot       string
}

// View is the present settings of the pods' cgroups.
type View = groups.View

// Control is the state machine. It passes its inputs to the controllers and merges what these want.
// Its methods must not be called concurrently, except [pods.Pods.Alike].
type Control struct {
	*pods.Pods
	config   Config
	node     node
	allocate *allocate.Controller
	cpus     *cpus.Controller
	quota    *quota.Controller
	batch    *batch.Controller
	// round is the last one. Its groups are those of the last observation.
	round  groups.Round
	watch  watch
	asked  *nodeplan.Ref // by the runtime, until the decision was carried out
	stakes stakes
	// failures are those of the last round, by path. noticed are the notices of the last report.
	failures map[string]error
	noticed  noticed
}

// node is the inputs that are about the node.
type node struct {
	allowed allowed
	index   *placement.Index // of the CPUs that pods may use, nil until SetMachine
	kubelet *Kubelet         // nil until SetKubelet
	// strangeKubelet is set if another program may answer at the kubelet's port.
	strangeKubelet bool
	reserved       *ledger.MilliCPU // of the Node object, nil until SetReserved
	usage          nodeplan.Usage
	used           map[nodeplan.Ref]ledger.MilliCPU
	notes          []string // what is wrong with the files about the machine, and assumed instead
}

// New returns a state machine without any input.
func New(config Config) *Control {
	ceilings := config.Ceilings.Allowing(config.Burst)
	var partition cgroup.Partition
	if config.Partitioned() {
		partition = config.Partition
	}
	repack := config.Repack
	if config.Observe {
		repack = allocate.RepackNone
	}
	allocator := allocate.New(config.NodeName, config.Allocates, repack)
	return &Control{
		Pods:     pods.New(pods.Config{Keys: config.Keys, Given: allocator.Given(), Ceilings: ceilings, Burst: config.Burst}),
		config:   config,
		allocate: allocator,
		cpus:     cpus.New(partition),
		quota:    quota.New(ceilings, config.QuotaOwner == OwnerOther),
		batch:    batch.New(config.Priority, config.Batch),
		round:    groups.Round{Groups: &groups.Groups{}, First: true, Plan: &nodeplan.Desired{}},
		watch:    watch{expected: map[string]cgroup.Settings{}},
		noticed:  noticed{},
	}
}

// SetMachine sets the topology of the machine. CPUs may have gone online or offline since the last
// call.
func (c *Control) SetMachine(m *topology.Machine) {
	c.node.allowed.machine = m
	c.allow()
}

// Machine returns the machine without the CPUs that pods may not use, or nil.
func (c *Control) Machine() *topology.Machine {
	if c.node.index == nil {
		return nil
	}
	return c.node.index.Machine()
}

// SetMachineNotes sets what is wrong with the topology of the machine, and assumed instead.
func (c *Control) SetMachineNotes(notes []string) { c.node.notes = notes }

// SetKubelet sets the kubelet's configuration.
func (c *Control) SetKubelet(k Kubelet) { c.node.kubelet = &k }

// SetKubeletTrust sets whether what answers at the kubelet's port is known to be the kubelet.
func (c *Control) SetKubeletTrust(known bool) { c.node.strangeKubelet = !known }

// Kubelet returns the configuration last set with SetKubelet, or nil.
func (c *Control) Kubelet() *Kubelet { return c.node.kubelet }

// SetReserved sets the difference of capacity and allocatable of the Node object.
func (c *Control) SetReserved(reserved ledger.MilliCPU) { c.node.reserved = &reserved }

// SetPods sets all pods that are bound to the node.
func (c *Control) SetPods(objects []*corev1.Pod) { c.Pods.SetPods(objects, c.round.Runs) }

// SetUsage sets the load of the CPUs and the containers' share of it.
func (c *Control) SetUsage(busy map[cpuset.CPU]ledger.MilliCPU, used map[nodeplan.Ref]ledger.MilliCPU) {
	c.node.usage = nodeplan.Usage{Sequence: c.node.usage.Sequence + 1, Busy: busy}
	c.node.used = used
}

// Observe sets the present settings of the cgroups.
func (c *Control) Observe(v View) {
	c.round.Observe(v)
	c.Forget(c.round.Runs)
	c.watch.changed = nil
	for path, now := range v.Settings {
		c.compare(path, now)
	}
	c.allow()
}

// compare records what other writers have changed in a cgroup, and reports whether there are any
// changes.
func (c *Control) compare(path string, now cgroup.Settings) bool {
	changed := c.watch.compare(path, now, c.round.Online)
	for _, f := range changed {
		if f.isLimit() {
			c.quota.Written(path)
		}
	}
	return len(changed) > 0
}

// AddGroup adds the cgroup of a pod or container that was created since the last observation.
func (c *Control) AddGroup(path string, where kubepods.Place, settings cgroup.Settings) {
	if c.round.Observed() {
		c.round.Add(path, where, settings)
	}
}

// HoldCPUs says that the runtime may write CPUs that an agent has once told it.
func (c *Control) HoldCPUs() {
	if s := &c.stakes.cpusets; !s.held {
		*s = stake{held: true}
	}
}

// SetGiven sets what an earlier agent has given, as far as what it saved could be read.
func (c *Control) SetGiven(saved map[types.UID]api.Allocation, unreadable error) {
	c.allocate.Restore(saved, unreadable)
}

// Claimed returns the resource claims whose pods have CPUs for them, or have lost these.
func (c *Control) Claimed() map[types.UID]bool { return c.allocate.Claimed() }

// Settled reports whether what an earlier agent has given has been compared with the kernel, as far
// as this agent will.
func (c *Control) Settled() bool {
	return c.allocate.Recovered() || c.hold() == "" && c.node.kubelet.bindingOff() != ""
}

// Given returns what the agent has given to pods. It changes with each decision.
func (c *Control) Given() *api.Given { return c.allocate.Given() }

// SetInForce says that an earlier agent may have written settings that it has not given back.
func (c *Control) SetInForce() { c.stakes.cpusets.held, c.stakes.limits.held = true, true }

// Waiting returns the paths of the cgroups of pods with changed bandwidth annotations that are not
// yet adopted. Pass their usage to Control.SetGroupUsage before the next decision.
func (c *Control) Waiting() []string { return c.quota.Waiting(c.All) }

// SetGroupUsage sets the CPU time that a cgroup has used since it was created.
func (c *Control) SetGroupUsage(path string, usage time.Duration) { c.quota.SetUsage(path, usage) }

// Ask makes the settings with which a container is to be created, or updated, a part of the status
// after the next decision.
func (c *Control) Ask(ref nodeplan.Ref) { c.asked = &ref }
