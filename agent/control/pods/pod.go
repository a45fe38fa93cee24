package pods

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
)

// Pod is a pod of the API server and what decisions need of it.
type Pod struct {
	Object *corev1.Pod
	// Plan is the input of package nodeplan, without class, period, burst and what is allocated: its claim
	// has no CPUs.
	Plan        nodeplan.Pod
	Annotations Annotations
	// AboveCeiling describes the annotations that exceed the ceilings.
	AboveCeiling []string
	// Unknown describes annotations and labels that may be misspelled, and Ignored settings that
	// cannot be read, or have no effect.
	Unknown, Ignored []string
	// IDs are the ids of running containers by name, from the pod's status.
	IDs map[string]string
	// Resizing is set while the kubelet may be changing a limit. The plan has the smaller one then.
	Resizing bool
	// Departed is set when the API server has the pod no longer and its cgroup still exists.
	Departed bool
	// denied is set when the pod claims to be the mirror pod of a static pod and the kubelet has
	// answered that it runs no such static pod.
	denied bool
	ask    ledger.Ask // of its annotations, if they are valid
}

// Annotations are the settings in a pod's annotations and labels, within the ceilings.
type Annotations struct {
	Class  qos.Class
	Period time.Duration
	Burst  burst.Policy
}

func newPod(object *corev1.Pod) Pod {
	claim, _, _ := api.Allocations(nil).Claim(object, nil)
	intent, err := api.Parse(object)
	s := Pod{Object: object, IDs: map[string]string{}, Unknown: api.Unknown(object)}
	s.Plan = nodeplan.Pod{
		ID:       ledger.PodID(object.UID),
		Tier:     api.TierOf(object),
		Claim:    claim,
		Overhead: milli(object.Spec.Overhead),
	}
	if s.Ignored = intent.Warnings; err != nil {
		s.Ignored = []string{err.Error()}
	} else {
		s.Annotations = Annotations{Class: intent.Class, Period: intent.Period, Burst: intent.Burst}
		s.ask = intent.Ask
	}
	if object.Spec.Resources != nil {
		s.Plan.Limit = s.limit(object.Spec.Resources.Limits, object.Status.Resources)
	}
	s.addContainers()
	return s
}

// limit returns the CPU limit that is in force. A pod's spec has the limit that its author wants:
// the kubelet may not have seen it yet, defer it, or refuse it for good. Until it has carried it
// out, the status has the limit in force; while it may be doing that, the smaller of the two
// counts. The kubelet computes the limit from a quota in whole microseconds, so it may be lower by
// a thousandth of a CPU.
func (s *Pod) limit(want corev1.ResourceList, actual *corev1.ResourceRequirements) ledger.MilliCPU {
	limit := milli(want)
	changing, waiting := resizeOf(s.Object)
	if !changing && !waiting || actual == nil {
		return limit
	}
	inForce := milli(actual.Limits)
	if inForce == 0 || inForce == limit || inForce == limit-1 {
		return limit
	}
	if changing {
		s.Resizing = true
		return min(limit, inForce)
	}
	return inForce
}

// Workload returns the kind and name of what made a pod. A ReplicaSet counts for its Deployment,
// whose name it has with a hash.
func (s *Pod) Workload() string {
	pod := s.Object
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return "Pod/" + pod.Name
	}
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; owner.Kind == "ReplicaSet" && hash != "" {
		if name, isDeployment := strings.CutSuffix(owner.Name, "-"+hash); isDeployment {
			return "Deployment/" + name
		}
	}
	return owner.Kind + "/" + owner.Name
}

// depart makes the state that of a pod that the API server has no longer. It has no CPUs of its
// own, and keeps its limits until the kubelet has ended its containers, which may take the whole
// grace period after a forced deletion.
func (s Pod) depart() Pod {
	s.Departed, s.AboveCeiling, s.Unknown, s.Ignored = true, nil, nil, nil
	s.Plan.Claim = ledger.Claim{}
	return s
}

// Alike reports whether two versions of a pod are the same input for the state machine.
func Alike(a, b *corev1.Pod) bool {
	x, y := newPod(a), newPod(b)
	return a.UID == b.UID && api.BoundAt(a) == api.BoundAt(b) && mirrored(a) == mirrored(b) && api.HasEnded(a) == api.HasEnded(b) && x.Resizing == y.Resizing &&
		slices.Equal(x.Unknown, y.Unknown) && slices.Equal(x.Ignored, y.Ignored) && maps.Equal(x.IDs, y.IDs) && x.Annotations == y.Annotations && reflect.DeepEqual(x.ask, y.ask) && reflect.DeepEqual(x.Plan, y.Plan)
}

