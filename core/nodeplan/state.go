package nodeplan

import (
	"cmp"
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
)

// State is everything that a plan depends on.
type State struct {
	// Index is the machine.
	Index  *placement.Index
	Config ledger.Config
	// BindingOff is the reason, in words for users, why CPUs must not be bound on this node, such
	// as the kubelet's CPU manager policy. If it is not empty, no cpuset is set and no quota
	// removed.
	BindingOff string
	Kubelet    KubeletConfig
	Pods       []Pod
	// Allowed are the CPUs that the groups of tiers may use, of those that are missing all.
	Allowed map[Tier]cpuset.Set
	Usage   Usage
	// Previous are the core sets at present.
	Previous CoreSets
	Tuning   Tuning
	// Batch is what puts BE pods behind all others. With none of the mechanisms they run like others.
	Batch colocation.Choice
	// BatchBudget bounds the CPU time of all batch pods together, if all pods of the tier BestEffort
	// are batch pods. 0 stands for no bound.
	BatchBudget ledger.MilliCPU
	// NoKernelBurst is why the kernel has no bursts, or "".
	NoKernelBurst string
}

// KubeletConfig is the part of the kubelet's configuration that concerns quota.
type KubeletConfig struct {
	// NoQuota is true for cpuCFSQuota: false.
	NoQuota bool
	// Period is cpuCFSQuotaPeriod; 0 stands for its default, 100 ms.
	Period time.Duration
}

// Tier is the Kubernetes QoS class of a pod, which determines its parent cgroup.
type Tier string

// The tiers. The cgroups of Guaranteed pods are directly in kubepods.
const (
	Guaranteed Tier = "Guaranteed"
	Burstable  Tier = "Burstable"
	BestEffort Tier = "BestEffort"
)

// Tiers returns all tiers, parents first.
func Tiers() []Tier { return []Tier{Guaranteed, Burstable, BestEffort} }

// Class is the co-location class of a pod, "" if it has none.
type Class string

// The classes. LS (latency-sensitive) pods have priority when CPU time is short; BE (best-effort)
// pods are batch work.
const (
	LS Class = "LS"
	BE Class = "BE"
)

// Pod is a pod on the node.
type Pod struct {
	ID    ledger.PodID
	Tier  Tier
	Class Class
	// Claim is what the scheduler gave to the pod; its ID is ignored. It is the zero Claim for pods
	// that did not ask for CPUs and pods that are unknown to the API server.
	Claim ledger.Claim
	// Limit is the pod-level CPU limit, 0 if there is none.
	Limit ledger.MilliCPU
	// Overhead is the amount that the pod's runtime class adds to the pod's limit.
	Overhead ledger.MilliCPU
	// Period is the CFS period that the pod asks for, or 0.
	Period time.Duration
	// Burst is the pod's policy, complete.
	Burst burst.Policy
	// Containers are in the pod's order: init containers, main ones, ephemeral ones.
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
	// Limit and Request are 0 if the container has none.
	Limit, Request ledger.MilliCPU
	// Raised is the raised quota, per period of the container, that package burst decided, or 0.
	Raised time.Duration
	// Used is its recent usage on all CPUs.
	Used ledger.MilliCPU
	// UsedOn is the same by CPU, nil if that is not known.
	UsedOn map[cpuset.CPU]ledger.MilliCPU
}

// Usage is one sample of the load of the CPUs.
type Usage struct {
	// Sequence identifies the sample. Core sets are improved once per sample.
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
	// Sequence is the sample with which they were last improved.
	Sequence uint64
	Sets     map[Ref]cpuset.Set
}

// Tuning defines how fast core sets follow usage. Zero values stand for the defaults, given in
// parentheses.
type Tuning struct {
	// Step is the largest number of cores of a set that may change per sample (1).
	Step int
	// A set spreads to cores with a load of at most IdleBelow (100) and gives back unneeded cores
	// with a load of at least BusyAbove (300).
	IdleBelow, BusyAbove ledger.MilliCPU
	// Margin is how much idler a core must be to replace another one (250).
	Margin ledger.MilliCPU
	// MaxSpread limits a set to MaxSpread times the container's limit; 0 means no limit.
	MaxSpread int
}

func (t Tuning) withDefaults() Tuning {
	t.Step = cmp.Or(t.Step, 1)
	t.IdleBelow, t.BusyAbove, t.Margin = cmp.Or(t.IdleBelow, 100), cmp.Or(t.BusyAbove, 300), cmp.Or(t.Margin, 250)
	return t
}
