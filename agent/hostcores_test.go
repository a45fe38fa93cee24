package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/priority"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// TestCoresOnThisMachine runs rounds of the agent with core scheduling on cgroups of version 2 of
// this machine: a batch pod has the cookie, another one has not. The cookie follows changes of the
// class, is given to processes that join, is recognised by the next agent, and is taken by one
// without core scheduling and by a cleanup.
func TestCoresOnThisMachine(t *testing.T) {
	if err := priority.CheckCores(); err != nil {
		t.Skipf("%v; test/vm runs this test on a machine with several hardware threads per core", err)
	}
	tree := newGroupTree(t)
	runDir := t.TempDir()
	batch, online := newBatchPod("batch", "700"), newPod("online")
	run(batch, containerID('a'))
	run(online, containerID('b'))
	pids := []int{tree.sleeping(batch, containerID('a')), tree.sleeping(online, containerID('b'))}
	quota, group := 100*time.Millisecond, tree.pod(online) // the kubelet has set the limit
	if err := tree.fs.Apply(map[string]cgroup.Wanted{group: {Quota: &quota}, group + "/" + containerID('b'): {Quota: &quota}}).Err(); err != nil {
		t.Fatal(err)
	}
	pods := []*corev1.Pod{batch, online}
	begin := func(priority string) *agent {
		t.Helper()
		return tree.engine(priority, Options{RunDir: runDir}, func() []*corev1.Pod { return pods })
	}
	// check compares which processes have a cookie, and returns it.
	check := func(when string, want ...bool) (cookie priority.Cookie) {
		t.Helper()
		for i, pid := range pids {
			now, err := priority.Of(pid)
			if err != nil {
				t.Fatal(err)
			}
			if (now != 0) != want[i] || now != 0 && cookie != 0 && now != cookie {
				t.Errorf("%s: process %d has cookie %x, want one: %v", when, i, now, want[i])
			}
			cookie = max(cookie, now)
		}
		return cookie
	}
	setClass := func(class qos.Class) {
		online = online.DeepCopy()
		online.Labels = map[string]string{api.QoSLabel: string(class)}
		pods = []*corev1.Pod{batch, online}
	}

	e := begin("core-scheduling")
	e.round()
	first := check("at first", true, false)
	setClass(qos.BE)
	e.round()
	check("as two batch pods", true, true)
	setClass(qos.LS)
	e.round()
	check("as an online pod again", true, false)
	pids = append(pids, tree.sleeping(batch, containerID('a')))
	check("of a process that joined", true, false, false)
	e.round()
	check("after a round", true, false, true)

	e = begin("core-scheduling")
	setClass(qos.BE)
	e.round()
	if now := check("with the next agent", true, true, true); now != first {
		t.Errorf("the next agent gives the cookie %x, want %x", now, first)
	}
	e = begin("idle")
	known := e.pods.list
	e.pods.list = func() []*corev1.Pod { return nil }
	e.round()
	check("while the pods are not known", true, true, true)
	e.pods.list = known
	e.round()
	check("without core scheduling", false, false, false)
	begin("core-scheduling").round()
	check("with it again", true, true, true)
	var groups []string
	for _, pod := range pods {
		groups = append(groups, tree.pod(pod))
	}
	if err := e.cookies.Forget(groups); err != nil {
		t.Fatal(err)
	}
	check("after a cleanup", false, false, false)
	if _, err := os.Stat(filepath.Join(runDir, "batch-cookie")); !os.IsNotExist(err) {
		t.Errorf("after the cleanup, the file of the cookie: %v", err)
	}
}

// groupTree is cgroups of version 2 on this machine, as a kubelet and a runtime make them.
type groupTree struct {
	t    *testing.T
	fs   *cgroup.FS
	root string
}

func newGroupTree(t *testing.T) *groupTree {
	t.Helper()
	need.This(t, "control groups of this machine")
	fs := cgrouptest.OpenHost(t)
	if fs.Layout() != (cgroup.Layout{CPU: cgroup.V2, CPUSet: cgroup.V2}) {
		t.Skip("this test makes control groups of version 2")
	}
	g := &groupTree{t, fs, fmt.Sprintf("/pinfold-agent-cores-%d", os.Getpid())}
	t.Cleanup(func() {
		if err := cgrouptree.Remove(context.Background(), fs, g.root, cgroup.CPU); err != nil {
			t.Error(err)
		}
	})
	for _, group := range []string{"", "/kubepods", "/kubepods/burstable", "/kubepods/besteffort"} {
		g.make(g.root + group)
	}
	return g
}

// engine returns an agent for the pods in these cgroups, which puts batch pods behind others by the
// mechanisms.
func (g *groupTree) engine(mechanisms string, o Options, pods func() []*corev1.Pod) *agent {
	g.t.Helper()
	o.Config, o.Log = control.Config{NodeName: nodeName}, slog.New(slog.NewTextHandler(g.t.Output(), nil))
	var err error
	if o.Priority, err = colocation.ParsePriority(mechanisms); err != nil {
		g.t.Fatal(err)
	}
	k, err := openKernel("/")
	if err != nil {
		g.t.Fatal(err)
	}
	e := newAgent(o.withDefaults(), k)
	e.pods.list = pods
	e.setKubelet(control.Kubelet{CPUManagerPolicy: "none", CgroupRoot: g.root})
	e.step(control.Event{Reserved: new(ledger.MilliCPU)})
	return e
}

// make makes a group in which groups may be made, unless it exists.
func (g *groupTree) make(group string) {
	g.t.Helper()
	if !g.fs.Exists(group) {
		must.Do(g.t, cgrouptree.Make(g.fs, group, cgroup.CPU, cgroup.CPUSet))
	}
}

func (g *groupTree) pod(pod *corev1.Pod) string {
	return g.root + "/kubepods/" + strings.ToLower(string(pod.Status.QOSClass)) + "/pod" + string(pod.UID)
}

// sleeping starts a process in a container, which it makes if necessary.
func (g *groupTree) sleeping(pod *corev1.Pod, id string) (pid int) {
	g.t.Helper()
	return g.start(pod, id, "sleep")
}

// start starts a process in a container, which it makes if necessary: one that sleeps, or that
// spins on a CPU ("spin 3").
func (g *groupTree) start(pod *corev1.Pod, id, what string) (pid int) {
	g.t.Helper()
	group := g.pod(pod)
	g.make(group)
	g.make(group + "/" + id)
	command := exec.Command(os.Args[0], "-test.run=^TestSleep$")
	command.Env = append(os.Environ(), sleepEnv+"="+what)
	input, err := command.StdinPipe() // with which the process ends
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = input.Close(); _ = command.Process.Kill(); _ = command.Wait() })
	cgrouptest.Move(g.t, g.fs, group+"/"+id, command.Process.Pid, cgroup.CPU)
	return command.Process.Pid
}

// sleepEnv makes TestSleep a process to be put into cgroups.
const sleepEnv = "PINFOLD_TEST_SLEEP"

func TestSleep(t *testing.T) {
	if os.Getenv(sleepEnv) == "" {
		t.Skip("another test runs this one in a process of its own")
	}
	if cpu, spins := strings.CutPrefix(os.Getenv(sleepEnv), "spin "); spins {
		var one unix.CPUSet
		number, err := strconv.Atoi(cpu)
		if err != nil {
			t.Fatal(err)
		}
		one.Set(number)
		runtime.LockOSThread()
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		for os.Getppid() != 1 { // the test has not ended
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
