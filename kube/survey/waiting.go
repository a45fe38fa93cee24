package survey

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/api"
)

// waiting adds the pods that ask for CPUs and have no node, and a problem for each that no change
// of other pods lets run. The annotations of a pod that asks can be wrong; then the scheduler's
// message says so.
func (a *assembly) waiting() {
	room := a.room()
	for _, pod := range a.podsOn[""] {
		intent, err := api.Parse(pod)
		if err == nil && !intent.Asks() {
			continue
		}
		w := a.waitingPod(pod, &intent)
		a.report.Waiting = append(a.report.Waiting, w)
		p := status.Problem{Kind: status.NeverPlaced, Pod: w.Pod}
		switch {
		case w.Reason != corev1.PodReasonUnschedulable: // its scheduler may accept it
			continue
		case err != nil:
			p.Message, p.Action = err.Error(), "correct this in what the pod is created from, then "+placeAgain(pod)
			p.Command = fmt.Sprintf("kubectl -n %s delete pod %s", pod.Namespace, pod.Name)
		default:
			p.Message, p.Action = room.refuses(&intent.Ask), "create the pod with lower limits, or add a larger node"
		}
		if p.Message != "" {
			a.add(p)
		}
	}
}

// waitingPod returns a pod that has no node.
func (a *assembly) waitingPod(pod *corev1.Pod, intent *api.Intent) status.Waiting {
	w := status.Waiting{Pod: nameOf(pod), Scheduler: pod.Spec.SchedulerName, CPUs: intent.Ask.CPUs(), Policy: intent.Ask.Policy,
		Seconds: max(0, a.Time.Sub(pod.CreationTimestamp.Time)).Seconds()}
	if c := scheduled(pod); c.Status != corev1.ConditionTrue {
		w.Reason, w.Message = c.Reason, c.Message
	}
	return w
}

// scheduled returns the condition PodScheduled of a pod, the zero value if it has none.
func scheduled(pod *corev1.Pod) (found corev1.PodCondition) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			found = c
		}
	}
	return found
}
