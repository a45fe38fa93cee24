package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// hostTree makes cgroups on this machine as a kubelet and a runtime do, below a cgroup of the test.
type hostTree struct {
	t    testing.TB
	fs   *cgroup.FS
	root string
}

func newHostTree(t testing.TB) *hostTree {
	t.Helper()
	need.This(t, "control groups of this machine")
	fs := cgrouptest.OpenHost(t)
	if fs.Layout().CPU != cgroup.V1 {
		t.Skip("this test makes control groups of version 1; test/vm tests version 2")
	}
	tree := &hostTree{t, fs, fmt.Sprintf("/pinfold-agent-test-%d", os.Getpid())}
	t.Cleanup(func() { tree.remove(tree.root) })
	for _, group := range []string{"", "/kubepods", "/kubepods/burstable", "/kubepods/besteffort"} {
		tree.make(tree.root + group)
	}
	return tree
}

// divide returns one CPU of this machine, for a bound pod, and the others.
func (h *hostTree) divide() (own, rest cpuset.Set) {
	h.t.Helper()
	online, err := h.fs.Effective("/")
	if err != nil {
		h.t.Fatal(err)
	}
	if online.Len() < 2 {
		h.t.Skip("this machine has one CPU; binding needs two")
	}
	own = cpuset.Of(online.First())
	return own, online.Difference(own)
}

// make makes a cgroup with the CPUs and memory nodes of its parent, unless it exists. It tries again if
// an agent removes CPUs from the parent meanwhile, because the kernel then rejects the old ones.
func (h *hostTree) make(group string) {
	h.t.Helper()
	var err error
	for range 10 {
		if h.fs.Exists(group) {
			return
		}
		if err = cgrouptree.Make(h.fs, group, cgroup.CPU, cgroup.CPUSet, cgroup.CPUAcct); !errors.Is(err, os.ErrPermission) {
			break
		}
	}
	must.Do(h.t, err)
}

func (h *hostTree) write(file, value string) {
	h.t.Helper()
	must.Do(h.t, os.WriteFile(file, []byte(value), 0o644))
}

// container makes the cgroup of a container and a process in it.
func (h *hostTree) container(pod *corev1.Pod, id string) (group string, pid int) {
	h.t.Helper()
	h.make(h.podGroup(pod))
	group = h.podGroup(pod) + "/" + id
	h.make(group)
	process := h.start(exec.Command("sleep", "300"), group)
	h.move(process, group, cgroup.CPUSet)
	return group, process.Pid
}

// start starts a command in a cgroup, with the CPUs of this process. It ends with the test.
func (h *hostTree) start(command *exec.Cmd, group string) *os.Process {
	h.t.Helper()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	h.move(command.Process, group, cgroup.CPU, cgroup.CPUAcct)
	return command.Process
}

func (h *hostTree) move(process *os.Process, group string, controllers ...cgroup.Controller) {
	h.t.Helper()
	cgrouptest.Move(h.t, h.fs, group, process.Pid, controllers...)
}

// set writes a setting of a container and of its pod, the pod's first.
func (h *hostTree) set(container string, file cgroup.File, value string) {
	h.t.Helper()
	for _, group := range []string{filepath.Dir(container), container} {
		h.write(h.fs.File(group, file), value)
	}
}

// world returns a world whose kubelet has made these cgroups for the pods.
func (h *hostTree) world(t *testing.T, pods ...*corev1.Pod) *world {
	t.Helper()
	w := newWorld(t, pods...)
	w.root, w.kubelet.CgroupRoot = "/", h.root
	return w
}

func (h *hostTree) podGroup(pod *corev1.Pod) string {
	return h.root + "/kubepods/burstable/pod" + string(pod.UID)
}

// remove removes a cgroup and those below it, whose processes have ended.
func (h *hostTree) remove(group string) {
	h.t.Helper()
	must.Do(h.t, cgrouptree.Remove(context.Background(), h.fs, group, cgroup.CPU, cgroup.CPUSet, cgroup.CPUAcct))
}

// allowed returns the CPUs that a process may run on.
func allowed(t *testing.T, pid int) string {
	t.Helper()
	return must.Get(sysfs.AffinityOf(pid))(t).String()
}

