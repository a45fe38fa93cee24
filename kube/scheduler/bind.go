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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
)

// Bind sends the pod's node, and with it the CPUs that Reserve has chosen, in one
// Binding. The API server merges the annotations of a Binding into the pod together
// with the node name (k8s.io/kubernetes pkg/registry/core/pod/storage, 1.37), so
// there is no moment at which a pod has a node and not its CPUs, and an allocation
// that stood on the pod before is overwritten. The Binding names the version of the pod
// that was decided about, and the API server binds no other: a pod that was edited since
// is decided about again.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	c, err := p.cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	res, ok := p.shared.reservations.of(pod)
	if ok {
		binding.Annotations = map[string]string{api.AllocationAnnotation: res.allocation}
	} else if c.question.asks {
		return fwk.AsStatus(fmt.Errorf("bind to %s: nothing is reserved for this pod there any more; it is scheduled again", node))
	} else if pod.Annotations[api.AllocationAnnotation] != "" { // forged: it would count once the pod asks
		binding.Annotations = map[string]string{api.AllocationAnnotation: ""}
	}
	if fence := p.leadership.fence(); fence != "" {
		metav1.SetMetaDataAnnotation(&binding.ObjectMeta, api.SchedulerAnnotation, fence)
	}
	done, err := p.leadership.begin()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("bind to %s: %w", node, err))
	}
	defer done()
	err = p.carryOut(ctx, pod, binding)
	if err == nil {
		for _, warning := range c.question.warnings {
			warn(p.handle, pod, EventIgnored, "Binding", warning)
		}
	}
	return fwk.AsStatus(err)
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
	// bindPause is between two attempts to bind a pod, or to learn what became of one.
	bindPause = time.Second
	// quickBinds is how often a pod is bound again at once because its version had moved on.
	quickBinds = 5
)

// carryOut returns when it is known whether the pod is bound as the Binding says. An
// error does not tell: the answer may be lost, the API server answers 409 Conflict when
// etcd takes too long, and the Binding may be carried out, now or in a moment. Were its
// CPUs given back then, they would be given away a second time. As long as this does not
// return, the pod stays assumed and its CPUs reserved.
//
// A version of the pod that has moved on is no reason to decide again where nothing has
// changed that decides: mostly it is the scheduler's own writing of the pod's status. The
// pod is then bound at its new version.
func (p *Plugin) carryOut(ctx context.Context, pod *corev1.Pod, binding *corev1.Binding) error {
	if p.leadership.elected() { // it outlives the end of the scheduler's work, see Leadership.end
		ctx = context.WithoutCancel(ctx)
	}
	for try := 1; ; try++ {
		if err := p.leadership.check(); err != nil {
			return fmt.Errorf("bind to %s: %w", binding.Target.Name, err)
		}
		sent := p.sendBinding(ctx, binding)
		if sent == nil {
			return nil
		}
		result, now := p.resolveBinding(ctx, binding, sent)
		switch {
		case result == bound:
			klog.FromContext(ctx).Info("The binding succeeded in spite of its error", "pod", klog.KObj(pod), "node", binding.Target.Name, "err", sent)
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

// decidesAlike reports whether a decision about one version of a pod is one about the
// other: whether all that users can edit and that plugins look at is the same.
func decidesAlike(decided, now *corev1.Pod) bool {
	spec := decided.Spec
	spec.NodeName = "" // the scheduler's copy has it already
	return now.DeletionTimestamp == nil && equality.Semantic.DeepEqual(&spec, &now.Spec) &&
		maps.Equal(decided.Annotations, now.Annotations) && maps.Equal(decided.Labels, now.Labels)
}

// wasRefused reports whether a request would be refused again, so that it is not worth
// sending it again at once. It does not tell whether the request was carried out.
func wasRefused(err error) bool {
	return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsConflict(err) &&
		!apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}

// isFenced reports whether the API server sees another holder of the lease. It may see a
// new one a moment late.
func isFenced(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), admission.FenceName(""))
}

// outcome is what has become of a pod that was to be bound.
type outcome int

const (
	unbound        outcome = iota // and the Binding cannot be carried out any more
	bound                         // to this node, with these CPUs
	boundOtherwise                // or gone
)

// resolveBinding finds out what has become of a Binding, and makes sure that it is carried out now
// or never. With "unbound" comes the pod as it is.
//
// The API server carries out a Binding only at the version of the pod that it names, and
// the version is compared in etcd's transaction (storage/etcd3, GuaranteedUpdate). So a
// Binding is void as soon as the pod has another version. Where it still has that one, a
// write to its status moves it on.
func (p *Plugin) resolveBinding(ctx context.Context, binding *corev1.Binding, sent error) (outcome, *corev1.Pod) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(binding), "node", binding.Target.Name)
	pods := p.handle.ClientSet().CoreV1().Pods(binding.Namespace)
	for {
		pod, err := pods.Get(ctx, binding.Name, metav1.GetOptions{}) // a read of etcd's present state
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
		logger.Error(err, "It is not known whether a pod was bound; its CPUs stay reserved until the API server tells", "binding", sent)
		if !sleep.For(ctx, bindPause) { // the scheduler ends, and with it all that is reserved
			return boundOtherwise, nil
		}
	}
}

// moveVersion is a patch of the pod's status that changes it, whatever it is, if the pod
// has the version that the Binding names.
func moveVersion(binding *corev1.Binding) []byte {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": binding.UID, "resourceVersion": binding.ResourceVersion},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": corev1.PodScheduled, "status": corev1.ConditionFalse, "reason": corev1.PodReasonSchedulerError,
			"message": fmt.Sprintf("binding version %s of the pod to node %s failed", binding.ResourceVersion, binding.Target.Name),
		}}},
	})
	if err != nil {
		panic(err) // there is nothing in it that JSON cannot say
	}
	return patch
}

// isPending reports whether the pod that was to be bound has no node.
func isPending(pod *corev1.Pod, binding *corev1.Binding) bool {
	return pod.UID == binding.UID && pod.Spec.NodeName == ""
}

// outcomeOf is about a pod that is not pending.
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
