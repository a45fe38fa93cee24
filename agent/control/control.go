package control

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/bandwidth"
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
	QuotaOwner QuotaOwner
	// Partition is the kind of cpuset partition that containers with exclusive CPUs become: "" or
	// cgroup.PartitionMember for none.
	Partition cgroup.Partition
}

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
type View struct {
	Layout cgroup.Layout
	Above  []string // paths of the groups above the tiers, except the root
	Tiers  []string // paths, parents first
	Pods   []kubepods.Pod
	// Settings are the settings of all these cgroups, by path. Of unknown containers only the CPUs
	// are set. Effective CPUs are set of known containers on version 2, and partitions of all
	// cgroups if there may be any. Cgroups that disappeared or could not be read are missing.
	Settings map[string]cgroup.Settings
	// Lacking is why mechanisms for batch pods cannot be used, in words for users. If it is nil, the
	// last one remains valid.
	Lacking map[colocation.Mechanism]string
}

// created is a container that the runtime has announced.
type created struct {
	id string
	at time.Time
}

// Control is the state machine. Its methods must not be called concurrently, except
// [Control.Alike].
type Control struct {
	config  Config
	index   *placement.Index // nil until SetMachine
	kubelet *Kubelet         // nil until SetKubelet
	// strangeKubelet is set if another program may answer at the kubelet's port.
	strangeKubelet bool
	reserved       ledger.MilliCPU // of the Node object
	pods           []podState
	podAt          map[ledger.PodID]int // where pods were found last
	podsListed     bool
	// static are the names of the static pods that the kubelet is known to run, by the kubelet's
	// ids.
	static map[ledger.PodID]types.NamespacedName
	usage  nodeplan.Usage
	used   map[nodeplan.Ref]ledger.MilliCPU
	// runtime are the containers that the runtime has announced and no pod status contains yet.
	runtime map[nodeplan.Ref]created

	view *View // nil until Observe
	// expected are the settings of each cgroup after the last round.
	expected map[string]cgroup.Settings
	changed  []Foreign // differences from expected in the last observation
	// foreignOwned are the cgroups whose bandwidth is left to another program, with the quota and
	// period of the limit at that time.
	foreignOwned map[string]bandwidth.Limits
	// limited are the cgroups of the last plan. beforeResize are the same as planned last outside
	// of a resize, by path.
	limited      []Limited
	beforeResize map[string]Limited
	// raised are the quotas above limits that were decided, by path. decisions are those of the
	// last tick (kept to reuse the memory). writes counts the writes to bandwidth files since then,
	// by path.
	burst     *burst.Controller
	raised    map[string]Raise
	decisions []burst.Decision
	writes    map[string]int
	// batch decides about batch pods, and batched is its last decision. Without a bound both are zero.
	batch   *colocation.Budget
	batched colocation.Decision
	// batchRan and batchFree are the times of the last ticks in which batch pods were not asleep, and
	// had more than the floor without a quota; 0 for none.
	batchRan, batchFree time.Duration
	// adopted are the annotations that the plan follows. groupUsage is what SetGroupUsage has
	// recorded since the last decision, by path. began and now are the times of the first and the
	// last decision.
	adopted    map[ledger.PodID]*adopted
	groupUsage map[string]time.Duration
	began, now time.Time
	// noBurst is set when a cgroup without burst has been seen: the kernel does not support it.
	noBurst bool
	// machineNotes say what is wrong with the files about the machine, and what is assumed instead.
	machineNotes []string

	plan     plan // the last one
	previous nodeplan.CoreSets
	coreSets map[nodeplan.Ref]string // paths of the containers that have these
	asked    *nodeplan.Ref           // by the runtime, until the decision was carried out
	// recovered is set after the first decision, which recovers the state of an earlier agent from
	// the cgroups.
	recovered bool
	// exclusive are the CPUs that the last plan gave each container's cgroup exclusively; the empty
	// set for containers on shared CPUs. The cgroup holds other CPUs if it could not be moved.
	exclusive map[string]cpuset.Set
	noticed   map[string]bool
	failures  map[string]error // of the last round, by path
	// unpartitioned are the planned partitions that do not exist yet, by the container's path.
	unpartitioned map[string]unpartitioned
}

// New returns a state machine without any input.
func New(config Config) *Control {
	config.Ceilings = config.Ceilings.Allowing(config.Burst)
	c := &Control{
		config:       config,
		podAt:        map[ledger.PodID]int{},
		static:       map[ledger.PodID]types.NamespacedName{},
		runtime:      map[nodeplan.Ref]created{},
		used:         map[nodeplan.Ref]ledger.MilliCPU{},
		expected:     map[string]cgroup.Settings{},
		foreignOwned: map[string]bandwidth.Limits{},
		burst:        burst.New(),
		raised:       map[string]Raise{},
		writes:       map[string]int{},
		groupUsage:   map[string]time.Duration{},
		exclusive:    map[string]cpuset.Set{},
		noticed:      map[string]bool{},
	}
	if config.Batch.Threshold > 0 {
		c.batch = colocation.New(config.Batch)
	}
	return c
}

