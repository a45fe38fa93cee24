package status

import "slices"

// Problem is something that an operator should look at.
type Problem struct {
	Kind Kind `json:"kind"`
	// Severity is that of the kind.
	Severity Severity `json:"severity"`
	// Node and Pod (NAMESPACE/NAME) are what the problem is about, "" if it is about the cluster.
	Node    string `json:"node,omitempty"`
	Pod     string `json:"pod,omitempty"`
	Message string `json:"message"`
	// Action is what to do about it, and Command a command line that does it, if there is one.
	Action  string `json:"action"`
	Command string `json:"command,omitempty"`
}

// Severity says whose problem it is.
type Severity string

// The severities.
const (
	// Error: the administrators of the cluster and its nodes should look at it.
	Error Severity = "Error"
	// Warning: a pod does not get what it asks for, or pods use too much. Everybody who may write pods
	// can cause that, so it is not a failure of the cluster. Or an agent does what it was told to.
	Warning Severity = "Warning"
	// Note: nothing need be done, or only by the author of a pod.
	Note Severity = "Note"
)

// Kind is the kind of a problem. Kinds that agents and schedulers report, too, have the names of
// their conditions and events.
type Kind string

// The kinds of problem.
const (
	SchedulerReplaced Kind = "SchedulerReplaced"    // a scheduler that is not Pinfold's leads
	SchedulerSilent   Kind = "SchedulerSilent"      // no replica renews its lease, or none leads and is ready
	AgentMissing      Kind = "AgentMissing"         // no node has an agent, or a DaemonSet lacks pods
	AgentIsSilent     Kind = "AgentSilent"          // the agent does not renew its lease
	AgentIsGone       Kind = "AgentGone"            // the agent's lease does not exist, and it had time to make one
	AgentLeaseInvalid Kind = "AgentLeaseInvalid"    // the agent's lease says nothing about it
	TopologyIsNone    Kind = "TopologyMissing"      // the agent has not published the topology
	TopologyIsInvalid Kind = "TopologyInvalid"      // it is damaged
	TopologyIsStale   Kind = "TopologyStale"        // it is about an earlier node
	TopologyOrphaned  Kind = "TopologyOrphaned"     // its node does not exist
	NotEnforced       Kind = "CPUBinding"           // the node's condition is not True
	AgentObserves     Kind = "AgentObserves"        // the agent only observes, as it was told to
	NeverPlaced       Kind = "PodNeverPlaced"       // no scheduler can place the pod as it is written
	CPUConflict       Kind = "CPUConflict"          // two containers have one CPU
	InvalidAllocation Kind = "CPUAllocationInvalid" // the node does not have a pod's CPUs
	NotAllocated      Kind = "CPUsNotGiven"         // a pod asks for CPUs, and has none of its own
	CPUOverflow       Kind = "CPUOverflow"          // more is promised than exists
	CPUOffline        Kind = "CPUOffline"           // CPUs of a pod are offline
	BatchStarved      Kind = "BatchStarved"         // batch pods get hardly any CPU time
	AgentNotReady     Kind = "AgentNotReady"        // the agent's pod is not ready
	AgentImpaired     Kind = "AgentImpaired"        // something of the agent does not work
)

// Severity returns the severity of problems of this kind.
func (k Kind) Severity() Severity {
	switch k {
	case AgentObserves, AgentImpaired, NeverPlaced, CPUConflict, InvalidAllocation, NotAllocated, CPUOverflow, CPUOffline, BatchStarved:
		return Warning
	}
	return Error
}

// Unserved reports whether a pod does not get what it asks for.
func (k Kind) Unserved() bool {
	return k == NeverPlaced || k == NotAllocated || k == InvalidAllocation
}

// rank orders kinds: what affects most comes first, and last what an agent reports by other reasons.
func (k Kind) rank() int {
	all := []Kind{
		SchedulerReplaced, SchedulerSilent, AgentMissing, AgentIsSilent, AgentIsGone, AgentNotReady, AgentLeaseInvalid, TopologyIsNone,
		TopologyIsInvalid, TopologyIsStale, TopologyOrphaned, NotEnforced, AgentObserves, NeverPlaced, CPUConflict, InvalidAllocation,
		NotAllocated, CPUOverflow, CPUOffline, BatchStarved, AgentImpaired,
	}
	if i := slices.Index(all, k); i >= 0 {
		return i
	}
	return len(all)
}
