package status

import (
	"cmp"
	"slices"
	"strings"
)

// Holder is a container that has CPUs, or a pod that asked for some and has none.
type Holder struct {
	Node string `json:"node"`
	Container
	// Lacks is the kind of the problem of a pod that has no CPUs.
	Lacks Kind `json:"lacks,omitempty"`
}

// Unsure returns the nodes of whose pods it is not known which have CPUs, or which asked in vain. Pods of a
// node without an agent and a topology have none.
func (r *Report) Unsure() []string {
	names := []string{}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Agent.State.Away() || n.Agent.State == AgentUnknown || n.Topology != TopologyUsable && (n.Topology != TopologyNone || n.Agent.State != AgentNone) {
			names = append(names, n.Name)
		}
	}
	return names
}

// Holders returns the containers that have CPUs of their own or are confined, and the pods on nodes that
// asked for CPUs in vain, in a namespace or in all (""), by pod.
func (r *Report) Holders(namespace string) []Holder {
	all := []Holder{}
	add := func(h Holder) {
		if namespace == "" || strings.HasPrefix(h.Pod, namespace+"/") {
			all = append(all, h)
		}
	}
	served := map[string]bool{}
	for i := range r.Nodes {
		for _, c := range r.Nodes[i].Containers {
			served[c.Pod] = true
			add(Holder{Node: r.Nodes[i].Name, Container: c})
		}
	}
	for _, p := range r.Problems {
		if p.Kind.Unserved() && p.Node != "" && !served[p.Pod] {
			served[p.Pod] = true
			add(Holder{Node: p.Node, Container: Container{Pod: p.Pod}, Lacks: p.Kind})
		}
	}
	slices.SortStableFunc(all, func(a, b Holder) int { return cmp.Compare(a.Pod, b.Pod) })
	return all
}
