package api

import (
	"fmt"
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

// isPlaced reports whether a container is placed if its pod asks for CPUs.
func (m member) isPlaced() bool {
	n := m.wholeCPUs()
	return n > 0 && n <= cpuset.MaxCPUs
}

// placed returns the containers of a pod that are placed if it asks for CPUs.
func placed(pod *corev1.Pod) []ledger.ContainerAsk {
	var asks []ledger.ContainerAsk
	counts := newCounts(pod)
	for _, m := range members(pod) {
		if m.isPlaced() {
			asks = append(asks, ledger.ContainerAsk{Name: m.Name, Role: m.role, CPUs: int(m.wholeCPUs()), Request: counts.own(m)})
		}
	}
	return asks
}

// MostPlaced is how many containers of a pod may get CPUs or a confinement. Each costs a search for
// its CPUs, and a part of the allocation, whose text fits in [MaxAllocation].
const MostPlaced = 64

// ErrTooMany is why a pod asks in vain whatever the node.
var ErrTooMany = fmt.Errorf("and no node has more than %d CPUs", cpuset.MaxCPUs)

// mostNamed is how many containers a message names.
const mostNamed = 8

// checkLimits returns an error if the limits contradict the request for CPUs.
func checkLimits(pod *corev1.Pod, ask *ledger.Ask, asking setting) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s asks for CPUs, but %w", asking, fmt.Errorf(format, args...))
	}
	if n := len(ask.Containers); n > MostPlaced {
		return refuse("%d of its containers have a whole number of CPUs as limits.cpu: at most %d may, "+
			"so split the pod or give the others a fraction", n, MostPlaced)
	}
	all := members(pod)
	for _, m := range all {
		if n := m.wholeCPUs(); n > cpuset.MaxCPUs {
			return refuse("limits.cpu of container %s is %d, %w: lower it", m.Name, n, ErrTooMany)
		}
	}
	if len(ask.Containers) == 0 {
		return refuse("no container has a whole number of CPUs, 1 or more, as its own limits.cpu (%s): give it to at least one",
			describeLimits(all))
	}
	if pod.Spec.Resources == nil {
		return nil
	}
	limit, ok := pod.Spec.Resources.Limits[corev1.ResourceCPU]
	if n := ask.CPUs(); ok && limit.CmpInt64(int64(n)) < 0 {
		return refuse("its containers are to get %d CPUs together, and the pod's own limits.cpu is %s: "+
			"raise it to %d or lower limits.cpu of the containers", n, limit.String(), n)
	}
	return nil
}

// describeLimits names the first containers and their limits.
func describeLimits(all []member) string {
	var texts []string
	for _, m := range all[:min(len(all), mostNamed)] {
		if limit, ok := m.Resources.Limits[corev1.ResourceCPU]; ok {
			texts = append(texts, m.Name+" has "+limit.String())
		} else {
			texts = append(texts, m.Name+" has none")
		}
	}
	if more := len(all) - mostNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
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

// BatchRequest returns the request of a pod for [BatchCPU], as kube-scheduler counts it.
func BatchRequest(pod *corev1.Pod) int64 {
	request := helper.PodRequests(pod, helper.PodResourcesOptions{})[BatchCPU]
	return request.Value()
}

// Reserved returns the amount of CPU that a node reserves for the system: its capacity minus what
// is allocatable.
func Reserved(node *corev1.Node) ledger.MilliCPU {
	return ledger.MilliCPU(max(0, node.Status.Capacity.Cpu().MilliValue()-node.Status.Allocatable.Cpu().MilliValue()))
}

// Condition returns the condition of a node with the given type, the zero value if it has none.
func Condition(node *corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}
