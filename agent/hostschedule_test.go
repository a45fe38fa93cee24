package agent

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/scx"
	"pinfold.dev/pinfold/test/bpf"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// TestScheduleOnThisMachine runs the agent's scheduler for batch pods: threads of batch pods are
// turned over, those that join and those of a pod that becomes a batch pod too, and back; the next
// agent goes on, also without the scheduler; a scheduler of another program is left alone.
func TestScheduleOnThisMachine(t *testing.T) {
	if why := scx.Test(); why != nil {
		t.Skipf("%s; test/vm runs this test on a kernel that has it", why)
	}
	tree := newGroupTree(t)
	runDir := t.TempDir()
	batch, online := newBatchPod("batch", "700"), newBatchPod("online", "700")
	online.Labels = nil
	run(batch, containerID('a'))
	run(online, containerID('b'))
	pids := []int{tree.sleeping(batch, containerID('a')), tree.sleeping(online, containerID('b'))}
	pods := []*corev1.Pod{batch, online}

	var e *agent
	var stop func()
	begin := func(priority string) {
		t.Helper()
		e = tree.engine(priority, Options{RunDir: runDir, RetryAfter: 100 * time.Millisecond}, func() []*corev1.Pod { return pods })
		stop = schedule(t, e)
	}
	// await waits until exactly these processes have the policy SCHED_EXT.
	await := func(when string, want ...bool) {
		t.Helper()
		wait.Until(t, when, func() error {
			e.round() // changes of a class may have to wait for a few of them
			var got []bool
			for _, pid := range pids {
				got = append(got, must.Get(unix.SchedGetAttr(pid, 0))(t).Policy == 7)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("SCHED_EXT have %v, want %v", got, want)
			}
			return nil
		})
	}
	setClass := func(class qos.Class) {
		online = online.DeepCopy()
		online.Labels = map[string]string{api.QoSLabel: string(class)}
		pods = []*corev1.Pod{batch, online}
		e.round()
	}
	idle := func(pod *corev1.Pod) bool {
		text, err := os.ReadFile("/sys/fs/cgroup" + tree.pod(pod) + "/cpu.idle")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text)) == "1"
	}

	begin("sched_ext")
	await("at first", true, false)
	if !idle(batch) || idle(online) {
		t.Error("cpu.idle is not that of the batch pod alone")
	}
	if name := scx.Running(); name != scx.Name+"_"+scx.Version() {
		t.Errorf("the kernel runs %q", name)
	}
	setClass(qos.BE)
	await("as two batch pods", true, true)
	setClass(qos.LS)
	await("as an online pod again", true, false)
	pids = append(pids, tree.sleeping(batch, containerID('a')))
	await("of a process that joined", true, false, true)
	stop()
	begin("sched_ext")
	gap := func() time.Duration { return e.scheduler.Status().Gap }
	wait.True(t, "the next scheduler runs", func() bool { return gap() != 0 })
	await("with the next agent", true, false, true)
	if gap() <= 0 || gap() > time.Minute {
		t.Errorf("without a scheduler for %v", gap())
	}
	stop()
	begin("idle")
	await("without the scheduler", false, false, false)
	stop()
	if name := scx.Running(); name != "" {
		t.Errorf("the kernel still runs %q", name)
	}

	theirs, err := scx.Load(scx.Options{Name: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := theirs.Attach(); err != nil {
		t.Fatal(err)
	}
	begin("sched_ext")
	wait.True(t, "the agent sees the scheduler of another program", func() bool { return e.scheduler.Status().Lacking != "" })
	e.round()
	if c := e.status.Batch.Mechanisms; !slices.Equal(c.Lacking, []colocation.Mechanism{colocation.SchedExt}) || !slices.Equal(c.Use, []colocation.Mechanism{colocation.Idle}) {
		t.Errorf("beside the scheduler of another program: %+v", c)
	}
	if name := scx.Running(); name != "theirs" {
		t.Errorf("the kernel runs %q", name)
	}
	if !idle(batch) {
		t.Error("the batch pod is not idle")
	}
	if err := theirs.Detach(); err != nil {
		t.Fatal(err)
	}
	await("after that has gone", true, false, true)
	stop()
	if err := scx.TurnBack(tree.fs, []string{tree.pod(batch)}); err != nil {
		t.Fatal(err)
	}
	await("after a cleanup", false, false, false)
}

// TestRescueOnThisMachine: online pods use all CPUs all the time, and the kernel keeps nothing for
// batch pods. A batch pod then gets a little time in the fair class, and the kernel does not end
// the scheduler.
func TestRescueOnThisMachine(t *testing.T) {
	if why := scx.Test(); why != nil {
		t.Skipf("%s; test/vm runs this test on a kernel that has it", why)
	}
	tree := newGroupTree(t)
	bpf.NoExtServer(t)
	batch, online := newBatchPod("batch", "700"), newBatchPod("online", "700")
	online.Labels = nil
	run(batch, containerID('a'))
	run(online, containerID('b'))
	for cpu := range runtime.NumCPU() {
		tree.start(online, containerID('b'), fmt.Sprint("spin ", cpu))
	}
	tree.start(batch, containerID('a'), "spin 1")
	e := tree.engine("sched_ext", Options{RunDir: t.TempDir(), BatchMaxWait: 100 * time.Millisecond},
		func() []*corev1.Pod { return []*corev1.Pod{batch, online} })
	defer schedule(t, e)()
	wait.True(t, "the batch pod was given to the fair class twice", func() bool { return e.scheduler.Status().Rescued >= 2 })
	s := e.scheduler.Status()
	stat, err := cgroupstat.Read(tree.fs, tree.pod(batch))
	t.Logf("the batch pod was given to the fair class %d times, and used %v: %+v", s.Rescued, stat.Usage, s.Stats)
	if err != nil || s.Rescued < 2 || !s.Running || s.Ended > 0 || s.Lacking != "" {
		t.Errorf("want the pod to be given twice, and the scheduler to run: ended %d times, %s %v", s.Ended, s.Lacking, err)
	}
}

// schedule runs the scheduler of an agent after a round, until stop is called.
func schedule(t *testing.T, e *agent) (stop func()) {
	e.round()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { e.scheduler.Run(ctx); close(ended) }()
	return func() { cancel(); <-ended }
}
