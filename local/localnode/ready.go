package localnode

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/local/images"
)

// The probe pod shows that pods run on the node.
const (
	probeName      = "pinfold-local-probe"
	probeNamespace = metav1.NamespaceDefault
	pollInterval   = 100 * time.Millisecond
)

// WaitReady waits until the node is ready and a pod has run on it, which needs an image, a
// container and its network. It goes on when the API server is restarted or too slow to answer.
func WaitReady(ctx context.Context, client kubernetes.Interface) error {
	if err := sleep.Until(ctx, pollInterval, func() (string, error) { return awaitNode(ctx, client) }); err != nil {
		return fmt.Errorf("node %s: %w", Name, err)
	}
	pods := client.CoreV1().Pods(probeNamespace)
	if _, err := Create(ctx, pods, probePod()); err != nil {
		return fmt.Errorf("create pod %s: %w", probeName, err)
	}
	if err := sleep.Until(ctx, pollInterval, func() (string, error) { return awaitProbe(ctx, client) }); err != nil {
		return fmt.Errorf("pod %s on node %s: %w", probeName, Name, err)
	}
	err := Answered(ctx, func() error { return pods.Delete(ctx, probeName, *metav1.NewDeleteOptions(0)) })
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", probeName, err)
	}
	return nil
}

func awaitNode(ctx context.Context, client kubernetes.Interface) (string, error) {
	var node *corev1.Node
	err := Answered(ctx, func() (err error) {
		node, err = client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return "it has not registered", nil
	}
	if err != nil {
		return "", fmt.Errorf("read it: %w", err)
	}
	return NotReady(node), nil
}

// NotReady returns why pods cannot be scheduled to a node, "" if they can. It checks the taint of
// new nodes as well as the condition, because the controller manager removes the taint a little
// later.
func NotReady(node *corev1.Node) string {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return "not ready: it has no condition Ready"
	}
	if ready := node.Status.Conditions[i]; ready.Status != corev1.ConditionTrue {
		return "not ready: " + ready.Message
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return "not ready: it has the taint " + taint.Key
		}
	}
	return ""
}

// probePod returns a pod that is bound without a scheduler and requests nothing.
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

func awaitProbe(ctx context.Context, client kubernetes.Interface) (string, error) {
	var pod *corev1.Pod
	err := Answered(ctx, func() (err error) {
		pod, err = client.CoreV1().Pods(probeNamespace).Get(ctx, probeName, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read it: %w", err)
	}
	switch pod.Status.Phase {
	case corev1.PodRunning:
		return "", nil
	case corev1.PodFailed, corev1.PodSucceeded:
		return "", fmt.Errorf("it ended: %s %s", pod.Status.Reason, pod.Status.Message)
	}
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil {
			return fmt.Sprintf("it does not run: %s %s", waiting.Reason, waiting.Message), nil
		}
	}
	return "it does not run", nil
}
