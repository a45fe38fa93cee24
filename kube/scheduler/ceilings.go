package scheduler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
)

// aboveCeiling returns an error message if the pod's exclusive CPUs exceed a ceiling of the
// administrator, otherwise "". It counts the CPUs of the namespace each time from the scheduler's
// list of pods, so the number cannot diverge from the cluster: a pod that is tried again because
// another one was deleted is compared with a list without that one.
func (p *Plugin) aboveCeiling(q *question, pod *corev1.Pod, nodes []fwk.NodeInfo) string {
	if !q.asks || q.ask.Policy == placement.StaticBurst {
		return ""
	}
	ceiling := p.args.Ceilings.For(pod.Namespace).ExclusiveCPUs
	err := ceiling.CheckPod(q.cpus)
	if err == nil && ceiling.PerNamespace != nil {
		err = ceiling.CheckNamespace(q.cpus, p.exclusiveIn(pod.Namespace, nodes, pod.UID))
	}
	if err != nil {
		return fmt.Sprintf("%v (ceilings in the scheduler's configuration)", err)
	}
	return ""
}

// aboveCeilingNow checks the namespace's ceiling again in Reserve: the pods of a group pass
// PreFilter before the first of them is on a node.
func (p *Plugin) aboveCeilingNow(c *cycle, pod *corev1.Pod) string {
	if p.args.Ceilings.For(pod.Namespace).ExclusiveCPUs.PerNamespace == nil {
		return ""
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return err.Error()
	}
	return p.aboveCeiling(&c.question, pod, nodes)
}

// exclusiveIn counts the exclusive CPUs that a namespace's pods have or will be allocated, except for
// one pod.
func (p *Plugin) exclusiveIn(namespace string, nodes []fwk.NodeInfo, except types.UID) (cpus int) {
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if pod := info.GetPod(); pod.Namespace == namespace && pod.UID != except {
				cpus += p.exclusiveOf(pod, node.Node())
			}
		}
	}
	return cpus
}

// exclusiveOf counts the exclusive CPUs of a pod that is on a node, or assumed to be. Its agent allocates
// some time after it was bound.
func (p *Plugin) exclusiveOf(pod *corev1.Pod, node *corev1.Node) int {
	claim, known := p.nodes.claimOf(node, pod)
	if a, allocated := p.shared.reports.Of(node).Allocations()[pod.UID]; allocated {
		return a.CPUs().Len()
	} else if known && len(claim.Containers) > 0 {
		var own cpuset.Set
		for _, c := range claim.Containers {
			own = own.Union(c.CPUs)
		}
		return own.Len()
	}
	q, err := newQuestion(pod)
	if err != nil || !q.asks || q.ask.Policy == placement.StaticBurst || api.HasEnded(pod) {
		return 0
	}
	return q.cpus
}
