package nodeplan

import (
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
)

// State is all that a plan depends on.
type State struct {
	// Index is the machine.
	Index  *placement.Index
	Config ledger.Config
	// BindingOff says why CPUs must not be bound on this node (the kubelet's CPU manager policy is
	// not none, say), in words for the user. When it is not empty, no cpuset is set and no quota
	// lifted.
	BindingOff string
	Kubelet    KubeletConfig
	Pods       []Pod
	Usage      Usage
	// Previous are the core sets in force.
	Previous CoreSets
	Tuning   Tuning
	// BatchIdle puts cpu.idle on the cgroups of BE pods, and takes their quota away: behind all
	// others they may use what is left. Without it they are like others.
	BatchIdle bool
	// Burst is the policy of pods that have none, and fills in what others leave open.
	Burst burst.Policy
	// NoKernelBurst says that the kernel cannot burst.
	NoKernelBurst bool
}

// KubeletConfig is the part of the kubelet's configuration that concerns quota.
type KubeletConfig struct {
	// NoQuota is cpuCFSQuota: false.
	NoQuota bool
	// Period is cpuCFSQuotaPeriod; 0 stands for its default, 100 ms.
	Period time.Duration
}

// Tier is the Kubernetes QoS class of a pod, which determines its parent cgroup.
type Tier string

// The tiers. Guaranteed pods live in kubepods itself.
const (
	Guaranteed Tier = "Guaranteed"
	Burstable  Tier = "Burstable"
	BestEffort Tier = "BestEffort"
)

// Tiers returns all tiers, parents first.
func Tiers() []Tier { return []Tier{Guaranteed, Burstable, BestEffort} }

// Class is the co-location class of a pod, "" if it has none.
type Class string

// The classes. LS (latency-sensitive) pods come first when CPU time is short; BE (best-effort) pods
// are batch work that gives way.
const (
	LS Class = "LS"
	BE Class = "BE"
)

// Pod is a pod on the node.
type Pod struct {
	ID    ledger.PodID
	Tier  Tier
	Class Class
	// Claim is what the scheduler gave it; its ID is taken from the pod. It is the zero Claim for
	// pods that did not ask and that the API server does not know.
	Claim ledger.Claim
	// Limit is the CPU limit at pod level, 0 when there is none.
	Limit ledger.MilliCPU
	// Overhead is what the pod's runtime class adds to its limits.
	Overhead ledger.MilliCPU
	// Period is the CFS period the pod asks for, 0 when it does not.
	Period time.Duration
	// Burst is complemented by that of the [State].
	Burst burst.Policy
	// Containers in the pod's order: init containers, main ones, ephemeral ones.
	Containers []Container
}

// Phase is the stage of a container's life.
type Phase uint8

// The phases. Ended containers will not run again and get no settings.
const (
	Waiting Phase = iota
	Running
	Ended
)

// Container is one container of a pod.
type Container struct {
	Name string
	Role ledger.Role
	// Ephemeral containers have RoleMain and no resources.
	Ephemeral bool
	Phase     Phase
	// Limit and Request are 0 when there is none.
	Limit, Request ledger.MilliCPU
	// Raised is the quota, in its period, that was decided for it; 0 for that of its limit.
	Raised time.Duration
	// Used is the CPU time that it used lately, of all CPUs, in thousandths.
	Used ledger.MilliCPU
	// UsedOn is the same by CPU, nil where that is not known.
	UsedOn map[cpuset.CPU]ledger.MilliCPU
}

// Usage is one sample of the load of the CPUs.
type Usage struct {
	// Sequence tells samples apart. Core sets are improved once per sample.
	Sequence uint64
	// Busy is the busy time of each CPU in thousandths; a missing CPU was idle.
	Busy map[cpuset.CPU]ledger.MilliCPU
}

// Ref names a container of the node.
type Ref struct {
	Pod       ledger.PodID
	Container string
}

// CoreSets are the core sets of static-burst containers.
type CoreSets struct {
	// Sequence is the sample by which they were last improved.
	Sequence uint64
	Sets     map[Ref]cpuset.Set
}

// Tuning says how eagerly core sets follow usage. Zero values stand for the defaults.
type Tuning struct {
	// Step is how many cores of a set may move for the better per sample (1).
	Step int
	// IdleBelow is the load of one CPU up to which a set spreads to it (100), and BusyAbove from
	// which on it is given back when it is not needed (300).
	IdleBelow, BusyAbove ledger.MilliCPU
	// Margin is how much idler another core must be to be exchanged for (250).
	Margin ledger.MilliCPU
	// MaxSpread bounds a set to that many times the container's limit; 0 does not.
	MaxSpread int
}

func (t Tuning) withDefaults() Tuning {
	if t.Step == 0 {
		t.Step = 1
	}
	for value, otherwise := range map[*ledger.MilliCPU]ledger.MilliCPU{&t.IdleBelow: 100, &t.BusyAbove: 300, &t.Margin: 250} {
		if *value == 0 {
			*value = otherwise
		}
	}
	return t
}

// batch reports whether a pod runs behind all others.
func (s *State) batch(p *Pod) bool { return s.BatchIdle && p.Class == BE }
