package survey

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Labels of the pods of Pinfold's own programs, as the manifests set them.
const (
	programLabel   = "app.kubernetes.io/name"
	agentLabel     = "pinfold-agent"
	schedulerLabel = "pinfold-scheduler"
)

// node adds one node and its problems to the report.
func (a *assembly) node(name string) {
	object := a.nodes[name]
	n := status.Node{Name: name, Ready: string(corev1.ConditionUnknown), Containers: []status.Container{}}
	if object != nil {
		n.Ready, n.Condition = conditionsOf(object)
	}
	var topology *Topology
	n.Topology, topology = a.topology(name, object)
	n.Agent = a.agent(name, topology)
	a.agentProblems(&n)
	a.topologyProblems(&n)
	if !a.unread(Pods) {
		a.fillBooks(&n, object, topology)
	}
	if topology != nil {
		n.Machine, n.Reserved = topology.Index.Machine(), topology.State.ReservedCPUs
	}
	a.conditionProblem(&n, topology)
	a.report.Nodes = append(a.report.Nodes, n)
}

// conditionsOf returns the status of the condition Ready, and the condition about the binding of
// CPUs.
func conditionsOf(node *corev1.Node) (ready string, binding status.Condition) {
	ready = string(corev1.ConditionUnknown)
	for _, c := range node.Status.Conditions {
		switch c.Type {
		case corev1.NodeReady:
			ready = string(c.Status)
		case nodetopology.BindingCondition:
			binding = status.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		}
	}
	return ready, binding
}

// topology returns the state of a node's topology, and the topology if it is usable.
func (a *assembly) topology(name string, node *corev1.Node) (status.Topology, *Topology) {
	t := a.topologies[name]
	switch {
	case a.unread(Topologies):
		return status.TopologyUnknown, nil
	case t == nil:
		return status.TopologyNone, nil
	case node != nil && t.Owner != "" && t.Owner != node.UID:
		return status.TopologyStale, nil
	case errors.Is(t.Err, nodetopology.ErrForeign):
		return status.TopologyForeign, nil
	case t.Err != nil:
		return status.TopologyInvalid, nil
	}
	return status.TopologyUsable, t
}

// agent returns the state of a node's agent. topology is nil if it is not usable.
func (a *assembly) agent(node string, topology *Topology) (agent status.Agent) {
	for _, pod := range a.podsOn[node] {
		if pod.Labels[programLabel] == agentLabel {
			agent.Pod = nameOf(pod)
		}
	}
	name := types.NamespacedName{Namespace: a.LeaseNamespace, Name: node}
	if topology != nil && topology.State.AgentLease != "" {
		name = splitName(topology.State.AgentLease)
	}
	lease := a.leases[name]
	switch {
	case lease != nil:
		age, grace := a.age(lease)
		agent.Version, agent.Lease = api.VersionOf(lease), name.String()
		agent.RenewalAge, agent.Grace = age.Seconds(), grace.Seconds()
		agent.State = status.AgentReports
		if age > grace {
			agent.State = status.AgentSilent
		}
	case a.unread(Leases):
		agent.State = status.AgentUnknown
	case topology == nil:
		agent.State = status.AgentNone
	case topology.State.AgentLease == "":
		agent.State = status.AgentNoLease
	default:
		agent.State, agent.Lease = status.AgentGone, name.String()
	}
	return agent
}

// agentProblems adds the problems of an agent that does not report.
func (a *assembly) agentProblems(n *status.Node) {
	const effect = "Its settings stay in force, and no pod that asks for CPUs is placed here"
	var kind status.Kind
	var message string
	switch n.Agent.State {
	case status.AgentSilent:
		age, grace := a.age(a.leases[splitName(n.Agent.Lease)])
		kind, message = status.AgentIsSilent, fmt.Sprintf("the agent has not renewed its lease %s for %s (grace period %s). %s",
			n.Agent.Lease, seconds(age), seconds(grace), effect)
	case status.AgentGone:
		kind, message = status.AgentIsGone, fmt.Sprintf("the lease %s, which the node's topology names, does not exist. %s", n.Agent.Lease, effect)
	default:
		return
	}
	action := "start the agent on the node, or remove what it left with 'pinfold-agent cleanup'"
	switch {
	case n.Ready != string(corev1.ConditionTrue):
		action = "the node is not ready either: look at its kubelet first"
	case n.Agent.Pod != "":
		pod := splitName(n.Agent.Pod)
		action = fmt.Sprintf("look at the agent's log: kubectl -n %s logs %s", pod.Namespace, pod.Name)
	}
	a.problem(kind, n.Name, nil, message, action)
}

