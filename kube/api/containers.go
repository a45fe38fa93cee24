package api

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// member is a container of a pod and its role.
type member struct {
	*corev1.Container
	role ledger.Role
}

// members returns the containers of a pod: init containers in their order, then the main ones.
// Ephemeral containers have no resources and are not placed.
func members(pod *corev1.Pod) []member {
	all := make([]member, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		all = append(all, member{c, InitRole(c)})
	}
	for i := range pod.Spec.Containers {
		all = append(all, member{&pod.Spec.Containers[i], ledger.RoleMain})
	}
	return all
}

// InitRole returns the role of one of a pod's init containers.
func InitRole(c *corev1.Container) ledger.Role {
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return ledger.RoleSidecar
	}
	return ledger.RoleInit
}

// wholeCPUs returns the limits.cpu of a container if it is a whole number of CPUs, and otherwise 0.
func (m member) wholeCPUs() int64 {
	limit, ok := m.Resources.Limits[corev1.ResourceCPU]
	n := limit.Value()
	if !ok || n < 1 || limit.Cmp(*resource.NewQuantity(n, resource.DecimalSI)) != 0 {
		return 0
	}
	return n
}

// placed returns the containers of a pod that are placed if it asks for CPUs.
func placed(pod *corev1.Pod) []ledger.ContainerAsk {
	var asks []ledger.ContainerAsk
	for _, m := range members(pod) {
		if n := m.wholeCPUs(); n > 0 && n <= cpuset.MaxCPUs {
			asks = append(asks, ledger.ContainerAsk{Name: m.Name, Role: m.role, CPUs: int(n), Request: ownRequest(pod, m)})
		}
	}
	return asks
}

// LimitError reports limits.cpu that contradict what the pod asks for.
type LimitError struct {
	Asking  Setting
	Problem string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s asks for CPUs, but %s", e.Asking, e.Problem)
}

// checkLimits returns an error if the limits contradict the request for CPUs.
func checkLimits(pod *corev1.Pod, ask *ledger.Ask, asking Setting) error {
	var others []string
	for _, m := range members(pod) {
		limit, ok := m.Resources.Limits[corev1.ResourceCPU]
		switch n := m.wholeCPUs(); {
		case n > cpuset.MaxCPUs:
			return &LimitError{asking, fmt.Sprintf("limits.cpu of container %s is %d, and no node has more than %d CPUs: lower it",
				m.Name, n, cpuset.MaxCPUs)}
		case ok:
			others = append(others, m.Name+" has "+limit.String())
		default:
			others = append(others, m.Name+" has none")
		}
	}
	if len(ask.Containers) == 0 {
		return &LimitError{asking, fmt.Sprintf("no container has a whole number of CPUs, 1 or more, as its own limits.cpu (%s): give it to at least one",
			strings.Join(others, ", "))}
	}
	if pod.Spec.Resources == nil {
		return nil
	}
	limit, ok := pod.Spec.Resources.Limits[corev1.ResourceCPU]
	if n := ask.CPUs(); ok && limit.CmpInt64(int64(n)) < 0 {
		return &LimitError{asking, fmt.Sprintf("its containers are to get %d CPUs together, and the pod's own limits.cpu is %s: "+
			"raise it to %d or lower limits.cpu of the containers", n, limit.String(), n)}
	}
	return nil
}

// MilliCPU returns the amount of CPU in a list of resources, rounded up, at most
// [ledger.MaxRequest]. Negative and missing amounts are 0.
func MilliCPU(list corev1.ResourceList) ledger.MilliCPU {
	q := list[corev1.ResourceCPU]
	if q.Sign() <= 0 {
		return 0
	}
	if q.CmpInt64(int64(ledger.MaxRequest)/1000) >= 0 {
		return ledger.MaxRequest
	}
	return ledger.MilliCPU(q.MilliValue())
}

// EffectiveRequest returns the CPU request of a pod as kube-scheduler counts it, with overhead,
// pod-level resources and init containers. While a resize is pending, the larger request counts.
func EffectiveRequest(pod *corev1.Pod) ledger.MilliCPU {
	return MilliCPU(helper.PodRequests(pod, helper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
		UseDRANodeAllocatableResourceClaimStatus:       true,
	}))
}

// BatchRequest returns the request of a pod for [BatchCPU], as kube-scheduler counts it.
func BatchRequest(pod *corev1.Pod) int64 {
	request := helper.PodRequests(pod, helper.PodResourcesOptions{})[BatchCPU]
	return request.Value()
}

// ownRequest returns the request of one container; while a resize is pending, the larger one.
func ownRequest(pod *corev1.Pod, m member) ledger.MilliCPU {
	if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) == 0 {
		return MilliCPU(m.Resources.Requests) // the kubelet has not started the pod
	}
	alone := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{*m.Container}}}
	alone.Status.Conditions = pod.Status.Conditions
	alone.Status.ContainerStatuses = pod.Status.ContainerStatuses
	alone.Status.InitContainerStatuses = pod.Status.InitContainerStatuses
	return EffectiveRequest(alone)
}

// sharedRequest returns what a pod requests in addition to its placed containers: see the package
// comment.
func sharedRequest(pod *corev1.Pod, own []ledger.ContainerAsk) ledger.MilliCPU {
	if len(own) == 0 {
		return EffectiveRequest(pod)
	}
	var shared ledger.MilliCPU
	if members := len(pod.Spec.Containers) + len(pod.Spec.InitContainers); members > len(own) || pod.Spec.Overhead != nil {
		shared = EffectiveRequest(withoutContainers(pod, own))
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

// withoutContainers returns the pod without the placed containers and without its pod-level
// settings except for the overhead.
func withoutContainers(pod *corev1.Pod, own []ledger.ContainerAsk) *corev1.Pod {
	without := func(all []corev1.Container) []corev1.Container {
		return slices.DeleteFunc(slices.Clone(all), func(c corev1.Container) bool {
			return slices.ContainsFunc(own, func(o ledger.ContainerAsk) bool { return o.Name == c.Name })
		})
	}
	rest := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:     without(pod.Spec.Containers),
		InitContainers: without(pod.Spec.InitContainers),
		Overhead:       pod.Spec.Overhead,
	}}
	rest.Status = pod.Status
	rest.Status.Resources, rest.Status.AllocatedResources = nil, nil
	return rest
}

// Reserved returns the amount of CPU that a node reserves for the system: its capacity minus what
// is allocatable.
func Reserved(node *corev1.Node) ledger.MilliCPU {
	return ledger.MilliCPU(max(0, node.Status.Capacity.Cpu().MilliValue()-node.Status.Allocatable.Cpu().MilliValue()))
}
