package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// settled is a cluster on whose real node one pod of each kind runs.
type settled struct {
	*cluster
	kernel kernel
	// own are the CPUs of the static pod, shared all others.
	own, shared cpuset.Set
	pods        map[string]*corev1.Pod
	operator    *operator // of an installation by the chart
}

// TestSettings reads the kernel's settings of real containers of a real kubelet, and checks that
// they persist while every component is killed.
func TestSettings(t *testing.T) {
	s := settle(t)
	t.Run("rows", s.testRows)
	t.Run("node", s.testNode)
	t.Run("metrics", s.testMetrics)
	t.Run("exec", s.testExec)
	t.Run("resize", s.testResize)
	t.Run("static pod", s.testStaticPod)
	t.Run("starting", s.testStarting)
	t.Run("unanswered", s.testUnanswered)
	for _, component := range []string{localnode.Agent, localnode.Containerd, localnode.Kubelet, localcluster.APIServer} {
		t.Run("kill "+component, func(t *testing.T) { s.testKill(t, component) })
	}
	eventually(t, "settings", s.check)
	t.Run("doctor", s.testDoctor)
	t.Run("cleanup", s.testCleanup)
}

// settle starts a cluster, with flags of the agent, and the pods.
func settle(t *testing.T, agentFlags ...string) *settled {
	t.Helper()
	requireNode(t)
	return settleOn(t, start(t, agentFlags...))
}

// settleOn starts the pods on a cluster.
func settleOn(t *testing.T, c *cluster) *settled {
	t.Helper()
	m := must.Get(sysfs.Read(os.DirFS("/sys")))(t)
	if len(m.CPUs) < 2 {
		t.Skip("needs two CPUs: an exclusive and a shared one")
	}
	s := &settled{cluster: c, kernel: openKernel(t), pods: map[string]*corev1.Pod{}}
	batch := podOf("batch", "", container("main", "8001", "300m"))
	batch.Labels[api.QoSLabel] = string(qos.BE)
	bursting := podOf("bursting", "", container("main", "8001", "500m"), container("side", "8002", "200m"))
	bursting.Annotations = map[string]string{api.CPUBurstAnnotation: `{"policy":"burst","burstPercent":50}`, api.CPUPeriodAnnotation: "20ms"}
	solver := podOf("burst", "static-burst", container("main", "8001", "1"))
	solver.Annotations["koordinator.sh/cpuBurst"] = `{"policy":"auto","cpuBurstPercent":1000}`
	// The requests of static pods stay below their limits, as where no policy raises them.
	keep := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, admission.KeepRequestsLabel)
	must.Get(c.client.CoreV1().Namespaces().Patch(t.Context(), metav1.NamespaceDefault, types.MergePatchType, []byte(keep), metav1.PatchOptions{}))(t)
	for _, pod := range []*corev1.Pod{
		podOf("before", "", container("main", "8001", "")), // has all CPUs until one becomes exclusive
		podOf("static", "static", container("main", "8001", "1"), container("side", "8002", "200m")),
		solver, bursting,
		podOf("limited", "", container("main", "8001", "500m")),
		batch,
	} {
		s.pods[pod.Name] = s.run(t, pod)
	}
	s.own = c.allocated(t, s.pods["static"])
	s.shared = m.Online().Difference(s.own)
	return s
}

// rows returns the expected settings of each kind of container, by pod and container ("" for the
// pod).
func (s *settled) rows() map[string]map[string]settings {
	const none, ms = bandwidth.Unlimited, time.Millisecond
	return map[string]map[string]settings{
		"static": {"": {cpus: s.shared.Union(s.own), quota: none}, "main": {cpus: s.own, quota: none}, "side": {cpus: s.shared, quota: 20 * ms}},
		"burst":  {"": {quota: 100 * ms, burst: 100 * ms}, "main": {cpus: s.shared, quota: 100 * ms, burst: 100 * ms}},
		"bursting": {"": {quota: 14 * ms, period: 20 * ms, burst: 7 * ms},
			"main": {cpus: s.shared, quota: 10 * ms, period: 20 * ms, burst: 5 * ms},
			"side": {cpus: s.shared, quota: 4 * ms, period: 20 * ms, burst: 2 * ms}},
		"limited": {"": {cpus: s.shared, quota: 50 * ms}, "main": {cpus: s.shared, quota: 50 * ms}},
		"before":  {"": {cpus: s.shared, quota: none}, "main": {cpus: s.shared, quota: none}},
		"batch":   {"": {quota: 30 * ms}, "main": {cpus: s.shared, quota: 30 * ms}},
	}
}