// MayResize reports whether a resize of the pod waits, or may be under way.
func (s *Pod) MayResize() bool {
	changing, waiting := resizeOf(s.Object)
	return changing || waiting
}

func (s *Pod) addContainers() {
	spec, status := &s.Object.Spec, &s.Object.Status
	inits, mains, ephemeral := byName(status.InitContainerStatuses), byName(status.ContainerStatuses), byName(status.EphemeralContainerStatuses)
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		s.add(nodeplan.Container{Name: c.Name, Role: api.InitRole(c)}, c.Resources, inits[c.Name])
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		s.add(nodeplan.Container{Name: c.Name}, c.Resources, mains[c.Name])
	}
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		s.add(nodeplan.Container{Name: c.Name, Ephemeral: true}, c.Resources, ephemeral[c.Name])
	}
}

func byName(statuses []corev1.ContainerStatus) map[string]*corev1.ContainerStatus {
	all := make(map[string]*corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		all[statuses[i].Name] = &statuses[i]
	}
	return all
}

// add adds a container. The status is nil if the kubelet has not reported any.
func (s *Pod) add(c nodeplan.Container, r corev1.ResourceRequirements, status *corev1.ContainerStatus) {
	c.Limit, c.Request = milli(r.Limits), milli(r.Requests)
	if status != nil {
		c.Limit = s.limit(r.Limits, status.Resources)
		c.Phase = s.phase(&c, status.State)
		if _, id, ok := strings.Cut(status.ContainerID, "://"); ok && c.Phase == nodeplan.Running {
			s.IDs[c.Name] = id
		}
	}
	if api.HasEnded(s.Object) && c.Phase != nodeplan.Running { // others than the kubelet can end pods, too
		c.Phase = nodeplan.Ended
	}
	s.Plan.Containers = append(s.Plan.Containers, c)
}

// phase returns the phase of a container in the given state. A terminated container that will be
// restarted is Waiting.
func (s *Pod) phase(c *nodeplan.Container, state corev1.ContainerState) nodeplan.Phase {
	switch {
	case state.Running != nil:
		return nodeplan.Running
	case state.Terminated == nil:
		return nodeplan.Waiting
	}
	succeeded := state.Terminated.ExitCode == 0
	policy := s.Object.Spec.RestartPolicy
	switch {
	case c.Ephemeral, c.Role == ledger.RoleInit && succeeded, c.Role != ledger.RoleSidecar && policy == corev1.RestartPolicyNever,
		c.Role == ledger.RoleMain && succeeded && policy == corev1.RestartPolicyOnFailure:
		return nodeplan.Ended
	}
	return nodeplan.Waiting
}

// Limits returns the limits of the pod and its containers, which a resize changes.
func (s *Pod) Limits() []ledger.MilliCPU {
	all := []ledger.MilliCPU{s.Plan.Limit}
	for i := range s.Plan.Containers {
		all = append(all, s.Plan.Containers[i].Limit)
	}
	return all
}

// Shares returns the CPU weight of the pod that the kubelet sets, in the unit of version 1.
func (s *Pod) Shares() uint64 { return uint64(api.EffectiveRequest(s.Object)) * 1024 / 1000 }

// Name returns NAMESPACE/NAME.
func (s *Pod) Name() string { return nameOf(s.Object).String() }

// resizeOf reports whether the kubelet may be carrying out a change of the pod's spec, and whether
// one waits until the kubelet accepts it. Neither says that the change concerns CPUs.
func resizeOf(pod *corev1.Pod) (changing, waiting bool) {
	seen := pod.Status.ObservedGeneration
	changing = seen != 0 && seen < pod.Generation
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			changing = changing || c.Type == corev1.PodResizeInProgress
			waiting = waiting || c.Type == corev1.PodResizePending
		}
	}
	return changing, waiting
}

// milli returns the amount of CPU in a list of resources, rounded up as the kubelet does, and 0 for
// an invalid amount.
func milli(list corev1.ResourceList) ledger.MilliCPU {
	if amount := api.MilliCPU(list); amount < ledger.MaxRequest {
		return amount
	}
	return 0
}
