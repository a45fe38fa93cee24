package api

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// member is a container of a pod and its role.
type member struct {
	*corev1.Container
	role ledger.Role
}

// members are the containers of a pod: init containers in their order, then the main ones.
// Ephemeral containers have no resources and live in the shared CPUs.
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

// wholeCPUs returns n of a container whose limits.cpu is a whole number of CPUs, and 0 of any
// other.
func (m member) wholeCPUs() int64 {
	limit, ok := m.Resources.Limits[corev1.ResourceCPU]
	n := limit.Value()
	if !ok || n < 1 || limit.Cmp(*resource.NewQuantity(n, resource.DecimalSI)) != 0 {
		return 0
	}
	return n
}

// placed returns the containers of a pod that get CPUs of their own choice if it asks.
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
	Asking  Word
	Problem string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s asks for CPUs, but %s", e.Asking, e.Problem)
}

// checkLimits says whether a pod can be served as it is written.
func checkLimits(pod *corev1.Pod, ask *ledger.Ask, asking Word) error {
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
