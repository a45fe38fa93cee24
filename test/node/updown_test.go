package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// TestUpAndDown runs an example pod. After down the machine is as before.
func TestUpAndDown(t *testing.T) {
	requireNode(t)
	before := lookAt(t)
	c := start(t)
	pod := c.runExample(t)
	if err := openKernel(t).expectSingle(pod, settings{quota: 400 * time.Millisecond}); err != nil {
		t.Error(err)
	}
	expectPage(t, pod)
	c.expectLog(t, pod)
	c.downTo(t, before)
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

// TestAnotherKubeletAfterACrash creates another kubelet's files and container after the supervisor
// was killed. They survive down, and so do the sysctls, which that kubelet needs. What belongs to
// the node is removed.
func TestAnotherKubeletAfterACrash(t *testing.T) {
	requireNode(t)
	before := lookAt(t)
	c := start(t)
	pod := c.runExample(t)
	c.kill(t)
	kubepods := groupsOfPods(t)
	other := filepath.Join(mountOf(kubepods[0]), naming().Pod(qos.Guaranteed, "other"), "other")
	file := "/var/lib/kubelet/config.yaml"
	sleep := exec.Command("sleep", "600")
	sleep.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(t, errors.Join(os.MkdirAll(other, 0o755), os.WriteFile(file, []byte("kind: KubeletConfiguration\n"), 0o600), sleep.Start()))
	t.Cleanup(func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait()
		if err := errors.Join(removeKubelet(kubepods), before.writeSysctls()); err != nil {
			t.Error(err)
		}
		before.expectUnchanged(t)
	})
	procs := filepath.Join(other, "cgroup.procs")
	must.Do(t, os.WriteFile(procs, fmt.Append(nil, sleep.Process.Pid), 0))
	c.down(t)
	if text, err := os.ReadFile(procs); err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(sleep.Process.Pid) {
		t.Errorf("the other kubelet's container has the processes %q (%v), want %d", text, err, sleep.Process.Pid)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the other kubelet's file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(mountOf(kubepods[0]), naming().Pod(api.TierOf(pod), string(pod.UID)))); !os.IsNotExist(err) {
		t.Errorf("the node's pod has a group: %v", err)
	}
	if left := processesOf(t, c.dir); len(left) > 0 {
		t.Errorf("processes remain: %q", left)
	}
	c.down(t)
}

// groupsOfPods returns the cgroups that contain all pods.
func groupsOfPods(t *testing.T) []string {
	t.Helper()
	mounts := must.Get(mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2")))(t)
	var groups []string
	for _, mount := range mounts {
		group := filepath.Join(mount.Mountpoint, naming().Tier(qos.Guaranteed))
		if _, err := os.Stat(group); err == nil {
			groups = append(groups, group)
		}
	}
	slices.SortFunc(groups, func(a, b string) int { return cmp.Compare(len(a), len(b)) }) // cpu, or version 2, is first
	if len(groups) == 0 {
		t.Fatal("there are no cgroups of pods")
	}
	return groups
}

// mountOf returns the mount point of the hierarchy of a group that contains all pods.
func mountOf(group string) string {
	return strings.TrimSuffix(group, naming().Tier(qos.Guaranteed))
}

// removeKubelet removes what the test has created, and what remained because of it.
func removeKubelet(kubepods []string) error {
	failed := []error{os.RemoveAll("/var/lib/kubelet")}
	for _, group := range kubepods {
		var dirs []string
		failed = append(failed, filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		}))
		for _, dir := range slices.Backward(dirs) {
			failed = append(failed, syscall.Rmdir(dir))
		}
	}
	return errors.Join(failed...)
}

// nodeSysctl matches the sysctls that a node changes.
var nodeSysctl = regexp.MustCompile(`/(overcommit_memory|panic_on_oom|panic|panic_on_oops|root_max[a-z]+|ip_forward|forwarding|all/accept_redirects)$`)

// writeSysctls restores the sysctls that differ, twice in the order of their names, because
// ip_forward comes after sysctls that depend on it.
func (m machine) writeSysctls() error {
	var failed []error
	for range 2 {
		for _, line := range m["sysctls"] {
			path, value, _ := strings.Cut(line, " = ")
			if !nodeSysctl.MatchString(path) {
				continue
			}
			if now, err := os.ReadFile(path); err == nil && string(now) != value {
				failed = append(failed, os.WriteFile(path, []byte(value), 0))
			}
		}
	}
	return errors.Join(failed...)
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
