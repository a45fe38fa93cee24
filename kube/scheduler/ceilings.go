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

// aboveCeiling says which ceiling of the administrator a pod would break that asks for
// CPUs of its own, "" when it breaks none. What its namespace has is counted anew from the
// scheduler's own list of pods: like the books it cannot drift, and a pod that is tried
// again because another one has gone is judged by a list without that one.
func (p *Plugin) aboveCeiling(q *question, pod *corev1.Pod, nodes []fwk.NodeInfo) string {
	if !q.asks || q.ask.Policy == placement.StaticBurst {
		return ""
	}
	most := p.args.Ceilings.For(pod.Namespace).ExclusiveCPUs
	err := most.CheckPod(q.cpus)
	if err == nil && most.PerNamespace != nil {
		err = most.CheckNamespace(q.cpus, p.exclusiveIn(pod.Namespace, nodes, pod.UID))
	}
	if err != nil {
		return fmt.Sprintf("%v (ceilings in the scheduler's configuration)", err)
	}
	return ""
}

// aboveCeilingNow asks once more when a node has been chosen: pods of a group are looked at
// before the first of them has anything reserved.
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

// exclusiveIn counts the CPUs that the pods of a namespace have for themselves or have
// reserved, but for one pod.
func (p *Plugin) exclusiveIn(namespace string, nodes []fwk.NodeInfo, without types.UID) (cpus int) {
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if pod := info.GetPod(); pod.Namespace == namespace && pod.UID != without {
				cpus += p.exclusiveOf(pod, node.Node())
			}
		}
	}
	return cpus
}

func (p *Plugin) exclusiveOf(pod *corev1.Pod, node *corev1.Node) int {
	claim, known := p.nodes.claimOf(node, pod)
	if res, reserved := p.shared.reservations.of(pod); reserved {
		claim = res.claim
	} else if _, allocated := pod.Annotations[api.AllocationAnnotation]; allocated && !known {
		claim, _ = p.shared.signing.keys.Claim(pod, nil) // an allocation that cannot be believed gives no CPUs
	}
	var own cpuset.Set
	for _, c := range claim.Containers {
		own = own.Union(c.CPUs)
	}
	return own.Len()
}
