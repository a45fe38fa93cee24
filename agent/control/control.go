package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Config is what the agent's flags say.
type Config struct {
	NodeName string
	// Lease is what the agent renews, as NAMESPACE/NAME; "" where it renews none.
	Lease string
	// MinShared is the least number of CPUs that stay shared; the scheduler's
	// minSharedCPUs should be the same.
	MinShared int
	Tuning    nodeplan.Tuning
	// BatchIdle puts cpu.idle on the groups of BE pods.
	BatchIdle bool
	// Burst is the burst policy of pods that have none, complete: it fills in what
	// others leave open.
	Burst burst.Policy
	// Ceilings bound what pods get by their annotations.
	Ceilings api.Ceilings
	// Keys are those by which allocations are signed; nil believes every allocation.
	Keys *api.Keys
	// QuotaOwner wins when somebody else changes quota, period or burst.
	QuotaOwner QuotaOwner
}

// QuotaOwner determines whose quota, period and burst apply when other programs write them too.
type QuotaOwner string

// The owners.
const (
	// OwnerPinfold puts them back. It is the default.
	OwnerPinfold QuotaOwner = "pinfold"
	// OwnerOther leaves them as they are until the container's or pod's group ends, or
	// its limit changes.
	OwnerOther QuotaOwner = "other"
)

// Kubelet is the part of the kubelet's configuration that the agent uses.
type Kubelet struct {
	CPUManagerPolicy string
	ReservedCPUs     cpuset.Set
	Quota            nodeplan.KubeletConfig
	CgroupRoot       string
}

// Node is the part of the Node object that the agent uses.
type Node struct {
	UID types.UID
	// Reserved is capacity - allocatable.
	Reserved ledger.MilliCPU
}

// View is the present settings of the pods' cgroups.
type View struct {
	Layout cgroup.Layout
	Tiers  []string // their paths, outer ones first
	Pods   []cgroup.Pod
	// Settings are those of all of them, by path, of containers that are not known only
	// the CPUs. Groups that vanished or could not be read are missing.
	Settings map[string]cgroup.Settings
}

// created is a container that the runtime has told of.
type created struct {
	id string
	at time.Time
}

// Control is the state machine. Its methods must not be called concurrently, except
// [Control.Alike].
type Control struct {
	config  Config
	index   *placement.Index
	kubelet *Kubelet
	node    Node
	pods    []podState // nil until the pods are known
	known   bool       // pods have been listed
	// static names the static pods that the kubelet is known to run, by the ids of their
	// groups.
	static map[ledger.PodID]types.NamespacedName
	usage  nodeplan.Usage
	used   map[nodeplan.Ref]ledger.MilliCPU
	// runtime holds what was created lately, until the pods' statuses say it.
	runtime map[nodeplan.Ref]created

	view *View
	// expected is what each group held after the last round.
	expected map[string]cgroup.Settings
	changed  []Foreign // of the last observation
	// foreignOwned is the bandwidth of groups that is somebody else's, with quota and period of the limit.
	foreignOwned map[string]bandwidth.Limits
	// limited are the groups of the last plan, beforeResize those before a resize.
	limited      []limited
	beforeResize map[string]limited
	// raised are the quotas above limits that were decided on, by group, decisions those of
	// the last tick, whose room is used again, and writes the writes of bandwidth since then.
	burst     *burst.Controller
	raised    map[string]Raise
	decisions []burst.Decision
	writes    map[string]int
	// adopted are the words that the plan follows, by pod. usages are those told since the
	// last decision, by group, and began and now the times of the first and the last one.
	adopted    map[ledger.PodID]*adopted
	usages     map[string]time.Duration
	began, now time.Time
	// noBurst says that the kernel has been seen to have none.
	noBurst bool

	desired  desired // the last plan
	previous nodeplan.CoreSets
	restored bool // what an earlier agent left has been taken in
	// exclusive are the CPUs that the last plan gave a group as its pod's alone, none
	// for others. What the group holds may be something else: it could not be moved.
	exclusive map[string]cpuset.Set
	noticed   map[string]bool
	problems  map[string]error // what failed in the last round, by group
}

// podState is a pod as the API server shows it and as the plan wants it.
type podState struct {
	object *corev1.Pod
	plan   nodeplan.Pod // with the words that were adopted, see words.go
	words  words
	// capped says what of the words is above the ceilings.
	capped []string
	// unknown are sentences on annotations and labels that are not read.
	unknown []string
	// ids are the containers' ids by name, as far as the status says.
	ids map[string]string
	// resizing says that the pod's limits are about to change.
	resizing bool
	problem  error // with what the scheduler wrote
	// denied says that the kubelet runs no such static pod as this one claims to be.
	denied bool
}

// New returns a state machine without any input.
func New(config Config) *Control {
	config.Ceilings = config.Ceilings.Allowing(config.Burst)
	return &Control{
		config:       config,
		static:       map[ledger.PodID]types.NamespacedName{},
		runtime:      map[nodeplan.Ref]created{},
		used:         map[nodeplan.Ref]ledger.MilliCPU{},
		expected:     map[string]cgroup.Settings{},
		foreignOwned: map[string]bandwidth.Limits{},
		burst:        burst.New(),
		raised:       map[string]Raise{},
		writes:       map[string]int{},
		usages:       map[string]time.Duration{},
		exclusive:    map[string]cpuset.Set{},
		noticed:      map[string]bool{},
	}
}

// SetMachine sets the topology of the machine. CPUs may have gone online or offline since the last
// call.
func (c *Control) SetMachine(m *topology.Machine) {
	if c.index != nil && c.index.Machine().SameCPUs(m) {
		return
	}
	c.index = placement.NewIndex(m)
	for i := range c.pods { // allocations are checked against the machine
		c.pods[i] = c.read(newPodState(c.pods[i].object, m, c.config.Keys))
	}
}

// SetKubelet sets the kubelet's configuration.
func (c *Control) SetKubelet(k Kubelet) { c.kubelet = &k }

// Kubelet returns the configuration last set with SetKubelet, or nil.
func (c *Control) Kubelet() *Kubelet { return c.kubelet }

// SetNode sets the contents of the Node object.
func (c *Control) SetNode(n Node) { c.node = n }

// SetPods sets all pods that are bound to the node.
func (c *Control) SetPods(pods []*corev1.Pod) {
	before := make(map[types.UID]podState, len(c.pods))
	for _, p := range c.pods {
		before[p.object.UID] = p
	}
	c.pods, c.known = nil, true
	for _, object := range pods {
		state, ok := before[object.UID]
		if !ok || state.object != object {
			denied := ok && state.denied && mirrored(state.object) == mirrored(object)
			state = c.read(newPodState(object, c.machine(), c.config.Keys))
			state.denied = denied
		}
		state.plan.ID = c.groupID(object)
		c.pods = append(c.pods, state)
	}
}

// HasPod reports whether a pod with this id, as the kubelet uses it, is known.
func (c *Control) HasPod(id ledger.PodID) bool { return c.pod(id) != nil }

func (c *Control) pod(id ledger.PodID) *podState {
	for i := range c.pods {
		if c.pods[i].plan.ID == id {
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
