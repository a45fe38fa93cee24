package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// allocationVersion is the version of the format of [Allocation].
const allocationVersion = 1

// Allocation is what the agent of a node has allocated to one pod. In files and objects it is JSON
// without white space:
//
//	{"version":1,"node":"n1","policy":"static","containers":[{"name":"app","cpus":"0-3","numaNodes":[0]}],
//	 "time":"2026-11-22T06:45:39.123456789Z"}
//
// Unknown fields are ignored, so that later versions can add some. An incompatible format has
// another version number.
type Allocation struct {
	Version int `json:"version"`
	// Node is the node of the CPUs.
	Node string `json:"node"`
	// Policy is Static or StaticBurst.
	Policy placement.Policy `json:"policy"`
	// Containers are the placed containers, in any order.
	Containers []ContainerAllocation `json:"containers"`
	// Claims are the pod's resource claims for these CPUs. A pod that asks by annotation has none.
	Claims []ClaimRef `json:"claims,omitempty"`
	// Time is when the agent decided.
	Time time.Time `json:"time,omitzero"`
}

// MaxAllocation bounds the text of an allocation that an agent gives, in bytes. [MostPlaced] containers with the
// longest names have less, unless their CPUs are far apart.
const MaxAllocation = 16 << 10

// ClaimRef names a ResourceClaim in the namespace of a pod.
type ClaimRef struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// ContainerAllocation is the CPUs or NUMA nodes of one container.
type ContainerAllocation struct {
	Name string `json:"name"`
	// CPUs are the exclusive CPUs of a Static container. A StaticBurst container has none.
	CPUs cpuset.Set `json:"cpus,omitzero"`
	// NUMANodes are the nodes that a StaticBurst container is confined to, ascending. Those of a
	// Static container are only informational: the nodes of its online CPUs. Node -1 stands for the
	// CPUs without a node.
	NUMANodes []topology.NUMAID `json:"numaNodes"`
}

// NewAllocation returns the allocation for a decision on a node. The caller sets its time.
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

// Encode returns the text. Equal allocations give equal texts.
func (a Allocation) Encode() string {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // every Allocation is valid JSON
	}
	return string(text)
}

// Rank returns the rank of a claim with the allocation: the latest decision comes first. See
// [Allocations.Claim].
func (a Allocation) Rank() int64 { return -a.Time.UnixNano() }

// DecodeAllocation parses the text. It checks what can be checked without the pod and the machine.
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
	listed := make(map[string]bool, len(a.Containers))
	for _, c := range a.Containers {
		if err := c.check(a.Policy); err != nil {
			return Allocation{}, fmt.Errorf("container %q: %w", c.Name, err)
		}
		if listed[c.Name] {
			return Allocation{}, fmt.Errorf("container %q: listed twice", c.Name)
		}
		if first := a.Containers[0]; a.Policy == placement.StaticBurst && !slices.Equal(c.NUMANodes, first.NUMANodes) {
			return Allocation{}, fmt.Errorf("container %q: it has other NUMA nodes than container %q, and a pod has the same for all", c.Name, first.Name)
		}
		listed[c.Name] = true
	}
	return a, nil
}