// check compares the settings of the pods, and checks that no other container has the static one's
// CPUs.
func (s *settled) check() error {
	if err := s.checkRows(); err != nil {
		return err
	}
	return s.kernel.expectNobodyElseOn(s.own, s.kernel.containerGroup(s.pods["static"], "main"))
}

func (s *settled) checkRows() error {
	for name, containers := range s.rows() {
		for container, want := range containers {
			err := s.kernel.expectPod(s.pods[name], want)
			if container != "" {
				err = s.kernel.expectContainer(s.pods[name], container, want)
			}
			if err != nil {
				return fmt.Errorf("pod %s: %w", name, err)
			}
		}
	}
	return nil
}

func (s *settled) testRows(t *testing.T) {
	if n := s.own.Len(); n != 1 {
		t.Fatalf("the static pod has CPUs %s, want one", s.own)
	}
	eventually(t, "settings", s.check)
}

// testNode checks what the agent reports.
func (s *settled) testNode(t *testing.T) {
	eventually(t, "condition", func() error {
		c, err := s.condition(t.Context())
		if err == nil && c.Status != corev1.ConditionTrue {
			err = fmt.Errorf("%s is %s: %s", c.Type, c.Status, c.Message)
		}
		return err
	})
}

// testMetrics: the runtime is connected by NRI, and the counts of CPUs are exposed.
func (s *settled) testMetrics(t *testing.T) {
	text := s.metrics(t)
	for _, line := range []string{
		"pinfold_runtime_connected 1", "pinfold_holding 0", "pinfold_pods_lost_cpus 0", "pinfold_failed_groups 0",
		fmt.Sprintf(`pinfold_cpus{kind="exclusive"} %d`, s.own.Len()), fmt.Sprintf(`pinfold_cpus{kind="shared"} %d`, s.shared.Len()),
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	eventually(t, "metrics of periods", func() error {
		text := s.metrics(t)
		for _, line := range []string{
			`pinfold_container_cpu_utilization_ratio_bucket{container="side",namespace="default",pod="bursting",le="+Inf"} `,
			`pinfold_container_cpu_quota_cores{container="side",namespace="default",pod="bursting"} 0.2`,
			`pinfold_container_cpu_period_seconds{container="side",namespace="default",pod="bursting"} 0.02`,
			`pinfold_container_cpu_burst_seconds{container="side",namespace="default",pod="bursting"} 0.002`,
			inGuest(`pinfold_container_cpu_pressure_seconds_total{container="main",namespace="default",pod="static"} `, ""), // version 2 only
		} {
			if !strings.Contains(text, "\n"+line) {
				return fmt.Errorf("no line %q in\n%s", line, text)
			}
		}
		return nil
	})
}

// metrics returns the agent's metrics.
func (s *cluster) metrics(t testing.TB) string {
	t.Helper()
	client, request := http.DefaultClient, (*http.Request)(nil)
	if s.chart == nil {
		request = must.Get(http.NewRequest(http.MethodGet, "http://"+s.agentFlag(t, "listen")+"/metrics", nil))(t)
	} else {
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // self-signed
		defer client.CloseIdleConnections()
		request = must.Get(http.NewRequest(http.MethodGet, "https://127.0.0.1:9652/metrics", nil))(t)
		request.Header.Set("Authorization", "Bearer "+s.metricsToken(t))
	}
	response, err := client.Do(request)
	must.Do(t, err)
	defer response.Body.Close()
	text := must.Get(io.ReadAll(response.Body))(t)
	return string(text)
}

// testExec runs a second process in the static container, as kubectl exec does.
func (s *settled) testExec(t *testing.T) {
	state := must.Get(localcluster.ReadState(s.dir))(t)
	request := s.client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("static").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "main", Stdout: true, Stderr: true,
			Command: []string{"/bin/web", "--listen=:8009"}}, scheme.ParameterCodec)
	executor := must.Get(remotecommand.NewSPDYExecutor(connection(t, state.Kubeconfig), "POST", request.URL()))(t)
	group := s.kernel.containerGroup(s.pods["static"], "main")
	before := must.Get(cgrouptree.ProcessesIn(s.kernel.groups.Dir(cgroup.CPUSet, group)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var output bytes.Buffer
	go func() {
		ended <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &output, Stderr: &output})
	}()
	var added []int
	eventually(t, "the second process", func() error {
		processes, err := cgrouptree.ProcessesIn(s.kernel.groups.Dir(cgroup.CPUSet, group))
		added = slices.DeleteFunc(processes, func(pid int) bool { return slices.Contains(before, pid) })
		if err == nil && len(added) == 0 {
			err = fmt.Errorf("processes %v", processes)
		}
		return err
	})
	if err := s.check(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Logf("exec ended, but not by its cancellation: %v", err)
	}
	for _, pid := range added {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
}

