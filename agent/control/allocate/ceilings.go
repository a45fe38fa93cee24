package allocate

import (
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/pods"
)

// aboveCeiling returns an error if a pod asks for more exclusive CPUs than the administrator allows.
// An agent knows only those pods of a namespace that are on its node.
func (c *Controller) aboveCeiling(p *pods.Pods, pod *corev1.Pod, cpus int) error {
	ceiling := p.Ceiling(pod.Namespace).ExclusiveCPUs
	inUse := 0
	for i := range p.All {
		if other := p.All[i].Object; other.Namespace == pod.Namespace && other.UID != pod.UID {
			inUse += c.allocated[other.UID].CPUs().Len()
		}
	}
	if err := ceiling.CheckPod(cpus); err != nil {
		return err
	}
	return ceiling.CheckNamespace(cpus, inUse)
}
