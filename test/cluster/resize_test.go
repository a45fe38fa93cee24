package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// runs waits until a pod runs and writes the resources of its containers to its status, as a
// kubelet does. The API server resizes no other pods.
func (c *test) runs(name string) {
	c.Helper()
	c.eventually("pod "+name+" runs", func() error { return c.reportRunning(c.home, name) })
}

func (c *test) reportRunning(namespace, name string) error {
	pods := c.client.CoreV1().Pods(namespace)
	pod, err := pods.Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) == 0 {
		return fmt.Errorf("it is %s", pod.Status.Phase)
	}
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Resources = &pod.Spec.Containers[i].Resources
	}
	_, err = pods.UpdateStatus(c.Context(), pod, metav1.UpdateOptions{}) // the simulated kubelet may have changed it
	return err
}

// tryResize returns the API server's answer to a resize, as a dry run.
func (c *test) tryResize(pod, spec string) error {
	_, err := c.podAPI().Patch(c.Context(), pod, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"spec":%s}`, spec), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "resize")
	return err
}

// TestResize: the CPUs of a pod with an allocation cannot be resized in place. Its memory can, and
// so can all other pods.
func TestResize(t *testing.T) {
	c := begin(t)
	const pod = `
metadata: {name: %s, annotations: {cpuset-scheduler: %q}}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + small0 + `}
  containers:
  - {name: app, image: app, resources: {requests: {cpu: 1, memory: 32Mi}, limits: {cpu: 1, memory: 64Mi}}}
`
	c.create(fmt.Sprintf(pod, "resized", "true"))
	c.create(fmt.Sprintf(pod, "plain", "false"))
	c.create(fmt.Sprintf(pod, "ceased", "true"))
	for _, name := range []string{"resized", "plain", "ceased"} {
		c.bound(name)
		c.runs(name)
	}
	c.must(c.tryPatch("ceased", `{"metadata":{"annotations":{"cpuset-scheduler":null}}}`, false))
	app := func(resources string) string { return `{"containers":[{"name":"app","resources":` + resources + `}]}` }
	const refusal = "delete the pod and create it with the new ones"
	for _, test := range []struct {
		name, pod, spec, refused string
	}{
		{"limit", "resized", app(`{"limits":{"cpu":"3"}}`), refusal},
		{"memory", "resized", app(`{"limits":{"memory":"128Mi"}}`), ""},
		{"limit of a pod that does not ask", "plain", app(`{"limits":{"cpu":"3"}}`), ""},
		{"limit of a pod that has ceased to ask", "ceased", app(`{"limits":{"cpu":"3"}}`), ""},
	} {
		err := c.tryResize(test.pod, test.spec)
		if test.refused == "" && err != nil ||
			test.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.refused)
		}
	}
	c.unprotect("resized")
	c.must(c.tryResize("resized", app(`{"limits":{"cpu":"3"}}`)))
}
