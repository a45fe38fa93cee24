package allocate

import (
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/kube/api"
)

// SetCeilings replaces the ceilings. Pods keep what they have.
func (c *Controller) SetCeilings(ceilings api.Ceilings) {
	c.ceilings, c.refused = ceilings, refusals{}
}

// aboveCeiling returns an error if a pod asks for more exclusive CPUs than the administrator allows.
// An agent knows only those pods of a namespace that are on its node.
func (c *Controller) aboveCeiling(r *groups.Round, pod *corev1.Pod, cpus int) error {
	ceiling := c.ceilings.For(pod.Namespace).ExclusiveCPUs
	inUse := 0
	for i := range r.Pods {
		if other := r.Pods[i].Object; other.Namespace == pod.Namespace && other.UID != pod.UID {
			inUse += c.allocated[other.UID].CPUs().Len()
		}
	}
	if err := ceiling.CheckPod(cpus); err != nil {
		return err
	}
	return ceiling.CheckNamespace(cpus, inUse)
}
