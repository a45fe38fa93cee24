package nodeplan

import (
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/qos"
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
	// Unlisted are the CPUs of pods that run, and that nothing else is known about.
	Unlisted []ledger.Claim
	// Allowed are the CPUs that the groups of tiers may use, of those that are missing all.
	Allowed map[qos.Tier]cpuset.Set
	Usage   Usage
	// Previous are the core sets at present.
	Previous CoreSets
	// Batch is what puts BE pods behind all others. With none of the mechanisms they run like
	// others.
	Batch colocation.Choice
	// BatchBudget bounds the CPU time of all batch pods together, if all pods of the tier
	// BestEffort are batch pods. 0 stands for no bound.
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

// Pod is a pod on the node.
type Pod struct {
	ID    ledger.PodID
	Tier  qos.Tier
	Class qos.Class
	// Claim is what is allocated to the pod; its ID is ignored. It is the zero Claim for pods
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
