package control

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
)

func newPodState(object *corev1.Pod, m *topology.Machine, keys *api.Keys) podState {
	claim, allocation, err := keys.ClaimAndAllocation(object, m)
	intent, parseErr := api.Parse(object)
	s := podState{object: object, problem: err, ids: map[string]string{}, resizing: isResizing(object),
		unknown: api.Unknown(object)}
	s.plan = nodeplan.Pod{
		ID:       ledger.PodID(object.UID),
		Tier:     api.TierOf(object),
		Claim:    claim,
		Overhead: milli(object.Spec.Overhead),
	}
	if parseErr == nil { // what cannot be read has no effect; the scheduler has said so
		s.words = words{class: intent.Class, period: intent.Period, burst: intent.Burst}
	}
	s.words.asks = allocation != nil
	if object.Spec.Resources != nil {
		s.plan.Limit = milli(object.Spec.Resources.Limits)
	}
	s.addContainers()
	return s
}

// Alike reports whether two versions of a pod are one to the state machine. It may be
// called at any time.
func (c *Control) Alike(a, b *corev1.Pod) bool {
	x, y := newPodState(a, nil, c.config.Keys), newPodState(b, nil, c.config.Keys)
	return a.UID == b.UID && mirrored(a) == mirrored(b) && api.HasEnded(a) == api.HasEnded(b) && x.resizing == y.resizing &&
		fmt.Sprint(x.problem) == fmt.Sprint(y.problem) && slices.Equal(x.unknown, y.unknown) && maps.Equal(x.ids, y.ids) && x.words == y.words && reflect.DeepEqual(x.plan, y.plan)
}

func (s *podState) addContainers() {
	spec, status := &s.object.Spec, &s.object.Status
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		s.add(nodeplan.Container{Name: c.Name, Role: api.InitRole(c)}, c.Resources, status.InitContainerStatuses)
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		s.add(nodeplan.Container{Name: c.Name}, c.Resources, status.ContainerStatuses)
	}
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		s.add(nodeplan.Container{Name: c.Name, Ephemeral: true}, c.Resources, status.EphemeralContainerStatuses)
	}
}

func (s *podState) add(c nodeplan.Container, r corev1.ResourceRequirements, statuses []corev1.ContainerStatus) {
	c.Limit, c.Request = milli(r.Limits), milli(r.Requests)
	for i := range statuses {
		status := &statuses[i]
		if status.Name != c.Name {
			continue
		}
		c.Phase = s.phase(&c, status.State)
		if _, id, ok := strings.Cut(status.ContainerID, "://"); ok && c.Phase == nodeplan.Running {
			s.ids[c.Name] = id
		}
	}
	if api.HasEnded(s.object) {
		c.Phase = nodeplan.Ended
	}
	s.plan.Containers = append(s.plan.Containers, c)
}

// phase says whether a container runs, will run, or is done.
func (s *podState) phase(c *nodeplan.Container, state corev1.ContainerState) nodeplan.Phase {
	switch {
	case state.Running != nil:
		return nodeplan.Running
	case state.Terminated == nil:
		return nodeplan.Waiting
	}
	well := state.Terminated.ExitCode == 0
	policy := s.object.Spec.RestartPolicy
	switch {
	case c.Ephemeral, c.Role == ledger.RoleInit && well, c.Role != ledger.RoleSidecar && policy == corev1.RestartPolicyNever,
		c.Role == ledger.RoleMain && well && policy == corev1.RestartPolicyOnFailure:
		return nodeplan.Ended
	}
	return nodeplan.Waiting
}

// isResizing reports whether the kubelet has yet to take in, to accept or to carry
// out a change of the pod.
func isResizing(pod *corev1.Pod) bool {
	if seen := pod.Status.ObservedGeneration; seen != 0 && seen < pod.Generation {
		return true
	}
	for _, condition := range pod.Status.Conditions {
		if (condition.Type == corev1.PodResizePending || condition.Type == corev1.PodResizeInProgress) &&
			condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// milli returns the amount of CPU in a list of resources. An absurd amount, which no quota can
// express, counts as none.
func milli(list corev1.ResourceList) ledger.MilliCPU {
	if amount := api.MilliCPU(list); amount < ledger.MaxRequest {
		return amount
	}
	return 0
}