// topologyProblems adds the problem of a node whose topology is not usable although it should be.
func (a *assembly) topologyProblems(n *status.Node) {
	t := a.topologies[n.Name]
	const republish = "the agent publishes the topology again: kubectl delete noderesourcetopologies.topology.node.k8s.io "
	switch n.Topology {
	case status.TopologyNone:
		if n.Agent.State == status.AgentReports {
			a.problem(status.TopologyIsNone, n.Name, nil, "the agent runs and has not published the topology of the node, so no pod that asks for CPUs is placed here",
				"look at the agent's log for the reason")
		}
	case status.TopologyForeign:
		if n.Agent.State != status.AgentNone {
			a.problem(status.TopologyIsForeign, n.Name, nil, t.Err.Error(), "stop the other writer on this node, such as Node Feature Discovery's topology updater; then delete the object, and "+
				republish+n.Name)
		}
	case status.TopologyInvalid:
		a.problem(status.TopologyIsInvalid, n.Name, nil, "the topology cannot be used: "+t.Err.Error(),
			"when agent and scheduler have the same version, delete the object, and "+republish+n.Name)
	case status.TopologyStale:
		a.problem(status.TopologyIsStale, n.Name, nil, "the topology is about an earlier node of this name, and does not count",
			"if an agent runs on the node, delete the object, and "+republish+n.Name)
	}
}

// orphans adds topologies whose node does not exist.
func (a *assembly) orphans() {
	if a.unread(Nodes) {
		return
	}
	for i := range a.Topologies {
		if t := &a.Topologies[i]; a.nodes[t.Name] == nil && !errors.Is(t.Err, nodetopology.ErrForeign) {
			a.problem(status.TopologyOrphaned, t.Name, nil, "a topology is left of a node that does not exist",
				"delete it: kubectl delete noderesourcetopologies.topology.node.k8s.io "+t.Name)
		}
	}
}

// conditionProblem adds what the node's condition says beyond the problems that were found in the
// books. topology is nil if it is not usable.
func (a *assembly) conditionProblem(n *status.Node, topology *Topology) {
	const action = "docs/agent.md, \"Where it says what is wrong\", says what to do about each reason"
	c := n.Condition
	switch {
	case c.Status == "" || c.Status == string(corev1.ConditionTrue):
		if topology != nil {
			a.stateProblem(n, &topology.State)
		}
		return
	case n.Agent.State == status.AgentSilent || n.Agent.State == status.AgentGone:
		return // the condition repeats that, or is older
	}
	rest := c.Message
	for _, p := range a.report.Problems {
		if p.Node == n.Name {
			rest = strings.ReplaceAll(rest, p.Message, "")
		}
	}
	if strings.Trim(rest, "; ") == "" {
		return
	}
	a.problem(status.NotEnforced, n.Name, nil, fmt.Sprintf("condition %s is %s (%s): %s", nodetopology.BindingCondition, c.Status, c.Reason, c.Message), action)
}

// stateProblem adds what the topology says of the agent and the kubelet, for nodes without a
// condition.
func (a *assembly) stateProblem(n *status.Node, s *nodetopology.State) {
	if s.AgentHealth != nodetopology.AgentHealthy {
		a.problem(status.NotEnforced, n.Name, nil, "the agent cannot enforce anything: "+cmp.Or(s.AgentHealth, "it does not say why"),
			"look at the agent's log")
	}
	if s.KubeletPolicy != nodetopology.KubeletPolicyNone && s.KubeletPolicy != "" {
		a.problem(status.NotEnforced, n.Name, nil, fmt.Sprintf("the kubelet's CPU manager policy is %q, so no pod is bound to CPUs here", s.KubeletPolicy),
			"set cpuManagerPolicy to none, delete the file cpu_manager_state and restart the kubelet")
	}
}
