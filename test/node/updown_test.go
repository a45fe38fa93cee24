package node

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/deploy/examples"
	"pinfold.dev/pinfold/lab/localnode"
)

// TestUpAndDown runs an example pod, and looks whether the machine is as before after
// each way in which a cluster can end.
func TestUpAndDown(t *testing.T) {
	requireNode(t)
	before := lookAt(t)
	for name, end := range map[string]func(*testing.T, *cluster){
		"down":                  func(t *testing.T, c *cluster) { c.down(t) },
		"kill -9 and then down": func(t *testing.T, c *cluster) { c.kill(t); c.down(t) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			pod := c.runExample(t)
			if err := openKernel(t).expectSingle(pod, settings{quota: 400 * time.Millisecond}); err != nil {
				t.Error(err)
			}
			expectPage(t, pod)
			c.expectLog(t, pod)
			end(t, c)
			if left := processesOf(t, c.dir); len(left) > 0 {
				t.Errorf("processes stay: %q", left)
			}
			before.expectUnchanged(t)
		})
	}
}

// runExample runs a pod of the example go-demo on this machine. It does without its
// own CPUs, which would be four.
func (c *cluster) runExample(t *testing.T) *corev1.Pod {
	t.Helper()
	text, err := fs.ReadFile(examples.Files, "go-demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(text, &deployment); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "go-demo"}, Spec: deployment.Spec.Template.Spec}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: localnode.Name}
	pods := c.client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod go-demo", func() error {
		pod, err = pods.Get(t.Context(), "go-demo", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return err
	})
	return pod
}

// expectPage asks the pod's web server, by the pod's own address.
func expectPage(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "the page of go-demo", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pod.Status.PodIP+":8080/?cpu=1ms", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err == nil && len(page) != 1024 {
			err = fmt.Errorf("%s, %d bytes, want 1024", response.Status, len(page))
		}
		return err
	})
}

// expectLog reads the pod's log, which comes from the kubelet through the API server.
func (c *cluster) expectLog(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	text, err := c.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(text), "serving 1024 bytes") {
		t.Errorf("log %q (%v)", text, err)
	}
}

// TestKubeletMayChangeItselfOnly uses the kubelet's own credentials.
func TestKubeletMayChangeItselfOnly(t *testing.T) {
	requireNode(t)
	c := start(t)
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), localnode.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP }) {
		t.Errorf("addresses %v have no internal IP", node.Status.Addresses)
	}
	kubelet := c.as(t, localnode.Kubelet)
	patch := []byte(`{"metadata":{"annotations":{"tested":"yes"}}}`)
	for name, allowed := range map[string]bool{localnode.Name: true, "intel-104-0": false} {
		_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{})
		if (err == nil) != allowed {
			t.Errorf("the kubelet changes node %s: %v", name, err)
		}
	}
}