func (c ContainerAllocation) check(policy placement.Policy) error {
	switch {
	case c.Name == "":
		return fmt.Errorf("a name is missing")
	case policy == placement.Static && c.CPUs.IsEmpty():
		return fmt.Errorf("it has no CPUs, which policy %q allocates", policy)
	case policy == placement.StaticBurst && !c.CPUs.IsEmpty():
		return fmt.Errorf("it has CPUs %q of its own, which policy %q does not allocate", c.CPUs, policy)
	case policy == placement.StaticBurst && len(c.NUMANodes) == 0: // CPUs that are offline have none
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

// Validate returns an error for CPUs and NUMA nodes that the machine does not have. Offline CPUs
// are valid, and still belong to the pod.
func (a Allocation) Validate(m *topology.Machine) error {
	there := m.Online().Union(m.Offline)
	for _, c := range a.Containers {
		if missing := c.CPUs.Difference(there); !missing.IsEmpty() {
			return fmt.Errorf("container %q: node %s has no CPUs %v", c.Name, a.Node, missing)
		}
		if a.Policy != placement.StaticBurst {
			continue
		}
		for _, id := range c.NUMANodes {
			if _, known := m.NUMANode(id); !known && m.CPUsOfNUMA(id).IsEmpty() {
				return fmt.Errorf("container %q: node %s has no NUMA node %d with CPUs", c.Name, a.Node, id)
			}
		}
		if m.CPUsOfNUMA(c.NUMANodes...).IsEmpty() {
			return fmt.Errorf("container %q: node %s has no CPUs online in NUMA nodes %v", c.Name, a.Node, c.NUMANodes)
		}
	}
	return nil
}

// claims checks an allocation against its pod. own lists the containers of the pod that get CPUs.
// It returns their claims, in the order of the pod.
func (a Allocation) claims(pod *corev1.Pod, own []ledger.ContainerAsk) ([]ledger.ContainerClaim, error) {
	if a.Node != pod.Spec.NodeName {
		return nil, fmt.Errorf("it is for node %s, but the pod is on node %s", a.Node, pod.Spec.NodeName)
	}
	wanted := make(map[string]bool, len(own))
	for _, w := range own {
		wanted[w.Name] = true
	}
	parts := make(map[string]*ContainerAllocation, len(a.Containers))
	for i := range a.Containers {
		c := &a.Containers[i]
		switch {
		case wanted[c.Name]:
			parts[c.Name] = c
		case slices.ContainsFunc(members(pod), func(m member) bool { return m.Name == c.Name }):
			return nil, fmt.Errorf("container %q: its limits.cpu is not a whole number of CPUs", c.Name)
		default:
			return nil, fmt.Errorf("container %q: the pod has no such container", c.Name)
		}
	}
	claims := make([]ledger.ContainerClaim, 0, len(own))
	for _, w := range own {
		c := parts[w.Name]
		if c == nil {
			return nil, fmt.Errorf("container %q: it is missing, and its limits.cpu is %d", w.Name, w.CPUs)
		}
		claim := ledger.ContainerClaim{Name: w.Name, Role: w.Role, Policy: a.Policy, Limit: w.CPUs, Request: w.Request, CPUs: c.CPUs}
		if a.Policy == placement.StaticBurst {
			claim.NUMANodes = c.NUMANodes
		} else if n := c.CPUs.Len(); n != w.CPUs {
			return nil, fmt.Errorf("container %q: CPUs %q are %d, and its limits.cpu is %d", w.Name, c.CPUs, n, w.CPUs)
		}
		claims = append(claims, claim)
	}
	return claims, checkTogether(&ledger.Ask{Containers: own}, claims)
}

// checkTogether checks static claims against each other: no CPU may belong to two containers at the
// same time, and the pod may not have more CPUs than it is entitled to.
func checkTogether(ask *ledger.Ask, claims []ledger.ContainerClaim) error {
	var all cpuset.Set
	var earlier ledger.InUse
	for i, c := range claims {
		both := earlier.With(c.Role).Intersection(c.CPUs)
		earlier.Add(c.Role, c.CPUs)
		all = all.Union(c.CPUs)
		if both.IsEmpty() {
			continue
		}
		for _, before := range claims[:i] {
			if shared := before.CPUs.Intersection(c.CPUs); !shared.IsEmpty() && before.Role.RunsWith(c.Role) {
				return fmt.Errorf("containers %q and %q both have CPUs %v", before.Name, c.Name, shared)
			}
		}
	}
	if n := ask.CPUs(); all.Len() > n {
		return fmt.Errorf("its containers have %d CPUs between them (%v), and the pod is entitled to %d", all.Len(), all, n)
	}
	return nil
}
