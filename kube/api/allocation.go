package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	kjson "sigs.k8s.io/json"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// allocationVersion is the version of the form of [Allocation].
const allocationVersion = 1

// Allocation is the value of cpu-allocation: the decision about one pod, written by the scheduler
// as JSON without white space:
//
//	{"version":1,"node":"n1","policy":"static","containers":[{"name":"app","cpus":"0-3","numaNodes":[0]}],
//	 "time":"2026-11-22T06:45:39.123456789Z","signature":"..."}
//
// Fields that are not known are passed over, so that later versions can add some. An incompatible
// form has another version number.
type Allocation struct {
	Version int `json:"version"`
	// Node is the node that the CPUs are of.
	Node string `json:"node"`
	// Policy is Static or StaticBurst.
	Policy placement.Policy `json:"policy"`
	// Containers are those that have been placed, in any order.
	Containers []ContainerAllocation `json:"containers"`
	// Time is when the scheduler decided.
	Time time.Time `json:"time,omitzero"`
	// Signature is the scheduler's, see [Allocation.Sign]. It must be the last field.
	Signature string `json:"signature,omitempty"`
}

// ContainerAllocation is the CPUs or NUMA nodes of one container.
type ContainerAllocation struct {
	Name string `json:"name"`
	// CPUs are a Static container's own. A StaticBurst container has none.
	CPUs cpuset.Set `json:"cpus,omitzero"`
	// NUMANodes confine a StaticBurst container, ascending. Those of a Static container say where
	// its CPUs are, for people and tools that look at the pod; nothing is decided by them. Node -1
	// stands for the CPUs that belong to none.
	NUMANodes []topology.NUMAID `json:"numaNodes"`
}

// NewAllocation returns the allocation for a decision on a node. The caller sets its time and signs
// it.
func NewAllocation(node string, m *topology.Machine, decision ledger.Decision) Allocation {
	a := Allocation{Version: allocationVersion, Node: node, Policy: placement.Static}
	for _, c := range decision.Containers {
		part := ContainerAllocation{Name: c.Name, CPUs: c.CPUs, NUMANodes: slices.Clone(c.NUMANodes)}
		if a.Policy = c.Policy; c.Policy == placement.Static {
			part.NUMANodes = m.NUMANodesOf(c.CPUs)
		}
		a.Containers = append(a.Containers, part)
	}
	return a
}

// Encode returns the text of the annotation. Equal allocations give equal texts.
func (a Allocation) Encode() string {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // there is nothing in it that JSON cannot say
	}
	return string(text)
}

// Rank returns the order of claims with signed allocations; see Keys.Claim.
func (a Allocation) Rank() int64 { return -a.Time.UnixNano() }

// DecodeAllocation parses the text of the annotation. It checks what can be checked without the
// pod, the machine and the keys.
func DecodeAllocation(text string) (Allocation, error) {
	var a Allocation
	if err := decodeJSON(text, &a, kjson.DisallowDuplicateFields); err != nil {
		return Allocation{}, err
	}
	if a.Version != allocationVersion {
		return Allocation{}, fmt.Errorf("version %d: this program reads version %d", a.Version, allocationVersion)
	}
	if a.Policy != placement.Static && a.Policy != placement.StaticBurst {
		return Allocation{}, fmt.Errorf("policy %q: it must be %q or %q", a.Policy, placement.Static, placement.StaticBurst)
	}
	if a.Node == "" {
		return Allocation{}, fmt.Errorf("it names no node")
	}
	if len(a.Containers) == 0 {
		return Allocation{}, fmt.Errorf("it has no containers")
	}
	for i, c := range a.Containers {
		if err := c.check(a.Policy); err != nil {
			return Allocation{}, fmt.Errorf("container %q: %w", c.Name, err)
		}
		if slices.ContainsFunc(a.Containers[:i], func(o ContainerAllocation) bool { return o.Name == c.Name }) {
			return Allocation{}, fmt.Errorf("container %q: listed twice", c.Name)
		}
	}
	return a, nil
}

func (c ContainerAllocation) check(policy placement.Policy) error {
	switch {
	case c.Name == "":
		return fmt.Errorf("a name is missing")
	case policy == placement.Static && c.CPUs.IsEmpty():
		return fmt.Errorf("it has no CPUs, which policy %q gives", policy)
	case policy == placement.StaticBurst && !c.CPUs.IsEmpty():
		return fmt.Errorf("it has CPUs %q of its own, which policy %q does not give", c.CPUs, policy)
	case len(c.NUMANodes) == 0:
		return fmt.Errorf("it has no NUMA nodes")
	}
	last := topology.NoNUMA - 1
	for _, id := range c.NUMANodes {
		if id <= last {
			return fmt.Errorf("NUMA nodes %v: they must be %d or more, ascending, each once", c.NUMANodes, topology.NoNUMA)
		}
		last = id
	}
	return nil
}
