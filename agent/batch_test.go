package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// newBatchPod returns a batch pod that requests this many thousandths of a CPU.
func newBatchPod(name, amount string) *corev1.Pod {
	p := newPod(name)
	request := corev1.ResourceList{api.BatchCPU: resource.MustParse(amount)}
	p.Labels = map[string]string{api.QoSLabel: string(qos.BE)}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: request, Requests: request}
	p.Status.QOSClass = corev1.PodQOSBestEffort
	return p
}

// TestBatchPods checks the quota of the tier of batch pods and what the node offers to them, on a
// node of 8 CPUs, while others use none and then six, and that a cleanup removes both.
func TestBatchPods(t *testing.T) {
	const tier = "/kubepods/besteffort"
	k := newTree(t)
	rejected := newBatchPod("rejected", "1000000") // by the kubelet, in a moment
	rejected.Status.Phase = corev1.PodPending
	w := newWorld(t, newBatchPod("batch", "700"), rejected)
	w.root, w.config.Batch = k.root, colocation.Config{Threshold: 0.65, Floor: 0.5}
	offered := func(want string) error {
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
			if got, ok := list[api.BatchCPU]; want != "" && got.String() != want || ok != (want != "") {
				return fmt.Errorf("the node offers %v, want %q", list, want)
			}
		}
		return nil
	}
	quota := func(want time.Duration) error {
		s, err := k.fs.Read(tier)
		if err == nil && s.Quota != want {
			err = fmt.Errorf("%s has a quota of %v, want %v", tier, s.Quota, want)
		}
		return err
	}
	stop := w.start()
	w.eventually(func() error { return quota(520 * time.Millisecond) })
	w.eventually(func() error { return offered("5200") })
	stop()

	ctx, cancel := context.WithCancel(t.Context())
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		for begun := time.Now(); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			usage := fmt.Sprintf("%020d\n", 6*time.Since(begun).Nanoseconds())
			file, err := os.OpenFile(k.fs.File("/", cgroup.CPUAcctUsage), os.O_WRONLY, 0)
			if err == nil {
				_, err = file.WriteString(usage) // over the old one, so that no reader finds a part
				_ = file.Close()
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	stop = w.start()
	w.eventually(func() error { return quota(50 * time.Millisecond) })
	w.eventually(func() error { return offered("700") }) // what its pod requests
	stop()
	cancel()
	<-loaded

	if _, err := Cleanup(t.Context(), w.options()); err != nil {
		t.Fatal(err)
	}
	if err := quota(-1); err != nil {
		t.Error(err)
	}
	if err := offered(""); err != nil {
		t.Error(err)
	}
}

// TestGroupIdentity runs the agent on files like those of a kernel with Group Identity (and CPU Burst,
// which is off, and a quota of all pods): while that is off batch pods have cpu.idle instead, then cpu.bvt_warp_ns, and after a cleanup neither.
func TestGroupIdentity(t *testing.T) {
	const sysctl = "proc/sys/kernel/sched_group_identity_enabled"
	k := newTree(t)
	k.file(sysctl, "0")
	online, batch := newPod("web"), newBatchPod("batch", "700")
	online.Labels = map[string]string{api.QoSLabel: string(qos.LS)}
	online.Annotations = map[string]string{api.CPUBurstAnnotation: `{"policy":"burst","burstPercent":100}`}
	k.file("proc/sys/kernel/sched_cfs_bw_burst_enabled", "0")
	k.file("sys/fs/cgroup/cpu/kubepods/cpu.cfs_quota_us", "700000")
	groups := map[*corev1.Pod]string{}
	for i, p := range []*corev1.Pod{online, batch} {
		id := containerID('a' + rune(i))
		run(p, id)
		groups[p] = k.pod(p.Name, id)
	}
	for _, group := range []string{"/kubepods/besteffort", groups[online], groups[batch], path.Dir(groups[online]), path.Dir(groups[batch])} {
		k.file(filepath.Join("sys/fs/cgroup/cpu", group, string(cgroup.CPUBVT)), "0")
	}
	w := newWorld(t, online, batch)
	w.root = k.root
	w.config.Priority, _ = colocation.ParsePriority("bvt")
	settled := func(idle bool, bvt map[*corev1.Pod]int) func() error {
		return func() error {
			for p, container := range groups {
				for _, group := range []string{container, path.Dir(container)} {
					s, err := k.fs.Read(group)
					if err != nil {
						return err
					}
					if wantIdle := idle && group == path.Dir(groups[batch]); s.BVT != bvt[p] || s.Idle != wantIdle {
						return fmt.Errorf("%s has BVT %d and idle %v, want %d and %v", group, s.BVT, s.Idle, bvt[p], wantIdle)
					}
				}
			}
			return nil
		}
	}
	stop := w.start()
	w.eventually(settled(true, nil))
	w.eventually(func() error {
		c := w.condition()
		for _, note := range []string{"Group Identity is off: write 1 to /" + sysctl, "CPU Burst is switched off: write 1 to /proc/sys/kernel/sched_cfs_bw_burst_enabled",
			"group /kubepods has a quota of 7 CPUs"} {
			if !strings.Contains(c.Message, note) {
				return fmt.Errorf("the condition says %q, want %q", c.Message, note)
			}
		}
		return nil
	})
	k.file(sysctl, "1")
	w.eventually(settled(false, map[*corev1.Pod]int{online: 2, batch: -1}))
	stop()
	if _, err := Cleanup(t.Context(), w.options()); err != nil {
		t.Fatal(err)
	}
	if err := settled(false, nil)(); err != nil {
		t.Error(err)
	}
}

