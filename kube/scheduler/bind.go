package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
)

// Bind sends the pod's node and the CPUs that Reserve has chosen in one Binding. The API server
// merges the annotations of a Binding into the pod together with the node name (k8s.io/kubernetes
// pkg/registry/core/pod/storage, 1.37). So the pod gets its node and its CPUs at the same moment,
// and an earlier allocation on the pod is overwritten. The Binding names the version of the pod for
// which the CPUs were chosen, and the API server binds only that version: a pod that was edited
// since is scheduled again.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	res, ok := p.shared.reservations.of(pod)
	if !ok && c.question.asks && !p.shared.reports.Named(node).Allocates() {
		return fwk.AsStatus(fmt.Errorf("bind to %s: the pod's reservation there is gone; it is scheduled again", node))
	}
	binding.Annotations = p.added(pod, res.allocation)
	done, err := p.leadership.Begin()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("bind to %s: %w", node, err))
	}
	defer done()
	err = p.carryOut(ctx, pod, binding)
	if err == nil {
		if c.question.asks {
			p.shared.metrics.bind(res)
		}
		for _, warning := range c.question.warnings {
			p.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, eventIgnored, "Binding", "%s",
				api.Shorten(warning, corevalidation.NoteLengthLimit))
		}
	}
	return fwk.AsStatus(err)
}

// eventIgnored is the reason of the event about a pod with an annotation that has no effect.
const eventIgnored = "CPUAnnotationIgnored"

// added returns the annotations that a Binding adds to a pod. allocation is "" if the pod does not
// ask.
func (p *Plugin) added(pod *corev1.Pod, allocation string) map[string]string {
	added := map[string]string{}
	if allocation != "" || pod.Annotations[api.AllocationAnnotation] != "" { // forged: it would take effect if the pod asked later
		added[api.AllocationAnnotation] = allocation
	}
	if fence := p.leadership.Fence(); fence != "" {
		added[api.SchedulerAnnotation] = fence
	}
	return added
}

// exceedsAnnotations returns an error message if a pod's annotations together would be longer than
// the API server accepts, otherwise "". The API server does not check those of a Binding. It would
// reject every later update of the pod and its status, so the pod would keep its CPUs after its
// end.
func exceedsAnnotations(pod *corev1.Pod, added map[string]string) string {
	size := 0
	for key, value := range pod.Annotations {
		if _, replaced := added[key]; !replaced {
			size += len(key) + len(value)
		}
	}
	for key, value := range added {
		size += len(key) + len(value)
	}
	if size <= validation.TotalAnnotationSizeLimitB {
		return ""
	}
	return fmt.Sprintf("the pod's annotations have %d bytes with those that the scheduler adds, and the API server accepts %d: shorten them",
		size, validation.TotalAnnotationSizeLimitB)
}

const (
	// maxObject is the largest object that etcd accepts by default (--max-request-bytes).
	maxObject = 1536 << 10
	// podGrowth and containerGrowth are what a pod and each of its containers may add when the pod
	// is bound and runs: the allocation, conditions, and the status of the container.
	podGrowth, containerGrowth = 32 << 10, 1 << 10
)

// exceedsObject returns an error message if a pod that asks is so large that its status may not be
// written later, otherwise "". It would then keep its CPUs after its end. Fields that the scheduler
// does not see (managedFields) are not counted.
func exceedsObject(pod *corev1.Pod) string {
	containers := len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
	size := pod.Size() + podGrowth + containers*containerGrowth
	if size <= maxObject {
		return ""
	}
	return fmt.Sprintf("the pod may have %d bytes with the status of its %d containers, and the API server stores %d: make it smaller", size, containers, maxObject)
}

func (p *Plugin) sendBinding(ctx context.Context, binding *corev1.Binding) error {
	if apis := p.handle.APICacher(); apis != nil {
		done, err := apis.BindPod(binding)
		if err != nil {
			return err
		}
		return apis.WaitOnFinish(ctx, done)
	}
	return util.BindPod(ctx, p.handle.ClientSet(), binding)
}

const (
	// bindPause is the pause between two attempts to bind a pod or to read whether it is bound.
	bindPause = time.Second
	// quickBinds is the number of attempts without a pause while the pod's version changes.
	quickBinds = 5
)

