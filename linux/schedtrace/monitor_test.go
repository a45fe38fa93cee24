package schedtrace

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/wait"
)

// TestMonitor observes two groups that take turns on a CPU, and then other ones.
func TestMonitor(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	a, b, c := newGroup(t, fs, "a", 0), newGroup(t, fs, "b", 0), newGroup(t, fs, "c", 2*time.Millisecond)
	load(t, fs, a, "compute")
	load(t, fs, b, "compute")
	var waiting, throttled sync.Map // groups whose threads were delayed
	m := NewMonitor(fs, Options{}, func(group string, d blame.Delay) {
		if d.Waiting() > 0 {
			waiting.Store(group, true)
		}
		if d.Throttled > 0 {
			throttled.Store(group, true)
		}
	})
	contains := func(groups *sync.Map, group string) bool { _, ok := groups.Load(group); return ok }
	m.Set([]string{a, b, a + "-missing"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	waited := func(group string) time.Duration {
		w, _ := m.Waited(group)
		return w.Total
	}
	wait.True(t, "both wait", func() bool { return waited(a) > 0 && waited(b) > 0 })
	look := func() (w Waited, usage, late time.Duration) {
		w, _ = m.Waited(a)
		return w, must(cgroupstat.Read(fs, b))(t).Usage, Now() - w.Until
	}
	begin := time.Now()
	before, usedBefore, lateBefore := look()
	time.Sleep(time.Second)
	after, used, late := look()
	if after.Epoch != before.Epoch {
		t.Skip("disturbed: events were lost, because they were read too late")
	}
	used -= usedBefore + lateBefore + late // until the time for which waits are known
	if got, took := after.Total-before.Total, after.Until-before.Until; got < used*8/10-100*time.Millisecond || got > took {
		t.Errorf("it waited %v of %v, while the other used %v", got, took, used)
	}
	if !contains(&waiting, a) || contains(&throttled, a) {
		t.Errorf("no delay of the group was waiting, or one was throttled; it waited %v", after.Total)
	}
	waitedB := waited(b)
	if _, known := m.Waited(a + "-missing"); known {
		t.Error("it is known how long a group waited that does not exist")
	}

	load(t, fs, c, "compute")
	m.Set([]string{b, c})
	wait.True(t, "a group that is not wanted any more is not observed", func() bool { _, known := m.Waited(a); return !known })
	wait.True(t, "a new group is throttled", func() bool { return contains(&throttled, c) })
	if cost, _ := m.Cost(); cost.Lost == 0 && waited(b) < waitedB {
		t.Errorf("the group that stays waited %v altogether, and before that %v", waited(b), waitedB)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	cost, running := m.Cost()
	if _, known := m.Waited(b); known || running {
		t.Errorf("after the end: known %v, running %v", known, running)
	}
	if cost.Switches == 0 || cost.SwitchTime == 0 || cost.KernelTime < cost.SwitchTime || cost.HandleTime == 0 || cost.HandleTime > time.Since(begin) {
		t.Errorf("cost %+v", cost)
	}
	if len(m.plan.watched) != 2 {
		t.Errorf("%d groups are still traced: %v", len(m.plan.watched), m.plan.watched)
	}
}

// TestMonitorInContainer observes a group from a process that has a PID namespace of its own and
// the capabilities BPF and PERFMON, like the agent's. Another user's group is private.
func TestMonitorInContainer(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	private := newGroup(t, fs, "a-private", 0)
	must(0, os.Chmod(fs.Dir(cgroup.CPU, private), 0o711))(t)
	group := newGroup(t, fs, "group", 2*time.Millisecond) // used up on a busy machine, too
	load(t, fs, group, "compute")
	command := child("monitor")
	command.Env = append(command.Env, groupVariable+"="+group)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID,
		Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}}
	out := must(command.StdoutPipe())(t)
	must(0, command.Start())(t)
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	seen := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		seen <- strings.TrimSpace(line)
	}()
	throttled := func() uint64 { return must(cgroupstat.Read(fs, group))(t).Throttled }
	for before := throttled(); ; time.Sleep(10 * time.Millisecond) {
		select {
		case line := <-seen:
			if line != "throttled" {
				t.Errorf("it says %q", line)
			}
			return
		default:
		}
		if n := throttled() - before; n > 300 {
			t.Fatalf("the kernel has throttled it %d times, and none was observed", n)
		}
	}
}

// groupVariable names the group for the child "monitor".
const groupVariable = "PINFOLD_TEST_GROUP"

// monitor is the child of TestMonitorInContainer: it prints "throttled" when the group is
// throttled.
func monitor() error {
	fs, err := cgroup.Open("/")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m := NewMonitor(fs, Options{}, func(_ string, d blame.Delay) {
		if d.Throttled > 0 {
			cancel()
		}
	})
	m.Set([]string{os.Getenv(groupVariable)})
	if err := m.Run(ctx); err != nil {
		return err
	}
	fmt.Println("throttled")
	return nil
}

// TestNewGroups: a group is made below one that is traced.
func TestNewGroups(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	outer := newGroup(t, fs, "outer", 0)
	started, ended := make(chan struct{}), make(chan error, 1)
	var seen atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := Observe(ctx, fs, Request{Groups: []string{outer}, Started: func() { close(started) },
			Span: func(*Observation, blame.Group, blame.Span) { seen.Store(true) }}, Options{})
		ended <- err
	}()
	<-started
	load(t, fs, newGroup(t, fs, "outer/inner", 0), "compute")
	wait.True(t, "a thread of the new group is observed", seen.Load)
	cancel()
	must(0, <-ended)(t)
}

// TestMonitorLoss: after events were lost, counting begins anew, and says so.
func TestMonitorLoss(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	group := newGroup(t, fs, "loss", 0)
	load(t, fs, group, "sleep")
	load(t, fs, group, "compute")
	calls := 0
	m := NewMonitor(fs, Options{Ring: 4096}, func(string, blame.Delay) {
		if calls++; calls%100 == 0 {
			time.Sleep(300 * time.Millisecond) // the ring is full long before, if the loads run meanwhile
		}
	})
	m.Set([]string{group})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	var first Waited
	wait.True(t, "the group waits", func() bool { first, _ = m.Waited(group); return first.Total > 0 })
	wait.True(t, "counting begins anew", func() bool { w, known := m.Waited(group); return known && w.Epoch > first.Epoch && w.Total > 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if cost, _ := m.Cost(); cost.Lost == 0 {
		t.Error("no events were lost")
	}
}