// TestObjective lets the threads of an online container wait, so that batch pods get less. While
// the container is throttled, its waiting does not count.
func TestObjective(t *testing.T) {
	n := newQuietNode(t, colocation.Config{Threshold: 0.65, Floor: 0.5, Objective: time.Millisecond})
	online := n.pods.list()[0].DeepCopy()
	online.Labels = map[string]string{api.QoSLabel: string(qos.LS)}
	n.pods.list = func() []*corev1.Pod { return []*corev1.Pod{online} }
	n.round()
	var waited, used time.Duration
	n.usage.Pressure = func(group string) (cgroupstat.Pressure, error) {
		if group != n.group {
			return cgroupstat.Pressure{}, cgroup.ErrGone
		}
		return cgroupstat.Pressure{Total: waited}, nil
	}
	pass := func(ticks int, wait time.Duration, throttled bool) quantity.Share {
		for tick := range ticks {
			waited, used = waited+wait, used+2*tickEvery
			n.tree.file("sys/fs/cgroup/cpuacct/kubepods/besteffort/cpuacct.usage", fmt.Sprint(used.Nanoseconds()))
			if throttled {
				n.tree.file("sys/fs/cgroup/cpu"+n.group+"/cpu.stat", fmt.Sprintf("nr_periods %d\nnr_throttled %d\nthrottled_time 0", tick+1, tick+1))
			}
			n.pass(trace.Sample{})
		}
		return n.status.Batch.Decision.Threshold
	}
	if got := pass(150, 900*time.Microsecond, false); got != 0.65 {
		t.Errorf("threshold %v while the objective is met", got)
	}
	if got := pass(50, 5*time.Millisecond, true); got != 0.65 {
		t.Errorf("threshold %v while the container is throttled", got)
	}
	if got := pass(50, 5*time.Millisecond, false); got > 0.65/2 {
		t.Errorf("threshold %v after 5s in which the objective was missed", got)
	}
}

// TestStarved checks the node's condition about batch pods: while the others use all CPUs for a
// minute, when they do not any more, and after a cleanup. Nothing starves without a running batch
// pod, or if all of them are asleep.
func TestStarved(t *testing.T) {
	n := newQuietNode(t, colocation.Config{Threshold: 0.65, Floor: 0.5})
	w := makeWorld()
	w.t, w.config = t, n.Config
	p := &publisher{Options: w.options().withDefaults(), engine: n.engine}
	batch := newBatchPod("first", "100")
	online := n.pods.list()
	var used, usedByBatch time.Duration
	status := func(cpus, batchCPUs float64, d time.Duration) corev1.NodeCondition {
		t.Helper()
		for range d / tickEvery {
			used += time.Duration(cpus * float64(tickEvery))
			usedByBatch += time.Duration(batchCPUs * float64(tickEvery))
			n.tree.file("sys/fs/cgroup/cpuacct/cpuacct.usage", fmt.Sprint(used.Nanoseconds()))
			n.tree.file("sys/fs/cgroup/cpuacct/kubepods/besteffort/cpuacct.usage", fmt.Sprint(usedByBatch.Nanoseconds()))
			n.pass(trace.Sample{})
		}
		if err := errors.Join(p.readNode(t.Context()), p.publishStarved(t.Context()), p.readNode(t.Context())); err != nil {
			t.Fatal(err)
		}
		return api.Condition(p.node, api.BatchStarved)
	}
	for _, step := range []struct {
		name   string
		phase  corev1.PodPhase // of the batch pod, "" without one
		other  corev1.PodQOSClass
		cpus   float64
		batch  float64
		passes time.Duration
		want   corev1.ConditionStatus
	}{
		{"no batch pod", "", "", 7, 0.1, 61 * time.Second, "False"},
		{"a pending one", corev1.PodPending, "", 7, 0.1, 61 * time.Second, "False"},
		{"one without a bound, because of another pod of its tier", corev1.PodRunning, corev1.PodQOSBestEffort, 7, 0.8, 61 * time.Second, "False"},
		{"one that sleeps", corev1.PodRunning, "", 7, 0, 61 * time.Second, "False"},
		{"not long enough", corev1.PodRunning, "", 7, 0.1, 30 * time.Second, "False"},
		{"a minute", corev1.PodRunning, "", 7, 0.1, 31 * time.Second, "True"},
		{"longer", corev1.PodRunning, "", 7, 0.1, 10 * time.Second, "True"},
		{"it is gone", "", "", 7, 0, 20 * time.Second, "True"}, // so that it is not placed here again
		{"there is CPU time", "", "", 1, 0, 11 * time.Second, "False"},
	} {
		n.pods.list = func() []*corev1.Pod { return online }
		if step.phase != "" {
			pod := batch.DeepCopy()
			run(pod, containerID('b'))
			pod.Status.Phase = step.phase
			other := online[2].DeepCopy()
			other.Status.QOSClass = step.other
			n.pods.list = func() []*corev1.Pod { return []*corev1.Pod{online[0], pod, other} }
		}
		n.round()
		if got := status(step.cpus, step.batch, step.passes); got.Status != step.want || got.Reason == "" || got.Message == "" ||
			strings.Contains(got.Message, "scheduler") { // which one chooses nodes, an agent does not know
			t.Errorf("%s: after %v with %v CPUs in use the condition is %+v, want %s", step.name, step.passes, step.cpus, got, step.want)
		}
	}
	if err := cleanNode(t.Context(), p.Options); err != nil {
		t.Fatal(err)
	}
	if err := p.readNode(t.Context()); err != nil || len(p.node.Status.Conditions) > 0 {
		t.Errorf("after a cleanup: %v, %+v", err, p.node.Status.Conditions)
	}
}
