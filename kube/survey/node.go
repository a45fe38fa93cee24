package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Labels of the pods of Pinfold's own programs, as the manifests set them. Everybody can write
// them.
const (
	programLabel   = "app.kubernetes.io/name"
	agentLabel     = "pinfold-agent"
	schedulerLabel = "pinfold-scheduler"
)

// node adds one node and its problems to the report.
func (a *assembly) node(name string) {
	object, first := a.nodes[name], len(a.report.Problems)
	n := status.Node{Name: name, Ready: string(corev1.ConditionUnknown), Containers: []status.Container{}}
	if object != nil {
		c := api.Condition(object, nodetopology.BindingCondition)
		n.Condition = status.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		n.Ready = string(cmp.Or(api.Condition(object, corev1.NodeReady).Status, corev1.ConditionUnknown))
	}
	var topology *Topology
	n.Topology, topology = a.topology(name, object)
	n.Agent = a.agent(name, topology)
	a.agentProblems(&n)
	a.topologyProblems(&n)
	if topology != nil {
		n.Machine, n.Reserved = topology.Index.Machine(), topology.State.ReservedCPUs
		if !a.unread(Pods) {
			a.allocations(&n, object, topology)
		}
	} else if n.Agent.State == status.AgentNone && !a.unread(Topologies) {
		a.withoutAgent(&n)
	}
	a.conditionProblem(&n, topology)
	if !has(a.report.Problems[first:], status.NotEnforced, "") { // which says why
		a.notReady(&n)
	}
	if topology != nil && !n.Agent.State.Away() { // else they are old
		a.findings(&n, topology.State.Findings, a.report.Problems[first:])
	}
	if object != nil && !n.Agent.State.Away() {
		a.batchProblem(object)
	}
	a.report.Nodes = append(a.report.Nodes, n)
}

// topology returns the state of a node's topology, and the topology if it is usable.
func (a *assembly) topology(name string, node *corev1.Node) (status.Topology, *Topology) {
	t := a.topologies[name]
	switch {
	case a.unread(Topologies):
		return status.TopologyUnknown, nil
	case t == nil:
		return status.TopologyNone, nil
	case node != nil && !t.IsOf(node.UID):
		return status.TopologyStale, nil
	case t.Err != nil:
		return status.TopologyInvalid, nil
	}
	return status.TopologyUsable, t
}

// agent returns the state of a node's agent. topology is nil if it is not usable.
func (a *assembly) agent(node string, topology *Topology) (agent status.Agent) {
	var since time.Time // when the pod or else the topology was created
	if pod := a.agentPod(node); pod != nil {
		agent.Pod, since = nameOf(pod), pod.CreationTimestamp.Time
	}
	if topology != nil && topology.Created.After(since) {
		since = topology.Created
	}
	name := types.NamespacedName{Namespace: a.LeaseNamespace, Name: node}
	lease := a.leases[name]
	switch {
	case topology != nil && topology.State.AgentLease != "" && topology.State.AgentLease != name.String():
		agent.State, agent.Lease = status.AgentGone, topology.State.AgentLease
	case a.doubt(node) != "":
		agent.State, agent.Lease = status.AgentUnknown, name.String()
	case lease != nil:
		age, grace := a.age(lease)
		agent.Version, agent.Lease = api.VersionOf(lease), name.String()
		grace = min(grace, defaultGrace) // the lease is the node's word
		agent.RenewalAge, agent.Grace = age.Seconds(), grace.Seconds()
		agent.State = status.AgentReports
		if age > grace {
			agent.State = status.AgentSilent
		}
	case a.unread(Leases):
		agent.State = status.AgentUnknown
	case topology == nil && agent.Pod == "":
		agent.State = status.AgentNone
	case topology != nil && topology.State.AgentLease == "":
		agent.State = status.AgentNoLease
	case a.isNew(since):
		agent.State = status.AgentStarts
	default:
		agent.State, agent.Lease = status.AgentGone, name.String()
	}
	return agent
}

// agentPod returns the pod of a node's agent, or nil.
func (a *assembly) agentPod(node string) (agent *corev1.Pod) {
	for _, pod := range a.podsOn[node] {
		if a.isOf(pod, agentLabel) {
			agent = pod
		}
	}
	return agent
}

// doubt returns why the lease of a node's agent says nothing about it, or "".
func (a *assembly) doubt(node string) string {
	lease := a.leases[types.NamespacedName{Namespace: a.LeaseNamespace, Name: node}]
	if lease == nil {
		return ""
	}
	if holder := holderOf(lease); holder != node {
		return fmt.Sprintf("%q holds it, which is not the agent of the node", holder)
	}
	if age, _ := a.age(lease); age < 0 {
		return fmt.Sprintf("it was renewed %s in the future: a clock is wrong, or another program wrote it", quantity.Age(-age))
	}
	return ""
}

