package localnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/images"
)

// probeName is the pod that shows that pods run.
const (
	probeName      = "pinfold-local-probe"
	probeNamespace = metav1.NamespaceDefault
	pollInterval   = 100 * time.Millisecond
)

// WaitReady returns when the node is Ready and a pod has run on it: images can be
// pulled, and containers and their network be made.
func WaitReady(ctx context.Context, client kubernetes.Interface) error {
	if err := poll(ctx, func() error { return nodeReady(ctx, client) }); err != nil {
		return fmt.Errorf("node %s: %w", Name, err)
	}
	pods := client.CoreV1().Pods(probeNamespace)
	if _, err := pods.Create(ctx, probePod(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", probeName, err)
	}
	if err := poll(ctx, func() error { return probeRunning(ctx, client) }); err != nil {
		return fmt.Errorf("pod %s on node %s: %w", probeName, Name, err)
	}
	now := int64(0)
	if err := pods.Delete(ctx, probeName, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		return fmt.Errorf("delete pod %s: %w", probeName, err)
	}
	return nil
}

// notYet is a reason to go on asking.
type notYet string

func (e notYet) Error() string { return string(e) }

// poll asks until there is an answer.
func poll(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		var wait notYet
		if !errors.As(err, &wait) {
			return err
		}
		if !sleep.For(ctx, pollInterval) {
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// nodeReady wants the taint of new nodes gone too, which the controller manager
// removes a little after the condition is there.
func nodeReady(ctx context.Context, client kubernetes.Interface) error {
	node, err := client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return notYet("it has not registered")
	}
	if err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return notYet("not ready: " + condition.Message)
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return notYet("not ready: it has the taint " + taint.Key)
		}
	}
	return nil
}

// probePod is bound without a scheduler and takes nothing.
func probePod() *corev1.Pod {
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: probeName, Namespace: probeNamespace},
		Spec: corev1.PodSpec{
			NodeName:                     Name,
			AutomountServiceAccountToken: &no,
			EnableServiceLinks:           &no,
			Containers:                   []corev1.Container{{Name: "pause", Image: images.Pause}},
			Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
}

func probeRunning(ctx context.Context, client kubernetes.Interface) error {
	pod, err := client.CoreV1().Pods(probeNamespace).Get(ctx, probeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	switch pod.Status.Phase {
	case corev1.PodRunning:
		return nil
	case corev1.PodFailed, corev1.PodSucceeded:
		return fmt.Errorf("it ended: %s %s", pod.Status.Reason, pod.Status.Message)
	}
	why := "it does not run"
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil {
			why = fmt.Sprintf("it does not run: %s %s", waiting.Reason, waiting.Message)
		}
	}
	return notYet(why)
}
