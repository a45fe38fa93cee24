package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
	c, err := cycleOf(state)
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
	err = p.sendBinding(ctx, binding)
	if err != nil && p.isBound(ctx, binding) {
		klog.FromContext(ctx).Info("The binding succeeded in spite of its error", "pod", klog.KObj(pod), "node", node, "err", err)
		err = nil
	}
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

// isBound asks the API server whether a binding that returned an error was carried
// out all the same, as after a lost answer. Unreserving its CPUs then would give
// them away a second time until the watch brings the bound pod.
func (p *Plugin) isBound(ctx context.Context, binding *corev1.Binding) bool {
	pod, err := p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
	if err != nil || pod.UID != binding.UID || pod.Spec.NodeName != binding.Target.Name {
		return false
	}
	for key, value := range binding.Annotations {
		if pod.Annotations[key] != value {
			return false
		}
	}
	return true
}
