// Package status describes what an operator sees of Pinfold in a cluster: the schedulers, the
// agents, which CPUs the agents have allocated to which pods, what is wrong, and which pods wait.
//
// A [Report] is plain data. Package kube/survey makes one of the objects of a cluster, and
// report/status prints it as text. Its JSON is documented in docs/status.md.
//
//	report.Sort()
//	for _, problem := range report.Problems { ... }
package status

import (
	"cmp"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// Report is the state of Pinfold in a cluster at one time, or that of one node.
type Report struct {
	// Time is the API server's.
	Time       time.Time   `json:"time"`
	Schedulers []Scheduler `json:"schedulers"`
	// SchedulerPods are the pods with the label of the scheduler. A scheduler that is not a pod, or
	// has other labels, is not counted. They are nil if pods could not be read.
	SchedulerPods *Replicas `json:"schedulerPods"`
	Problems      []Problem `json:"problems"`
	// Waiting is nil if pods could not be read.
	Waiting []Waiting `json:"waitingPods"`
	Nodes   []Node    `json:"nodes"`
	// Unread says what could not be read, and why. The rest of the report does without it.
	Unread []Unread `json:"unread"`
	// Notes say what the report cannot know.
	Notes []string `json:"notes"`
}

// Sort sorts everything: problems by kind, node and pod; the pods that have waited longest first;
// the rest by name. Equal clusters give equal reports.
func (r *Report) Sort() {
	slices.SortFunc(r.Schedulers, func(a, b Scheduler) int { return cmp.Compare(a.Lease, b.Lease) })
	slices.SortFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Kind.rank(), b.Kind.rank()), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.Waiting, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Pod, b.Pod))
	})
	slices.SortFunc(r.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range r.Nodes {
		slices.SortFunc(r.Nodes[i].Containers, func(a, b Container) int {
			return cmp.Or(cmp.Compare(a.CPUs.First(), b.CPUs.First()), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
		})
	}
}

// Of returns the problems of a severity, in their order.
func (r *Report) Of(severity Severity) (found []Problem) {
	for _, p := range r.Problems {
		if p.Severity == severity {
			found = append(found, p)
		}
	}
	return found
}

// Unread is a kind of object that could not be read.
type Unread struct {
	Resource string `json:"resource"` // in the plural, such as "pods"
	Error    string `json:"error"`
}

// Scheduler is the lease that makes one of several replicas of a scheduler the leader.
type Scheduler struct {
	Lease string         `json:"lease"` // NAMESPACE/NAME
	State SchedulerState `json:"state"`
	// Holder is the identity of the leader: the name of its host or pod and a random part.
	Holder string `json:"holder,omitempty"`
	// Version is "" if the holder does not record any.
	Version string `json:"version,omitempty"`
	// Kubernetes is the minor version of Kubernetes as which the holder runs, "" like Version.
	Kubernetes string `json:"kubernetes,omitempty"`
	// RenewalAge is the time since the last renewal. After Duration another replica leads.
	RenewalAge float64 `json:"renewalAgeSeconds"`
	Duration   float64 `json:"leaseDurationSeconds"`
}

// Replicas counts the replicas of a program.
type Replicas struct {
	Total int `json:"total"`
	Ready int `json:"ready"`
}

// SchedulerState is the state of a scheduler.
type SchedulerState string

// The states of a scheduler.
const (
	Leading  SchedulerState = "Leading"  // the holder has renewed the lease in time
	Silent   SchedulerState = "Silent"   // the holder has not
	NoLeader SchedulerState = "NoLeader" // the last holder has released the lease
	Replaced SchedulerState = "Replaced" // a scheduler that is not Pinfold's has taken the lease
)

// Node is one node of the cluster.
type Node struct {
	Name string `json:"name"`
	// Ready is the status of the node's condition Ready: "True", "False" or "Unknown".
	Ready     string    `json:"ready"`
	Agent     Agent     `json:"agent"`
	Condition Condition `json:"condition,omitzero"`
	Topology  Topology  `json:"topology"`
	// CPUs are known if the topology is usable.
	CPUs *CPUs `json:"cpus,omitempty"`
	// Pods is the number of pods that have exclusive CPUs or are confined, nil if pods could not be
	// read, or the topology, with which the agent publishes what it allocates, is not usable.
	Pods       *int        `json:"podsWithCPUs,omitempty"`
	Containers []Container `json:"containers"` // of these pods

	// Machine is nil unless the topology is usable.
	Machine *topology.Machine `json:"-"`
	// Reserved are never exclusive.
	Reserved cpuset.Set `json:"-"`
}

// Agent is the agent of a node.
type Agent struct {
	State AgentState `json:"state"`
	// Version is "" if the agent does not record any.
	Version string `json:"version,omitempty"`
	Lease   string `json:"lease,omitempty"` // NAMESPACE/NAME
	// RenewalAge and Grace are 0 without a lease. An agent is silent if it has not renewed its
	// lease for longer than Grace.
	RenewalAge float64 `json:"renewalAgeSeconds,omitempty"`
	Grace      float64 `json:"graceSeconds,omitempty"`
	Pod        string  `json:"pod,omitempty"` // NAMESPACE/NAME, if it runs in one
}

// AgentState is the state of an agent.
type AgentState string

// The states of an agent.
const (
	AgentReports AgentState = "Reports"  // it has renewed its lease in time
	AgentSilent  AgentState = "Silent"   // it has not
	AgentStarts  AgentState = "Starting" // its pod or the node's topology is new, and the lease does not exist yet
	AgentGone    AgentState = "Gone"     // there is a pod or a topology that names a lease, which does not exist
	AgentNoLease AgentState = "NoLease"  // the node's topology names none, as that of a simulated node
	AgentNone    AgentState = "None"     // the node has no lease, topology or pod of an agent
	AgentUnknown AgentState = "Unknown"  // leases could not be read, or its own says nothing
)

// Away reports whether the agent ought to report and does not, so that what it has said before is
// old.
func (s AgentState) Away() bool { return s == AgentStarts || s == AgentSilent || s == AgentGone }

// Condition is the node's condition about the binding of CPUs, as the agent or the scheduler wrote
// it.
type Condition struct {
	Status  string `json:"status"` // "True", "False" or "Unknown"
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Topology is the state of a node's NodeTopology.
type Topology string

// The states of a topology.
const (
	TopologyUsable  Topology = "Usable"
	TopologyNone    Topology = "None"
	TopologyInvalid Topology = "Invalid" // damaged or edited
	TopologyStale   Topology = "Stale"   // about an earlier node of the same name
	TopologyUnknown Topology = "Unknown" // topologies could not be read
)

// CPUs are the CPUs of a node. Exclusive and shared CPUs are online.
type CPUs struct {
	Online    int `json:"online"`
	Exclusive int `json:"exclusive"`
	Shared    int `json:"shared"`
	// Confined is the sum of the limits of the static-burst containers that run at the same time.
	// It is part of Shared.
	Confined int `json:"confined"`
	Reserved int `json:"reserved"` // of the shared CPUs, never exclusive
	Offline  int `json:"offline"`
	// SharedRequests are the requests of everything that runs in the shared CPUs, and the amount
	// that the node reserves, in CPUs.
	SharedRequests float64 `json:"sharedRequestCPUs"`
}

// Container is a container that has exclusive CPUs or is confined.
type Container struct {
	Pod       string           `json:"pod"` // NAMESPACE/NAME
	Container string           `json:"container"`
	Policy    placement.Policy `json:"policy"`
	// Limit is the number of CPUs that the container is entitled to.
	Limit int `json:"limitCPUs"`
	// CPUs are exclusive, or the shared CPUs of the NUMA nodes that it is confined to.
	CPUs      cpuset.Set        `json:"cpus"`
	NUMANodes []topology.NUMAID `json:"numaNodes"`
	// Quality is that of CPUs.
	Quality placement.Quality `json:"-"`
}

// Waiting is a pod that asks for CPUs and has no node.
type Waiting struct {
	Pod       string           `json:"pod"`            // NAMESPACE/NAME
	Scheduler string           `json:"scheduler"`      // its schedulerName
	CPUs      int              `json:"cpus,omitempty"` // that it asks for; 0 if its annotations are wrong
	Policy    placement.Policy `json:"policy,omitempty"`
	Seconds   float64          `json:"waitingSeconds"`
	// Reason and Message are those of the pod's condition PodScheduled. They are "" if no scheduler
	// has tried it.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}