// startTime is how long an agent may take to start, with the download of its image.
const startTime = 2 * time.Minute

func (a *assembly) isNew(created time.Time) bool { return a.Time.Sub(created) < startTime }

// agentProblems adds the problems of an agent that does not report.
func (a *assembly) agentProblems(n *status.Node) {
	const effect = "Its settings stay in force, and no other pod gets CPUs here"
	p := status.Problem{Node: n.Name, Action: "start the agent on the node, or remove what it left with 'pinfold-agent cleanup'"}
	switch n.Agent.State {
	case status.AgentSilent:
		seconds := func(s float64) string { return quantity.Age(time.Duration(s * float64(time.Second))) }
		p.Kind, p.Message = status.AgentIsSilent, fmt.Sprintf("the agent has not renewed its lease %s for %s (grace period %s). %s",
			n.Agent.Lease, seconds(n.Agent.RenewalAge), seconds(n.Agent.Grace), effect)
	case status.AgentGone:
		p.Kind, p.Message = status.AgentIsGone, fmt.Sprintf("the agent does not report: its lease %s does not exist. %s", n.Agent.Lease, effect)
		if want := a.LeaseNamespace + "/" + n.Name; n.Agent.Lease != want {
			p.Message = fmt.Sprintf("the node names %q as its agent's lease, which does not count: agents renew %s", n.Agent.Lease, want)
			p.Action, p.Command = "name the namespace of the agents' leases with --lease-namespace, or look at who wrote that", ""
			a.add(p)
			return
		}
	case status.AgentUnknown:
		if why := a.doubt(n.Name); why != "" {
			a.add(status.Problem{Kind: status.AgentLeaseInvalid, Node: n.Name, Action: doubtAction(holderOf(a.leases[splitName(n.Agent.Lease)]) == n.Name),
				Command: fmt.Sprintf("kubectl -n %s delete lease %s", a.LeaseNamespace, n.Name),
				Message: fmt.Sprintf("whether the agent reports is not known by its lease %s: %s", n.Agent.Lease, why)})
		}
		return
	default:
		return
	}
	switch {
	case n.Ready != string(corev1.ConditionTrue):
		p.Action = "the node is not ready either: look at its kubelet first"
	case n.Agent.Pod != "":
		pod := splitName(n.Agent.Pod)
		p.Action, p.Command = "look at the agent's log", fmt.Sprintf("kubectl -n %s logs %s", pod.Namespace, pod.Name)
		waits := waitsFor(a.agentPod(n.Name))
		if p.Message += waits; waits != "" || n.Agent.State == status.AgentGone { // its container does not run, or perhaps never did
			p.Action, p.Command = "look at the agent's pod", fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name)
		}
	}
	a.add(p)
}

// doubtAction says what to do about a lease that says nothing about its agent.
func doubtAction(own bool) string {
	if own {
		return "synchronise the clocks of node and API server; if the lease stays so, delete it"
	}
	return "delete the lease, which the node's agent makes again; if another holder comes back, stop that"
}

// notReady adds the agent's pod if it has not been ready for a while.
func (a *assembly) notReady(n *status.Node) {
	pod := a.agentPod(n.Name)
	if pod == nil || n.Agent.State.Away() {
		return
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !a.isNew(c.LastTransitionTime.Time) {
			a.add(status.Problem{Kind: status.AgentNotReady, Node: n.Name, Action: "look at the agent's pod",
				Message: fmt.Sprintf("the agent's pod %s has not been ready for %s%s", nameOf(pod), quantity.Age(a.Time.Sub(c.LastTransitionTime.Time)), waitsFor(pod)),
				Command: fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name)})
		}
	}
}

// unplacedAgents adds the pods of agents that have no node.
func (a *assembly) unplacedAgents() {
	for _, pod := range a.podsOn[""] {
		if c := scheduled(pod); a.isOf(pod, agentLabel) && c.Status == corev1.ConditionFalse && !a.isNew(pod.CreationTimestamp.Time) {
			a.add(status.Problem{Kind: status.AgentNotReady, Pod: nameOf(pod), Action: "make room for it on its node, or exclude the node",
				Message: "an agent has not been placed on its node: " + c.Message, Command: fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name)})
		}
	}
}

// waitsFor returns what the first container of a pod that waits waits for, as a sentence.
func waitsFor(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			return fmt.Sprintf(". Its container %q waits: %s", c.Name, strings.TrimSuffix(w.Reason+": "+w.Message, ": "))
		}
	}
	return ""
}