// SetMachine sets the topology of the machine. CPUs may have gone online or offline since the last
// call.
func (c *Control) SetMachine(m *topology.Machine) {
	if c.index != nil && c.index.Machine().SameCPUs(m) {
		return
	}
	c.index = placement.NewIndex(m)
	for i := range c.pods { // allocations are checked against the machine
		departed := c.pods[i].departed
		if c.pods[i] = c.applyCeilings(newPodState(c.pods[i].object, m, c.config.Keys)); departed {
			c.pods[i] = c.pods[i].depart()
		}
	}
}

// SetMachineNotes sets what is wrong with the topology of the machine, and assumed instead.
func (c *Control) SetMachineNotes(notes []string) { c.machineNotes = notes }

// SetKubelet sets the kubelet's configuration.
func (c *Control) SetKubelet(k Kubelet) { c.kubelet = &k }

// SetKubeletTrust sets whether what answers at the kubelet's port is known to be the kubelet.
func (c *Control) SetKubeletTrust(known bool) { c.strangeKubelet = !known }

// Kubelet returns the configuration last set with SetKubelet, or nil.
func (c *Control) Kubelet() *Kubelet { return c.kubelet }

// SetReserved sets the difference of capacity and allocatable of the Node object.
func (c *Control) SetReserved(reserved ledger.MilliCPU) { c.reserved = reserved }

// SetPods sets all pods that are bound to the node. Those that were set before and still run
// keep their limits; see [podState.depart].
func (c *Control) SetPods(pods []*corev1.Pod) {
	before := make(map[types.UID]podState, len(c.pods))
	for _, p := range c.pods {
		before[p.object.UID] = p
	}
	last := c.pods
	c.pods, c.podsListed = nil, true
	clear(c.podAt)
	for _, object := range pods {
		state, ok := before[object.UID]
		if !ok || state.departed || state.object != object {
			denied := ok && state.denied && mirrored(state.object) == mirrored(object)
			state = c.applyCeilings(newPodState(object, c.machine(), c.config.Keys))
			state.denied = denied
		}
		state.plan.ID = c.groupID(object)
		c.podAt[state.plan.ID] = len(c.pods)
		c.pods = append(c.pods, state)
		delete(before, object.UID)
	}
	for _, p := range last {
		if _, gone := before[p.object.UID]; gone && c.runs(p.plan.ID) && c.pod(p.plan.ID) == nil {
			c.pods = append(c.pods, p.depart())
		}
	}
}

// runs reports whether the pod with this id, as the kubelet uses it, had cgroups below its own when
// last observed.
func (c *Control) runs(id ledger.PodID) bool {
	return c.view != nil && slices.ContainsFunc(c.view.Pods, func(p kubepods.Pod) bool {
		return ledger.PodID(p.UID) == id && len(p.Containers)+len(p.Others) > 0
	})
}

// HasPod reports whether the pod with this id, as the kubelet uses it, is known.
func (c *Control) HasPod(id ledger.PodID) bool { return c.pod(id) != nil }

func (c *Control) pod(id ledger.PodID) *podState {
	if at, ok := c.podAt[id]; ok && at < len(c.pods) && c.pods[at].plan.ID == id {
		return &c.pods[at]
	}
	delete(c.podAt, id)
	for i := range c.pods {
		if c.pods[i].plan.ID == id {
			c.podAt[id] = i
			return &c.pods[i]
		}
	}
	return nil
}

// SetUsage sets the load of the CPUs and the containers' share of it.
func (c *Control) SetUsage(busy map[cpuset.CPU]ledger.MilliCPU, used map[nodeplan.Ref]ledger.MilliCPU) {
	c.usage = nodeplan.Usage{Sequence: c.usage.Sequence + 1, Busy: busy}
	c.used = used
}

// Created records that the runtime is about to create a container.
func (c *Control) Created(now time.Time, ref nodeplan.Ref, id string) {
	c.runtime[ref] = created{id, now}
}

// Stopped records that a container has stopped.
func (c *Control) Stopped(ref nodeplan.Ref, id string) {
	if c.runtime[ref].id == id {
		delete(c.runtime, ref)
	}
}

func (c *Control) machine() *topology.Machine {
	if c.index == nil {
		return nil
	}
	return c.index.Machine()
}
