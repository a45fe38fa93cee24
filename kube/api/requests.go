package api

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"pinfold.dev/pinfold/core/ledger"
)

// counts computes how kube-scheduler counts the CPU requests of a pod's containers. While a resize
// is pending, the larger request counts.
//
// [helper.PodRequests] defines the result. It searches the status of each container among those of
// all, so it is given one container that sums up the others.
type counts struct {
	pod        *corev1.Pod
	statuses   map[string]*corev1.ContainerStatus // by container
	infeasible bool                               // the resize
}

func newCounts(pod *corev1.Pod) counts {
	c := counts{pod: pod, infeasible: helper.IsPodResizeInfeasible(pod)}
	c.statuses = make(map[string]*corev1.ContainerStatus, len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses))
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			c.statuses[list[i].Name] = &list[i]
		}
	}
	return c
}

// of returns the request of a container in its specification, what the kubelet has allocated for
// it, and what is in force.
func (c *counts) of(m member) (spec, allocated, actuated ledger.MilliCPU) {
	spec = MilliCPU(m.Resources.Requests)
	if !c.infeasible {
		allocated, actuated = spec, spec
	}
	status := c.statuses[m.Name]
	if status != nil && status.AllocatedResources != nil {
		allocated = MilliCPU(status.AllocatedResources)
		actuated = allocated
	}
	if status != nil && status.Resources != nil && status.Resources.Requests != nil {
		actuated = MilliCPU(status.Resources.Requests)
	}
	return spec, allocated, actuated
}

// own returns the request of one container.
func (c *counts) own(m member) ledger.MilliCPU {
	spec, allocated, actuated := c.of(m)
	if c.infeasible && len(c.statuses) > 0 {
		return max(allocated, actuated)
	}
	return max(spec, allocated, actuated)
}

// together returns the request of the pod, with overhead and pod-level resources, if it had these
// containers only.
func (c *counts) together(list []member) ledger.MilliCPU {
	var spec, allocated, actuated ledger.Phases[ledger.MilliCPU]
	for _, m := range list {
		s, l, t := c.of(m)
		spec.Add(m.role, s)
		allocated.Add(m.role, l)
		actuated.Add(m.role, t)
	}
	pod := *c.pod
	pod.Spec.InitContainers, pod.Status.InitContainerStatuses = nil, nil
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpuList(spec.Largest())}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{AllocatedResources: cpuList(allocated.Largest()),
		Resources: &corev1.ResourceRequirements{Requests: cpuList(actuated.Largest())}}}
	return MilliCPU(helper.PodRequests(&pod, helper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
		UseDRANodeAllocatableResourceClaimStatus:       true,
	}))
}

func cpuList(amount ledger.MilliCPU) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(amount), resource.DecimalSI)}
}

// EffectiveRequest returns the CPU request of a pod as kube-scheduler counts it, with overhead,
// pod-level resources and init containers.
func EffectiveRequest(pod *corev1.Pod) ledger.MilliCPU {
	c := newCounts(pod)
	return c.together(members(pod))
}

// sharedRequest returns what a pod requests of the shared CPUs, in addition to its placed
// containers: what the other containers request in the phase in which they request most, plus the
// pod overhead. With a pod-level request, it is at least what the long-running placed containers
// leave of that. So the sum is never less than what kube-scheduler counts. own is empty if the pod
// does not ask.
func sharedRequest(pod *corev1.Pod, own []ledger.ContainerAsk) ledger.MilliCPU {
	if len(own) == 0 {
		return EffectiveRequest(pod)
	}
	all := members(pod)
	var shared ledger.MilliCPU
	if len(all) > len(own) || pod.Spec.Overhead != nil {
		shared = requestOfRest(pod, all, own)
	}
	if pod.Spec.Resources == nil {
		return shared
	}
	if _, ok := pod.Spec.Resources.Requests[corev1.ResourceCPU]; !ok {
		return shared
	}
	var lasting ledger.MilliCPU
	for _, c := range own {
		if c.Role != ledger.RoleInit {
			lasting += c.Request
		}
	}
	return max(shared, EffectiveRequest(pod)-lasting)
}

// requestOfRest returns the request of a pod without its placed containers own and its pod-level
// settings, except for the overhead.
func requestOfRest(pod *corev1.Pod, all []member, own []ledger.ContainerAsk) ledger.MilliCPU {
	isPlaced := make(map[string]bool, len(own))
	for _, c := range own {
		isPlaced[c.Name] = true
	}
	rest := slices.DeleteFunc(all, func(m member) bool { return isPlaced[m.Name] })
	without := *pod
	without.Spec.Resources, without.Status.Resources, without.Status.AllocatedResources = nil, nil, nil
	c := newCounts(&without)
	return c.together(rest)
}
