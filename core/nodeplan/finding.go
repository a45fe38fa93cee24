package nodeplan

import (
	"fmt"

	"pinfold.dev/pinfold/core/ledger"
)

// FindingKind is the kind of a finding. It is also the reason of conditions and events.
type FindingKind string

// The kinds of finding, with the fields of [Finding] that each sets.
const (
	BindingOff      FindingKind = "BindingOff"      // Reason; of the node
	NotBound        FindingKind = "NotBound"        // Pod, Reason
	Overflow        FindingKind = "CPUOverflow"     // Overflow; Pod where it is about one
	Offline         FindingKind = "CPUOffline"      // Pod, Offline
	NoSharedCPUs    FindingKind = "NoSharedCPUs"    // Pod
	NoneInNodes     FindingKind = "NoCPUsInNodes"   // Pod, Container
	CoreSetsOverlap FindingKind = "CoreSetsOverlap" // Pod, Container
	NoKernelBurst   FindingKind = "NoKernelBurst"   // Reason; of the node
	BatchUnbounded  FindingKind = "BatchUnbounded"  // Pod
	NotBestEffort   FindingKind = "NotBestEffort"   // Pod, Reason
)

// Finding is a request that cannot be satisfied as it was made.
type Finding struct {
	Kind      FindingKind
	Pod       ledger.PodID // "" if it is about the node
	Container string
	Reason    string
	Overflow  ledger.Overflow
	Offline   ledger.Offline
}

// IsNote reports whether the finding is informational: the request is satisfied in another way, and
// no action is needed.
func (f Finding) IsNote() bool {
	return f.Kind == NoKernelBurst || f.Kind == BatchUnbounded || f.Kind == NotBestEffort
}

// Describe formats the finding for users. It names pods with podName.
func (f Finding) Describe(podName func(ledger.PodID) string) string {
	switch f.Kind {
	case BindingOff:
		return "no pod is bound to CPUs on this node: " + f.Reason
	case NotBound:
		return fmt.Sprintf("pod %s is not bound to its CPUs: %s", podName(f.Pod), f.Reason)
	case Overflow:
		return f.Overflow.String()
	case Offline:
		return f.Offline.Describe(podName)
	case NoSharedCPUs:
		return fmt.Sprintf("static pods hold every CPU of this node and other containers need some: the CPUs of pod %s "+
			"are shared; delete a static pod, and raise minSharedCPUs (agents: --min-shared-cpus)", podName(f.Pod))
	case NoneInNodes:
		return fmt.Sprintf("container %q of pod %s has the shared CPUs of the whole node: "+
			"no CPU of its NUMA nodes is shared", f.Container, podName(f.Pod))
	case CoreSetsOverlap:
		return fmt.Sprintf("container %q of pod %s shares CPUs with other static-burst containers: "+
			"its NUMA nodes have too few shared CPUs for all of them", f.Container, podName(f.Pod))
	case NoKernelBurst:
		return "burst policies give no kernel burst on this node: " + f.Reason
	case BatchUnbounded:
		return fmt.Sprintf("the CPU time of batch pods is not bounded: pod %s is of QoS class BestEffort as well, and a bound would throttle it; "+
			"give it a CPU request, or label it as batch", podName(f.Pod))
	case NotBestEffort:
		return fmt.Sprintf("pod %s is a batch pod by its label and of QoS class %s, so it keeps its CPU limits, may not be behind pods of other "+
			"QoS classes, and is not bounded with other batch pods: remove its requests and limits of CPU and memory", podName(f.Pod), f.Reason)
	}
	panic(fmt.Sprintf("nodeplan: finding of unknown kind %q", f.Kind))
}

// String returns Describe with pod IDs as names.
func (f Finding) String() string { return f.Describe(ledger.PodID.String) }