// topologyProblems adds the problem of a node whose topology is not usable although it should be.
func (a *assembly) topologyProblems(n *status.Node) {
	const effect = ", so no pod that asks for CPUs is placed here"
	const republish = "delete the object, and the agent publishes it again"
	t, p := a.topologies[n.Name], status.Problem{Node: n.Name}
	if t != nil {
		p.Command = deleteTopology(t)
	}
	switch n.Topology {
	case status.TopologyInvalid:
		p.Kind, p.Message = status.TopologyIsInvalid, fmt.Sprintf("the topology cannot be used%s: %v", effect, t.Err)
		p.Action, p.Command = "upgrade scheduler, agent and the definition of NodeTopology to the same version", "kubectl apply --server-side --force-conflicts -f deploy/chart/crds"
	case status.TopologyStale:
		p.Kind, p.Message, p.Action = status.TopologyIsStale, "the topology is about an earlier node of this name"+effect, republish
	case status.TopologyNone:
		if n.Agent.State != status.AgentReports || a.isNew(a.leases[splitName(n.Agent.Lease)].CreationTimestamp.Time) {
			return // no agent, or one that has a problem of its own or publishes it soon
		}
		p.Kind, p.Message = status.TopologyIsNone, "the agent runs and has not published the topology of the node"+effect
		p.Action, p.Command = "look at the agent's log for the reason", ""
	default:
		return
	}
	a.add(p)
}

func deleteTopology(t *Topology) string {
	return "kubectl delete nodetopologies.pinfold.dev " + t.Name
}

// orphans adds topologies whose node does not exist.
func (a *assembly) orphans() {
	if a.unread(Nodes) {
		return
	}
	for i := range a.Topologies {
		if t := &a.Topologies[i]; a.nodes[t.Name] == nil {
			a.add(status.Problem{Kind: status.TopologyOrphaned, Node: t.Name, Message: "a topology is left of a node that does not exist",
				Action: "delete it", Command: deleteTopology(t)})
		}
	}
}

// conditionProblem adds what the node's agent says of itself. topology is nil if it is not usable.
func (a *assembly) conditionProblem(n *status.Node, topology *Topology) {
	c := n.Condition
	switch {
	case c.Status == "" || c.Status == string(corev1.ConditionTrue):
		if topology != nil && topology.State.AgentHealth != nodetopology.AgentHealthy { // the condition is older
			a.add(status.Problem{Kind: status.NotEnforced, Node: n.Name, Action: conditionAction(""),
				Message: "the agent cannot enforce anything: " + cmp.Or(topology.State.AgentHealth, "it does not say why")})
		}
		return
	case n.Agent.State.Away():
		return // the condition repeats that, or is older
	case c.Reason == nodetopology.Observing:
		a.add(status.Problem{Kind: status.AgentObserves, Node: n.Name, Message: c.Message + ". No pod that asks for CPUs is placed here",
			Action: "'/pinfold-agent status --host-root=/host' in the agent's pod says what it would write; set the chart's agent.mode to enforce when that is right"})
		return
	}
	a.add(status.Problem{Kind: status.NotEnforced, Node: n.Name, Action: conditionAction(c.Reason),
		Message: fmt.Sprintf("condition %s is %s (%s): %s", nodetopology.BindingCondition, c.Status, c.Reason, c.Message)})
}

// batchProblem adds what the node's agent says of batch pods.
func (a *assembly) batchProblem(node *corev1.Node) {
	if c := api.Condition(node, api.BatchStarved); c.Status == corev1.ConditionTrue {
		a.add(status.Problem{Kind: status.BatchStarved, Node: node.Name, Message: c.Message,
			Action: "move some of the node's pods elsewhere; Pinfold's scheduler, if you use it, can evict batch pods (evictBatchPods)"})
	}
}

// conditionAction says what to do about a reason of the condition.
func conditionAction(reason string) string {
	switch reason {
	case "Waiting":
		return "check that the node reaches the API server, and that the agent may read nodes/configz; its log says more"
	case string(nodeplan.BindingOff), string(nodeplan.NotBound):
		return "correct the kubelet's configuration, as the message says"
	case string(nodeplan.NoSharedCPUs):
		return "delete one of the pods with exclusive CPUs, and raise minSharedCPUs of agents and scheduler"
	case "ClaimsNotServed":
		return "do what the message says (docs/dra.md has the feature gates), or set the chart's agent.claims to none"
	case "CannotSave":
		return "make room on the disk of the agent's run directory (--run-dir), and let the agent write there"
	case string(nodeplan.CoreSetsOverlap), string(nodeplan.NoneInNodes):
		return "delete a static-burst pod of the node to have it placed elsewhere"
	}
	return "look at the agent's log, and run 'pinfold-agent doctor' on the node"
}
