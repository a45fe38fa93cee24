package node

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// webImage is a web server on the port in its argument.
const webImage = "registry.cn-hangzhou.aliyuncs.com/haoshuwei24/go-demo:1k"

// container returns a container of the web server. limit is "" for none.
func container(name, port, limit string) corev1.Container {
	c := corev1.Container{Name: name, Image: webImage, Args: []string{"--listen=:" + port}}
	if limit != "" {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
	}
	return c
}

// podOf returns a pod for this machine. policy is "" for a pod that asks for no CPUs.
func podOf(name, policy string, containers ...corev1.Container) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: localnode.Name},
			Containers:                    containers,
			TerminationGracePeriodSeconds: new(int64),
		},
	}
	if policy != "" {
		pod.Annotations = map[string]string{api.CPUSetSchedulerAnnotation: "true", api.CPUPolicyAnnotation: policy}
	}
	return pod
}

// run creates a pod and waits until it runs.
func (c *cluster) run(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	must.Do(t, c.create(t, pod))
	return c.awaitRunning(t, pod.Name)
}

// create creates a pod without waiting for it. It names the scheduler of an installation by the
// chart.
func (c *cluster) create(t testing.TB, pod *corev1.Pod) error {
	if c.chart != nil {
		pod.Spec.SchedulerName = c.chart.scheduler
	}
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	_, err := localnode.Create(ctx, c.client.CoreV1().Pods(pod.Namespace), pod)
	return err
}

// answered sends a request that may be repeated until the API server answers. It may be busy for
// long in a virtual machine, or start again.
func answered(t testing.TB, request func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), requestTimeout)
	defer cancel()
	return localnode.Answered(ctx, func() error { return request(ctx) })
}

func (c *cluster) awaitRunning(t testing.TB, name string) (pod *corev1.Pod) {
	t.Helper()
	eventually(t, "pod "+name, func() (err error) {
		pod, err = c.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("is %s: %+v %+v", pod.Status.Phase, pod.Status.Conditions, pod.Status.ContainerStatuses)
		}
		return err
	})
	return pod
}

func (c *cluster) remove(t testing.TB, name string) {
	t.Helper()
	again := false
	if err := answered(t, func(ctx context.Context) error {
		err := c.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, name, *metav1.NewDeleteOptions(0))
		if again && apierrors.IsNotFound(err) {
			return nil
		}
		again = true
		return err
	}); err != nil {
		t.Error(err)
	}
}
