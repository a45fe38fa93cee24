package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"pinfold.dev/pinfold/kube/api"
)

// Bind sends the pod's node, and with it the CPUs that Reserve has chosen, in one
// Binding. The API server merges the annotations of a Binding into the pod together
// with the node name (k8s.io/kubernetes pkg/registry/core/pod/storage, 1.37), so
// there is no moment at which a pod has a node and not its CPUs, and an allocation
// that stood on the pod before is overwritten.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	c, err := p.cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	res, ok := p.shared.reservations.of(pod)
	if ok {
		binding.Annotations = map[string]string{api.AllocationAnnotation: res.allocation}
	} else if c.question.asks {
		return fwk.AsStatus(fmt.Errorf("bind to %s: nothing is reserved for this pod there any more; it is scheduled again", node))
	}
	err = p.carryOut(ctx, binding)
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

// bindPause is between two attempts to learn what became of a binding.
const bindPause = time.Second

// carryOut returns when it is known whether the pod is bound as the Binding says. An
// error does not tell: the answer may be lost, and the Binding carried out, now or in a
// moment. Were its CPUs given back then, they would be given away a second time. As
// long as this does not return, the pod stays assumed and its CPUs reserved, so it asks
// until the API server answers. Where the pod has no node although the request may still
// be on its way, the Binding is sent again: of two, the API server carries out one.
func (p *Plugin) carryOut(ctx context.Context, binding *corev1.Binding) error {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(binding), "node", binding.Target.Name)
	for {
		sent := p.sendBinding(ctx, binding)
		if sent == nil {
			return nil
		}
		now, err := p.outcome(ctx, binding)
		for err != nil {
			logger.Error(err, "It is not known whether a pod was bound; its CPUs stay reserved until the API server tells", "binding", sent)
			if pause(ctx) != nil {
				return sent
			}
			now, err = p.outcome(ctx, binding)
		}
		switch {
		case now == bound:
			logger.Info("The binding succeeded in spite of its error", "err", sent)
			return nil
		case now == boundOtherwise || wasAnswered(sent) || pause(ctx) != nil:
			return sent
		}
	}
}

// pause returns an error when the scheduler ends meanwhile.
func pause(ctx context.Context) error {
	select {
	case <-time.After(bindPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wasAnswered tells whether the API server has refused a request, which is then not
// carried out any more.
func wasAnswered(err error) bool {
	return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}

// outcome is what has become of a pod that was to be bound.
type outcome int

const (
	unbound        outcome = iota
	bound                  // to this node, with these CPUs
	boundOtherwise         // or gone: this Binding can no longer be carried out
)

func (p *Plugin) outcome(ctx context.Context, binding *corev1.Binding) (outcome, error) {
	pod, err := p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return boundOtherwise, nil
	case err != nil:
		return unbound, err
	case pod.UID != binding.UID:
		return boundOtherwise, nil
	case pod.Spec.NodeName == "":
		return unbound, nil
	case pod.Spec.NodeName != binding.Target.Name:
		return boundOtherwise, nil
	}
	for key, value := range binding.Annotations {
		if pod.Annotations[key] != value {
			return boundOtherwise, nil
		}
	}
	return bound, nil
}
