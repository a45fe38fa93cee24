package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cputime"
)

// idleRoot makes a root directory with this machine's cgroups in which /proc/stat shows idle CPUs,
// however busy the machine is.
func (h *hostTree) idleRoot() string {
	h.t.Helper()
	root := h.t.TempDir()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "proc/self"), 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.write(filepath.Join(root, "proc/self/mountinfo"), string(mounts))
	if err := os.Symlink("/sys", filepath.Join(root, "sys")); err != nil {
		h.t.Fatal(err)
	}
	cpus, err := h.fs.Effective("/")
	if err != nil {
		h.t.Fatal(err)
	}
	stat := filepath.Join(root, "proc/stat")
	write := func(ticks int64) error {
		var b strings.Builder
		for cpu := range cpus.All() {
			fmt.Fprintf(&b, "cpu%d 0 0 0 %d 0 0 0 0 0 0\n", cpu, ticks)
		}
		err := os.WriteFile(stat+".new", []byte(b.String()), 0o644)
		return errors.Join(err, os.Rename(stat+".new", stat))
	}
	if err := write(0); err != nil {
		h.t.Fatal(err)
	}
	begun, done, ended := time.Now(), make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				ended <- nil
				return
			case <-time.After(cputime.Tick):
				if err := write(int64(time.Since(begun) / cputime.Tick)); err != nil {
					ended <- err
					return
				}
			}
		}
	}()
	h.t.Cleanup(func() {
		close(done)
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	})
	return root
}

// spin starts a busy process in a cgroup.
func (h *hostTree) spin(group string) *os.Process {
	h.t.Helper()
	return h.start(exec.Command("sh", "-c", "while :; do :; done"), group)
}

// raisedPod returns a pod limited to a tenth of a CPU, whose quota may be raised to three tenths.
func raisedPod(name string) *corev1.Pod {
	p := burstPod(name, map[string]string{"pinfold.dev/cpu-burst": `{"policy":"quota","quotaPercent":300,"quotaBurstSeconds":60}`})
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("100m")
	return p
}

// runRaised makes the cgroups of a running raisedPod with the quota that the kubelet sets, and
// returns the pod and its container's cgroup.
func (h *hostTree) runRaised(name string) (pod *corev1.Pod, group string) {
	h.t.Helper()
	pod = raisedPod(name)
	id := containerID('a')
	run(pod, id)
	group, _ = h.container(pod, id)
	h.set(group, cgroup.CPUCFSQuota, "10000")
	return pod, group
}

// TestRaiseOnThisMachine checks that a container that has saved up CPU time gets a higher quota
// when it is throttled, and so does its pod; that metrics show it; that an agent that ends lowers
// it; and that an agent that starts lowers the quota that a killed one had raised.
func TestRaiseOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	pod, group := tree.runRaised("web")
	w := tree.world(t, pod)
	w.root = tree.idleRoot()
	w.listen, w.sampleInterval, w.period = "127.0.0.1:0", 10*time.Millisecond, 10*time.Second
	stop := w.start()
	ms := time.Millisecond
	limit, raised := bandwidth.Limits{Quota: 10 * ms, Period: 100 * ms}, bandwidth.Limits{Quota: 30 * ms, Period: 100 * ms}
	both := func(want bandwidth.Limits) error {
		return errors.Join(tree.has(group, want), tree.has(tree.podGroup(pod), want))
	}
	w.eventually(func() error { return w.metricsHave(`pinfold_container_cpu_limit_cores{LABELS} 0.1`) })
	time.Sleep(5 * time.Second) // saving up
	if err := both(limit); err != nil {
		t.Error(err)
	}
	process := tree.spin(group)
	w.eventually(func() error { return both(raised) })
	_ = process.Kill() // the quota stays raised until it has been idle for long enough
	w.eventually(func() error {
		return w.metricsHave(`pinfold_container_cpu_quota_cores{LABELS} 0.3`, `pinfold_container_cpu_quota_raises_total{LABELS,reason="`,
			`pinfold_container_cpu_quota_raised_since_timestamp_seconds{LABELS} `, `pinfold_container_cpu_throttled_periods_total{LABELS} `,
			`pinfold_container_cpu_utilization_ratio_bucket{LABELS,le="0.1"} `, `pinfold_sampler_groups 1`)
	})
	if text, err := w.get("/metrics"); err != nil {
		t.Error(err)
	} else if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
	stop()
	if err := both(limit); err != nil {
		t.Errorf("after the agent has ended the quota is still raised: %v", err)
	}
	tree.set(group, cgroup.CPUCFSQuota, "30000") // as a killed agent leaves it
	w.start()
	w.eventually(func() error { return both(limit) })
}

// metricsHave returns an error unless the metrics have lines with these prefixes, in which LABELS
// stands for the labels of the pod web.
func (w *world) metricsHave(lines ...string) error {
	text, err := w.get("/metrics")
	if err != nil {
		return err
	}
	for _, line := range lines {
		line = strings.Replace(line, "LABELS", `container="app",namespace="default",pod="web"`, 1)
		if !strings.Contains(text, "\n"+line) {
			return fmt.Errorf("no %s in\n%s", line, text)
		}
	}
	return nil
}

// has returns an error unless a cgroup has the given bandwidth.
func (h *hostTree) has(group string, want bandwidth.Limits) error {
	s, err := h.fs.Read(group)
	if err == nil && s.Limits != want {
		err = fmt.Errorf("%s has %+v, want %+v", group, s.Limits, want)
	}
	return err
}

// burstPod returns a pod with a limit of one CPU and the given annotations.
func burstPod(name string, annotations map[string]string) *corev1.Pod {
	p := newPod(name)
	p.Annotations = annotations
	return p
}
