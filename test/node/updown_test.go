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

	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// TestUpAndDown runs an example pod on the node of docs/local.md. After down the machine is as before, also if the supervisor was
// killed.
func TestUpAndDown(t *testing.T) {
	requireNode(t)
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed=", killed), func(t *testing.T) {
			before := lookAt(t)
			_, flags, _ := strings.Cut(readPage(t, localPage).text("node"), "pinfold-local up --node ")
			c := startWith(t, strings.Fields(flags)...)
			pod := c.runExample(t)
			if err := openKernel(t).expectSingle(pod, settings{quota: 400 * time.Millisecond}); err != nil {
				t.Error(err)
			}
			expectPage(t, pod)
			c.expectLog(t, pod)
			if killed {
				c.kill(t)
			}
			c.downTo(t, before)
		})
	}
}

// downTo runs the command down, after which the machine is as before.
func (c *cluster) downTo(t *testing.T, before machine) {
	t.Helper()
	c.down(t)
	if left := processesOf(t, c.dir); len(left) > 0 {
		t.Errorf("processes remain: %q", left)
	}
	before.expectUnchanged(t)
}

// runExample runs a pod of the example go-demo on this machine, without exclusive CPUs, which would
// be four.
func (c *cluster) runExample(t *testing.T) *corev1.Pod {
	t.Helper()
	text, err := fs.ReadFile(deploy.Examples(), "ack/go-demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	must.Do(t, yaml.UnmarshalStrict(text, &deployment))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "go-demo"}, Spec: deployment.Spec.Template.Spec}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: localnode.Name}
	pods := c.client.CoreV1().Pods("default")
	must.Get(pods.Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	eventually(t, "pod go-demo", func() error {
		pod, err = pods.Get(t.Context(), "go-demo", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return err
	})
	return pod
}

// expectPage requests a page from the pod's web server, at the pod's own address.
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

// expectLog reads the pod's log, which the API server gets from the kubelet.
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
	node := must.Get(c.client.CoreV1().Nodes().Get(t.Context(), localnode.Name, metav1.GetOptions{}))(t)
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