// TestOnThisMachine runs the agent on the cgroups of this machine, with a bound pod and another
// one. It covers the start, a foreign write, the agent's end, and the cleanup.
func TestOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	own, rest := tree.divide()
	online := own.Union(rest)
	bound := asking("bound")
	beside := newPod("beside")
	idBound, idBeside := containerID('a'), containerID('b')
	run(bound, idBound)
	run(beside, idBeside)
	groupBound, pidBound := tree.container(bound, idBound)
	groupBeside, pidBeside := tree.container(beside, idBeside)
	tree.set(groupBound, cgroup.CPUCFSQuota, "100000")
	inner := groupBound + "/some" // as crun makes it
	tree.make(inner)
	tree.write(tree.fs.File(inner, cgroup.CPUCFSQuota), "100000")
	cgrouptest.Move(t, tree.fs, inner, pidBound, cgroup.CPU, cgroup.CPUSet)

	w := tree.world(t, bound, beside)
	stop := w.start()
	w.eventually(func() error {
		switch {
		case allowed(t, pidBound) != own.String():
			return fmt.Errorf("the bound pod runs on %s, want %s", allowed(t, pidBound), own)
		case allowed(t, pidBeside) != rest.String():
			return fmt.Errorf("the other pod runs on %s, want %s", allowed(t, pidBeside), rest)
		}
		for _, group := range []string{inner, groupBound, tree.podGroup(bound)} {
			if s, err := tree.fs.Read(group); err != nil || s.Quota != bandwidth.Unlimited {
				return errors.Join(err, fmt.Errorf("%s has quota %v, want none", group, s.Quota))
			}
		}
		s, err := tree.fs.Read(groupBeside)
		if err != nil || s.Quota != 100*time.Millisecond {
			return errors.Join(err, fmt.Errorf("the other container has quota %v, want 100ms", s.Quota))
		}
		return nil
	})

	// The pod first: the kernel rejects CPUs of a container that its pod does not have.
	tree.set(groupBeside, cgroup.CPUSetCPUs, online.String())
	w.eventually(func() error {
		if got := allowed(t, pidBeside); got != rest.String() {
			return fmt.Errorf("after a foreign write the other pod runs on %s", got)
		}
		return nil
	})
	stop()
	if got := allowed(t, pidBound); got != own.String() {
		t.Errorf("after the agent has stopped, the bound pod runs on %s", got)
	}
	if _, err := Cleanup(t.Context(), w.options()); err != nil {
		t.Fatal(err)
	}
	s, err := tree.fs.Read(groupBound)
	if err != nil || s.CPUs != online || s.Quota != 100*time.Millisecond {
		t.Errorf("after the cleanup %+v (%v)", s, err)
	}
	if s, err = tree.fs.Read(tree.podGroup(bound)); err != nil || s.Quota != 100*time.Millisecond {
		t.Errorf("after the cleanup the pod has %+v (%v)", s, err)
	}

	// An administrator withholds a CPU from all pods. No pod gets it, and every pod keeps its quota.
	all := tree.root + "/kubepods"
	for _, group := range []string{inner, groupBound, groupBeside, tree.podGroup(bound), tree.podGroup(beside), all + "/burstable", all + "/besteffort", all} {
		tree.write(tree.fs.File(group, cgroup.CPUSetCPUs), rest.String())
	}
	stop = w.start()
	defer stop()
	w.eventually(func() error {
		s, err := tree.fs.Read(groupBound)
		above, errAbove := tree.fs.ReadParts(all, cgroup.Parts{CPUs: true})
		if c := w.condition(); !strings.Contains(c.Message, "group "+all+" may not use the others") || err != nil || s.CPUs != rest || s.Quota < 0 {
			return fmt.Errorf("the bound pod has %+v (%w), and the node says %s", s, err, c.Message)
		} else if above.CPUs != rest {
			t.Fatalf("all pods have CPUs %s (%v)", above.CPUs, errAbove)
		}
		return nil
	})
}

// TestSandboxOnThisMachine: a container that runs in its pod's cgroup, as with gVisor, keeps its quota, until it
// runs in its own.
func TestSandboxOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	tree.divide()
	bound := asking("bound")
	run(bound, containerID('a'))
	pod := tree.podGroup(bound)
	group := pod + "/" + containerID('a')
	tree.make(pod)
	tree.make(group)
	process := tree.start(exec.Command("sleep", "300"), pod)
	tree.set(group, cgroup.CPUCFSQuota, "100000")
	w := tree.world(t, bound)
	defer w.start()()
	quota := func(want time.Duration) error {
		of, errPod := tree.fs.Read(pod)
		s, err := tree.fs.Read(group)
		if of.Quota != want || s.Quota != want {
			err = errors.Join(err, errPod, fmt.Errorf("the pod has quota %v, and its container %v, want %v", of.Quota, s.Quota, want))
		}
		return err
	}
	w.eventually(func() error {
		return errors.Join(w.told("bound", groups.NotEnforced, "nothing runs in a control group"), quota(100*time.Millisecond))
	})
	tree.move(process, group, cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet)
	w.eventually(func() error { return quota(bandwidth.Unlimited) })
}