// carryOut sends a Binding and returns when the outcome is known. An error is not an outcome: the
// answer may be lost, or the API server may answer 409 Conflict because etcd took too long, and the
// Binding may be carried out now or a moment later. CPUs released in that situation could be
// allocated twice. Until carryOut returns, the pod stays assumed and its CPUs stay reserved.
//
// If only the pod's version has changed, the decision remains valid, and the pod is bound at its
// new version. In most cases the change is the scheduler's own update of the pod's status.
func (p *Plugin) carryOut(ctx context.Context, pod *corev1.Pod, binding *corev1.Binding) error {
	if p.leadership.Elected() { // the lease is released only afterwards
		ctx = context.WithoutCancel(ctx)
	}
	for try := 1; ; try++ {
		if err := p.leadership.Check(); err != nil {
			return fmt.Errorf("bind to %s: %w", binding.Target.Name, err)
		}
		sent := p.sendBinding(ctx, binding)
		if sent == nil {
			return nil
		}
		if apierrors.IsRequestEntityTooLargeError(sent) { // etcd has rejected it, and would also reject a change of the version
			return fmt.Errorf("bind to %s: the pod is too large to be changed: %w", binding.Target.Name, sent)
		}
		result, now := p.resolveBinding(ctx, binding, sent)
		switch {
		case result == bound:
			klog.FromContext(ctx).Info("The pod is bound although its Binding returned an error", "pod", klog.KObj(pod), "node", binding.Target.Name, "err", sent)
			return nil
		case result == boundOtherwise:
			return sent
		case !decidesAlike(pod, now):
			return fmt.Errorf("the pod was edited while it was being bound to %s; it is scheduled again: %w", binding.Target.Name, sent)
		case wasRefused(sent) && (try > quickBinds || !isFenced(sent)):
			return sent
		case (!apierrors.IsConflict(sent) || try > quickBinds) && !sleep.For(ctx, bindPause):
			return sent
		}
		binding.ResourceVersion = now.ResourceVersion
	}
}

// decidesAlike reports whether two versions of a pod are equal in everything that users can edit
// and plugins read, so that a decision about one is valid for the other.
func decidesAlike(decided, now *corev1.Pod) bool {
	spec := decided.Spec
	spec.NodeName = "" // already set in the scheduler's copy
	return now.DeletionTimestamp == nil && equality.Semantic.DeepEqual(&spec, &now.Spec) &&
		maps.Equal(decided.Annotations, now.Annotations) && maps.Equal(decided.Labels, now.Labels)
}

// wasRefused reports whether an immediate repetition of the request would fail, too. It does not
// tell whether the request was carried out.
func wasRefused(err error) bool {
	return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsConflict(err) &&
		!apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}

// isFenced reports whether the API server rejected the Binding because it sees another holder of
// the lease. It may see a new holder with a short delay.
func isFenced(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), admission.FenceName(""))
}

// outcome is the result of a Binding.
type outcome int

const (
	unbound        outcome = iota // and the Binding can no longer be carried out
	bound                         // to the node of the Binding, with its CPUs
	boundOtherwise                // or deleted
)

// resolveBinding finds out whether a Binding that failed with error sent was carried out, and makes
// sure that it cannot be carried out later. With "unbound" it returns the current pod.
//
// The API server carries out a Binding only at the version of the pod that it names, and compares
// the version in etcd's transaction (storage/etcd3, GuaranteedUpdate). A Binding is therefore void
// as soon as the pod has another version. If the pod still has that version, resolveBinding changes
// it by a write to the pod's status.
func (p *Plugin) resolveBinding(ctx context.Context, binding *corev1.Binding, sent error) (outcome, *corev1.Pod) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(binding), "node", binding.Target.Name)
	pods := p.handle.ClientSet().CoreV1().Pods(binding.Namespace)
	for {
		pod, err := pods.Get(ctx, binding.Name, metav1.GetOptions{}) // reads from etcd
		if err == nil && isPending(pod, binding) && pod.ResourceVersion == binding.ResourceVersion {
			pod, err = pods.Patch(ctx, binding.Name, types.StrategicMergePatchType, moveVersion(binding), metav1.PatchOptions{}, "status")
			if apierrors.IsConflict(err) {
				continue
			}
		}
		switch {
		case err == nil && !isPending(pod, binding):
			return outcomeOf(pod, binding), nil
		case err == nil:
			return unbound, pod
		case apierrors.IsNotFound(err):
			return boundOtherwise, nil
		}
		logger.Error(err, "Cannot find out whether a pod was bound; its CPUs stay reserved until the API server answers", "binding", sent)
		if !sleep.For(ctx, bindPause) { // the scheduler stops, and all reservations end with it
			return boundOtherwise, nil
		}
	}
}

// moveVersion returns a patch that changes the pod's status, and so its version, if the pod has the
// version that the Binding names.
func moveVersion(binding *corev1.Binding) []byte {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": binding.UID, "resourceVersion": binding.ResourceVersion},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": corev1.PodScheduled, "status": corev1.ConditionFalse, "reason": corev1.PodReasonSchedulerError,
			"message": fmt.Sprintf("binding version %s of the pod to node %s failed", binding.ResourceVersion, binding.Target.Name),
		}}},
	})
	if err != nil {
		panic(err) // maps of strings can always be encoded
	}
	return patch
}

// isPending reports whether this is the pod of the Binding, without a node.
func isPending(pod *corev1.Pod, binding *corev1.Binding) bool {
	return pod.UID == binding.UID && pod.Spec.NodeName == ""
}

// outcomeOf returns the outcome for a pod that is not pending.
func outcomeOf(pod *corev1.Pod, binding *corev1.Binding) outcome {
	if pod.UID != binding.UID || pod.Spec.NodeName != binding.Target.Name {
		return boundOtherwise
	}
	for key, value := range binding.Annotations {
		if pod.Annotations[key] != value {
			return boundOtherwise
		}
	}
	return bound
}
