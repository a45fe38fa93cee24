package control

import (
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
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Config is the part of the agent's configuration that decisions depend on.
type Config struct {
	NodeName string
	// MinShared is the number of CPUs that always stay shared. It should equal the scheduler's
	// minSharedCPUs.
	MinShared int
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
	// QuotaOwner determines what happens when another program changes quota, period or burst.
	QuotaOwner QuotaOwner
	// Partition is the kind of cpuset partition that containers with exclusive CPUs become: "" or
	// cgroup.PartitionMember for none.
	Partition cgroup.Partition
	// Repack is how much better its CPUs must get for a running pod to be moved, "" for never.
	Repack allocate.Repack
	// Refuses keeps pods to which it cannot allocate CPUs from starting. Otherwise they run in the
	// shared CPUs.
	Refuses bool
	// Observe makes the agent write nothing, and say what it would write.
	Observe bool
	// Restore makes it restore the settings of the kubelet with the CPU manager policy none: all CPUs for
	// every cgroup, including those of unknown containers, and every limit as a quota.
	Restore bool
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
	NoPodGroups      bool // below a group of all pods (cgroupsPerQOS: false)
}

// controller decides about one concern of the cgroups of pods. A new one is a package beside the others
// and a place in the list of New.
type controller interface {
	// Prepare decides what a plan depends on, and returns the paths of the cgroups whose usage is to be
	// read first.
	Prepare(r *groups.Round) (read []string)
	// Input adds what it remembers, and has decided between rounds, to the input of a plan.
	Input(r *groups.Round, s *nodeplan.State)
	// Decide adds the writes that the plan requires. Restore adds those after which nothing of the
	// controller is in force; the plan is what the kubelet would set then.
	Decide(r *groups.Round, w *groups.Writes)
	Restore(r *groups.Round, w *groups.Writes)
	// Applied records what carrying out all writes has shown.
	Applied(r *groups.Round, o *groups.Outcome)
	// Notices adds what users should know.
	Notices(r *groups.Round, n *groups.Notices)
	// Tick decides between rounds, and says if that requires writes.
	Tick(r *groups.Round, t *groups.Tick, done *groups.Ticked)
}

// Control is the state machine. It passes its inputs to the controllers and merges what these want.
// Its methods must not be called concurrently.
type Control struct {
	Pods   *pods.Pods // changed by Step alone
	config Config
	node   node
	// controllers decide about cgroups. Those that the status asks have names, too.
	controllers []controller
	allocate    *allocate.Controller
	cpus        *cpus.Controller
	quota       *quota.Controller
	batch       *batch.Controller
	// round is the last one. Its groups are those of the last observation.
	round groups.Round
	watch watch
	// prepared is set once the next decision has got what it depends on, of the pods that are known.
	prepared bool
	asked    []nodeplan.Ref // by the runtime, until the decision was carried out
	stakes   stakes
	// failures are those of the last round, by path. noticed are the notices of the last report.
	failures map[string]error
	noticed  noticed
	last     Status
}

// node is the inputs that are about the node.
type node struct {
	allowed allowed
	kubelet *Kubelet // nil until it is known
	// These are the fields of Event; reserved is nil until it is known.
	strangeKubelet bool
	asked          bool // the kubelet, for its static pods
	reserved       *ledger.MilliCPU
	usage          nodeplan.Usage
	used           map[nodeplan.Ref]ledger.MilliCPU
	notes          []string
	standing       []Notice
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
	c := &Control{
		Pods:     pods.New(pods.Config{Ceilings: ceilings, Burst: config.Burst}),
		config:   config,
		allocate: allocate.New(config.NodeName, repack, ceilings),
		cpus:     cpus.New(partition),
		quota:    quota.New(ceilings, config.QuotaOwner == OwnerOther),
		batch:    batch.New(config.Priority, config.Batch),
		round:    groups.Round{Groups: &groups.Groups{}, First: true, Plan: &nodeplan.Desired{}},
		watch:    watch{expected: map[string]cgroup.Settings{}},
		noticed:  noticed{},
	}
	c.controllers = []controller{c.allocate, c.cpus, c.quota, c.batch}
	return c
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

// Claimed returns the resource claims whose pods have CPUs for them, or have lost these.
func (c *Control) Claimed() map[types.UID]bool { return c.allocate.Claimed() }
