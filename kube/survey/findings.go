package survey

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// findings adds what the agent of a node says of itself, the node and its pods, except for the kinds of
// which the report has some already.
func (a *assembly) findings(n *status.Node, all []nodetopology.Finding, known []status.Problem) {
	for _, f := range all {
		p := status.Problem{Kind: status.Kind(f.Reason), Severity: status.Warning, Node: n.Name, Message: f.Message, Action: findingAction(f)}
		if f.Severity == string(status.Note) {
			p.Severity = status.Note
		}
		if pod := a.podOf(n.Name, f); pod != nil {
			if p.Kind == status.NotAllocated && a.neverServes(n.Name, pod) {
				p.Action = "create it again with lower limits, or on a larger node: this one cannot serve it, even without other pods"
			}
			p.Pod, p.Command = nameOf(pod), fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name)
		} else if f.Pod != "" {
			continue // it has ended
		} else if agent := a.agentPod(n.Name); agent != nil && p.Kind == status.AgentImpaired {
			p.Command = fmt.Sprintf("kubectl -n %s logs %s", agent.Namespace, agent.Name)
		}
		if !has(known, p.Kind, p.Pod) {
			a.add(p)
		}
	}
}

// findingAction says what to do about a finding, whose message often does.
func findingAction(f nodetopology.Finding) string {
	switch status.Kind(f.Reason) {
	case status.NotAllocated:
		return "do what the message says; if CPUs lack, the pod gets them once there are enough"
	case "UnknownAnnotation", "CPUAnnotationIgnored", "AboveCeiling":
		return "correct what the message names in what the pod is created from, or remove it; docs/agent.md explains " + f.Reason
	case status.AgentImpaired:
		return "remove the cause that the message names; the agent tries again by itself, and reads flags when it starts again"
	}
	return "do what the message says, if anything; docs/agent.md says more about " + f.Reason
}

// neverServes reports whether a node cannot serve a pod even without others.
func (a *assembly) neverServes(node string, pod *corev1.Pod) bool {
	object := a.nodes[node]
	_, t := a.topology(node, object)
	intent, err := api.Parse(pod)
	return err == nil && object != nil && t != nil && tooLarge(ledger.New(t.Index, emptyConfig(object, t)), &intent.Ask) != nil
}

// podOf returns the pod of a node that a finding is about, or nil.
func (a *assembly) podOf(node string, f nodetopology.Finding) *corev1.Pod {
	for _, pod := range a.podsOn[node] {
		if f.Pod != "" && pod.UID == f.Pod {
			return pod
		}
	}
	return nil
}

// withoutAgent adds the pods that ask for CPUs on a node that has no agent.
func (a *assembly) withoutAgent(n *status.Node) {
	for _, pod := range a.podsOn[n.Name] {
		if asks, _ := api.Asks(pod); asks {
			a.ofPod(n, pod, status.NotAllocated, fmt.Sprintf("pod %s asks for CPUs of its own, and its node has no agent that could allocate some", nameOf(pod)),
				"let the agents run on this node, or the pod on another one (nodeSelector)", "describe")
		}
	}
}