// testResize resizes in place a pod without exclusive CPUs, whose burst would make the kernel
// reject the smaller quota, and one with exclusive CPUs, which keeps them, because no node has as many as
// it asks for then.
func (s *settled) testResize(t *testing.T) {
	pods := s.client.CoreV1().Pods("default")
	resize := func(name, limit string) error {
		return answered(t, func(ctx context.Context) error {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse(limit)
			_, err = pods.UpdateResize(ctx, name, pod, metav1.UpdateOptions{})
			return err
		})
	}
	c := podOf("resized", "", container("main", "8001", "200m"))
	c.Annotations = map[string]string{api.CPUBurstAnnotation: `{"policy":"burst"}`}
	pod := s.run(t, c)
	defer s.remove(t, "resized")
	for _, step := range []struct {
		limit string
		quota time.Duration
	}{{"600m", 60 * time.Millisecond}, {"100m", 10 * time.Millisecond}} {
		must.Do(t, resize("resized", step.limit))
		want := settings{cpus: s.shared, quota: step.quota, burst: step.quota}
		eventually(t, "resize to "+step.limit, func() error { return s.kernel.expectSingle(pod, want) })
	}
	must.Do(t, resize("static", "2000"))
	s.eventuallySaid(t, "static", "it keeps the CPUs that it has")
	must.Do(t, s.check())
	must.Do(t, resize("static", "1"))
}

// runStatic makes the kubelet run a pod from a file until the test ends, and returns its mirror
// pod.
func (s *settled) runStatic(t *testing.T) *corev1.Pod {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(s.dir, "*", "static-pods"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("directories of static pods: %v, %v", dirs, err)
	}
	pod := podOf("of-file", "", container("main", "8001", "400m"))
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Spec.NodeSelector = nil
	text := must.Get(yaml.Marshal(pod))(t)
	file := filepath.Join(dirs[0], "of-file.yaml")
	must.Do(t, os.WriteFile(file, text, 0o644))
	t.Cleanup(func() {
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	})
	return s.awaitRunning(t, "of-file-"+localnode.Name)
}

// testStaticPod: the scheduler does not know of a static pod of the kubelet, and the agent keeps it
// off exclusive CPUs.
func (s *settled) testStaticPod(t *testing.T) {
	mirror := s.runStatic(t)
	want := settings{cpus: s.shared, quota: 40 * time.Millisecond}
	eventually(t, "settings of the static pod", func() error { return s.kernel.expectSingle(mirror, want) })
	if err := s.check(); err != nil {
		t.Error(err)
	}
}
