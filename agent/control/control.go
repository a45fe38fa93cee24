package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/batchpods"
	"pinfold.dev/pinfold/agent/control/cpus"
	"pinfold.dev/pinfold/agent/control/node"
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
	// Batch bounds the CPU time of all batch pods together. With a threshold of 0 there is no bound.
	Batch colocation.Config
	// Burst is the burst policy of pods without one. All its fields are set: they also fill in the
	// fields that pods omit.
	Burst burst.Policy
	// Ceilings limit what pods can get by their annotations.
	Ceilings api.Ceilings
	// Keys verify the signatures of allocations. Without keys every allocation is accepted.
	Keys *api.Keys
	// QuotaOwner determines what happens when another program changes quota, period or burst.
	QuotaOwner quota.Owner
	// Partition is the kind of cpuset partition that containers with exclusive CPUs become: "" or
	// cgroup.PartitionMember for none.
	Partition cgroup.Partition
}

// Partitioned reports whether containers with exclusive CPUs become cpuset partitions.
func (c Config) Partitioned() bool { return c.Partition != "" && c.Partition != cgroup.PartitionMember }

// Kubelet is the part of the kubelet's configuration that the agent uses.
type Kubelet struct {
	CPUManagerPolicy string
	ReservedCPUs     cpuset.Set
	Quota            nodeplan.KubeletConfig
	CgroupRoot       string
}

// Control is the state machine. Its methods must not be called concurrently, except those of
// [node.Pods] that say otherwise.
type Control struct {
	// Pods are the pods and what the runtime and the kubelet say about them. They are inputs.
	Pods    *node.Pods
	config  Config
	index   *placement.Index // nil until SetMachine
	kubelet *Kubelet         // nil until SetKubelet
	// strangeKubelet is set if another program may answer at the kubelet's port.
	strangeKubelet bool
	reserved       ledger.MilliCPU // of the Node object
	usage          nodeplan.Usage
	used           map[nodeplan.Ref]ledger.MilliCPU
	asked          *nodeplan.Ref // by the runtime, until the decision was carried out
	watch          node.Watch

	// state is that of the last decision, with the view that was observed since. previous are the core
	// sets of its plan.
	state    node.State
	previous nodeplan.CoreSets
	cpus     *cpus.Controller
	quota    *quota.Controller
	batch    *batchpods.Controller
	// noBurst is set when a cgroup without burst has been seen: the kernel does not support it.
	noBurst bool
	notices notices
}

// New returns a state machine without any input.
func New(config Config) *Control {
	pods := node.NewPods(config.Keys, config.Ceilings, config.Burst)
	return &Control{Pods: pods, config: config, used: map[nodeplan.Ref]ledger.MilliCPU{}, state: node.State{Pods: pods, First: true},
		cpus: cpus.New(config.Partition), quota: quota.New(config.QuotaOwner), batch: batchpods.New(config.Priority, config.Batch)}
}

// SetMachine sets the topology of the machine, and what is wrong with the files about it, and assumed
// instead. CPUs may have gone online or offline since the last call.
func (c *Control) SetMachine(m *topology.Machine, notes []string) {
	c.notices.machine = notes
	if c.index != nil && c.index.Machine().SameCPUs(m) {
		return
	}
	c.index, c.state.Machine = placement.NewIndex(m), m
	c.Pods.SetMachine(m)
}

// SetKubelet sets the kubelet's configuration.
func (c *Control) SetKubelet(k Kubelet) { c.kubelet = &k }

// SetKubeletTrust sets whether what answers at the kubelet's port is known to be the kubelet.
func (c *Control) SetKubeletTrust(known bool) { c.strangeKubelet = !known }

// Kubelet returns the configuration last set with SetKubelet, or nil.
func (c *Control) Kubelet() *Kubelet { return c.kubelet }

// SetReserved sets the difference of capacity and allocatable of the Node object.
func (c *Control) SetReserved(reserved ledger.MilliCPU) { c.reserved = reserved }

// SetPods sets all pods that are bound to the node. Those that were set before and still run
// keep their limits.
func (c *Control) SetPods(pods []*corev1.Pod) { c.Pods.Set(pods, c.state.View) }

// SetUsage sets the load of the CPUs and the containers' share of it.
func (c *Control) SetUsage(busy map[cpuset.CPU]ledger.MilliCPU, used map[nodeplan.Ref]ledger.MilliCPU) {
	c.usage = nodeplan.Usage{Sequence: c.usage.Sequence + 1, Busy: busy}
	c.used = used
}

// Observe sets the present settings of the cgroups.
func (c *Control) Observe(v node.View) {
	if v.Lacking == nil && c.state.View != nil {
		v.Lacking = c.state.View.Lacking
	}
	c.state.View, c.watch.Changed = &v, nil
	c.Pods.Observed(&v)
	foreign := map[string]int{}
	for path, now := range v.Settings {
		c.noBurst = c.noBurst || now.NoBurst
		foreign[path] = c.watch.Observe(path, now, c.online())
	}
	c.quota.Observed(&v, foreign)
}

// online returns the CPUs that are online.
func (c *Control) online() cpuset.Set {
	if c.index == nil {
		return cpuset.Set{}
	}
	return c.state.Machine.Online()
}

// AddGroup adds the cgroup of a pod or container that was created since the last observation.
func (c *Control) AddGroup(path string, where kubepods.Place, settings cgroup.Settings) {
	if c.state.View != nil {
		c.state.View.Add(path, where, settings)
		c.noBurst = c.noBurst || settings.NoBurst
	}
}

// Waiting returns the paths of the cgroups of pods with changed bandwidth annotations that are not
// yet adopted. Pass their usage to [Control.SetGroupUsage] before the next decision.
func (c *Control) Waiting() (paths []string) { return c.quota.Waiting(c.Pods.All()) }

// SetGroupUsage sets the CPU time that a cgroup has used since it was created.
func (c *Control) SetGroupUsage(path string, usage time.Duration) { c.quota.SetGroupUsage(path, usage) }

// Ask makes the settings with which a container is to be created, or updated, a part of the status
// after the next decision.
func (c *Control) Ask(ref nodeplan.Ref) { c.asked = &ref }
