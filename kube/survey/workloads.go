package survey

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
)

// missingAgents adds a problem for each DaemonSet with fewer agents than it wants, and one if no node has an
// agent. If some have one, the others that no DaemonSet selects are taken to be without on purpose.
func (a *assembly) missingAgents() {
	without, wanted, starting := 0, 0, true
	for i := range a.report.Nodes {
		n := &a.report.Nodes[i]
		if a.Node != "" && n.Agent.State != status.AgentNone && n.Agent.State != status.AgentGone {
			return // this node lacks none
		}
		if n.Agent.State == status.AgentNone {
			without++
			starting = starting && a.nodes[n.Name] != nil && a.isNew(a.nodes[n.Name].CreationTimestamp.Time)
		}
	}
	for _, set := range a.DaemonSets {
		if !a.isOf(set, agentLabel) {
			continue
		}
		wants, has := int(set.Status.DesiredNumberScheduled), int(set.Status.CurrentNumberScheduled)
		wanted, starting = wanted+wants, starting || a.isNew(set.CreationTimestamp.Time)
		if has < wants && !a.isNew(set.CreationTimestamp.Time) {
			a.add(status.Problem{Kind: status.AgentMissing, Command: describe("daemonset", set),
				Message: fmt.Sprintf("DaemonSet %s/%s wants agents on %s and has pods on %d of them: pods get no CPUs of their own on the rest",
					set.Namespace, set.Name, quantity.Count(wants, "node"), has),
				Action: "its events say what refuses the pods, such as Pod Security of the namespace, a quota or a webhook"})
		}
	}
	if without > 0 && a.unread(DaemonSets) {
		a.report.Notes = append(a.report.Notes, "which nodes should have an agent is not known: this user may not list the DaemonSets of agents")
	}
	if known := !a.unread(Pods) && !a.unread(Topologies); known && a.Node == "" && without > 0 && without == len(a.report.Nodes) && wanted == 0 && !starting {
		a.noAgent()
	}
}

// noAgent adds that no node has an agent, and no DaemonSet wants one.
func (a *assembly) noAgent() {
	p := status.Problem{Kind: status.AgentMissing, Message: "no node has an agent, so no pod gets CPUs of its own",
		Action: "install the agents (docs/operations.md), or name the namespace of their leases with --lease-namespace"}
	for _, set := range a.DaemonSets {
		if a.isOf(set, agentLabel) { // perhaps its nodes come later
			p.Severity, p.Message = status.Warning, fmt.Sprintf("%s: DaemonSet %s/%s selects none", p.Message, set.Namespace, set.Name)
			p.Action = "label the nodes as its nodeSelector says, or tolerate their taints, or correct the chart's agent.nodeSelector"
		}
	}
	a.add(p)
}

// idleDeployments adds the Deployments of schedulers that have no replica which is ready, and reports whether
// there is one.
func (a *assembly) idleDeployments() (found bool) {
	for _, d := range a.Deployments {
		wants := ptr.Deref(d.Spec.Replicas, 1)
		if !a.isOf(d, schedulerLabel) || wants == 0 || d.Status.ReadyReplicas > 0 || a.isNew(d.CreationTimestamp.Time) {
			continue
		}
		message := fmt.Sprintf("no scheduler of Pinfold leads: Deployment %s/%s wants %s, of which none is ready", d.Namespace, d.Name, quantity.Count(int(wants), "pod"))
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				message += ": " + c.Message
			}
		}
		a.add(status.Problem{Kind: status.SchedulerSilent, Message: message + a.schedulerWaits(),
			Action: "look at the Deployment and its pods", Command: describe("deployment", d)})
		found = true
	}
	return found
}

// schedulerWaits returns what a pod of a scheduler waits for, as a sentence.
func (a *assembly) schedulerWaits() (why string) {
	for _, pod := range a.Pods {
		if a.isOf(pod, schedulerLabel) {
			why = max(why, waitsFor(pod))
		}
	}
	return why
}

// describe returns the command that shows an object with its events.
func describe(kind string, o metav1.Object) string {
	return fmt.Sprintf("kubectl -n %s describe %s %s", o.GetNamespace(), kind, o.GetName())
}
