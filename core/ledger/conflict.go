package ledger

import (
	"fmt"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// Conflict is a pod that lost its claim. It has none of the CPUs or NUMA nodes that it claims, and
// runs in the shared CPUs instead.
type Conflict struct {
	ID       PodID
	Rank     int64
	Problems []Problem // at least one
}

// ProblemKind is the kind of a [Problem].
type ProblemKind string

// The kinds of problem, and which further fields of [Problem] they fill.
const (
	CPUHeld       ProblemKind = "CPUHeld"       // CPUs, Holder, HolderContainer
	CPUTwice      ProblemKind = "CPUTwice"      // CPUs, HolderContainer (of the same pod)
	CPUReserved   ProblemKind = "CPUReserved"   // CPUs
	CPUUnknown    ProblemKind = "CPUUnknown"    // CPUs
	NoCPUs        ProblemKind = "NoCPUs"        // none
	NUMAUnknown   ProblemKind = "NUMAUnknown"   // NUMANodes
	NUMAEmpty     ProblemKind = "NUMAEmpty"     // NUMANodes
	NoNUMANodes   ProblemKind = "NoNUMANodes"   // none
	PolicyUnknown ProblemKind = "PolicyUnknown" // Policy
)

// Problem is one reason why a claim cannot be enforced.
type Problem struct {
	Kind            ProblemKind
	Container       string
	CPUs            cpuset.Set
	NUMANodes       []topology.NUMAID
	Policy          placement.Policy
	Holder          PodID
	HolderContainer string
}

// Describe formats the problem for users. It names the holder with podName.
func (p Problem) Describe(podName func(PodID) string) string {
	claims := fmt.Sprintf("container %q claims %s", p.Container, cpuList(p.CPUs))
	switch p.Kind {
	case CPUHeld:
		return fmt.Sprintf("%s, held by container %q of pod %s", claims, p.HolderContainer, podName(p.Holder))
	case CPUTwice:
		return fmt.Sprintf("%s, which container %q of the same pod claims too", claims, p.HolderContainer)
	case CPUReserved:
		return claims + ", reserved for the system"
	case CPUUnknown:
		return claims + ", which this node does not have"
	case NoCPUs:
		return fmt.Sprintf("container %q is static and names no CPUs", p.Container)
	case NUMAUnknown:
		return fmt.Sprintf("container %q is confined to NUMA %s, which this node does not have", p.Container, nodeList(p.NUMANodes))
	case NUMAEmpty:
		return fmt.Sprintf("container %q is confined to NUMA %s, without any online CPU", p.Container, nodeList(p.NUMANodes))
	case NoNUMANodes:
		return fmt.Sprintf("container %q is static-burst and names no NUMA nodes", p.Container)
	case PolicyUnknown:
		return fmt.Sprintf("container %q has the unknown policy %q", p.Container, p.Policy)
	}
	panic(fmt.Sprintf("ledger: problem of unknown kind %q", p.Kind))
}

// Describe formats the conflict for users. It names pods with podName.
func (c Conflict) Describe(podName func(PodID) string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "pod %s stays in the shared CPUs", podName(c.ID))
	separator := ": "
	for _, p := range c.Problems {
		text.WriteString(separator + p.Describe(podName))
		separator = "; "
	}
	return text.String()
}

// String returns Describe with pod IDs as names.
func (c Conflict) String() string {
	return c.Describe(func(id PodID) string { return string(id) })
}

func cpuList(s cpuset.Set) string {
	if s.Len() == 1 {
		return "CPU " + s.String()
	}
	return "CPUs " + s.String()
}

func nodeList(ids []topology.NUMAID) string {
	word := "node"
	if len(ids) > 1 {
		word = "nodes"
	}
	for i, id := range ids {
		separator := ","
		if i == 0 {
			separator = " "
		}
		if id == topology.NoNUMA {
			word += separator + "none" // the CPUs that belong to no node
			continue
		}
		word += fmt.Sprintf("%s%d", separator, id)
	}
	return word
}
