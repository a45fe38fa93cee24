package schedtrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
)

// delays are the sums of the delays that a monitor has reported, by group.
type delays struct {
	mu                 sync.Mutex
	waiting, throttled map[string]time.Duration
}

func newDelays() *delays {
	return &delays{waiting: map[string]time.Duration{}, throttled: map[string]time.Duration{}}
}

func (d *delays) add(group string, one blame.Delay) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[group] += one.Waiting()
	d.throttled[group] += one.Throttled
}

func (d *delays) of(group string) (waiting, throttled time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting[group], d.throttled[group]
}

// within waits until something holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestMonitor observes two groups that take turns on a CPU, and then other ones.
func TestMonitor(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	a, b, c := newGroup(t, fs, "a", 0), newGroup(t, fs, "b", 0), newGroup(t, fs, "c", 10*time.Millisecond)
	load(t, fs, a, "compute")
	load(t, fs, b, "compute")
	seen := newDelays()
	m := NewMonitor(fs, Options{}, seen.add)
	m.Set([]string{a, b, a + "-missing"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	waited := func(group string) time.Duration {
		w, _ := m.Waited(group)
		return w.Total
	}
	within(t, "both wait", func() bool { return waited(a) > 0 && waited(b) > 0 })
	before, usage, begin := waited(a), must(cgroupstat.Read(fs, b))(t).Usage, time.Now()
	time.Sleep(2 * time.Second)
	got, used, took := waited(a)-before, must(cgroupstat.Read(fs, b))(t).Usage-usage, time.Since(begin)
	if got < used*8/10-100*time.Millisecond || got > took+100*time.Millisecond {
		t.Errorf("it waited %v of %v, while the other used %v", got, took, used)
	}
	// A thread waits for a few milliseconds at a time, so nearly all of that has ended. Threads of the
	// Go runtime wait, too, at the same time.
	if sum, throttled := seen.of(a); sum < waited(a)*8/10-100*time.Millisecond || sum > 2*waited(a) || throttled > 0 {
		t.Errorf("the delays add up to %v, throttled %v; it waited %v", sum, throttled, waited(a))
	}
	if _, known := m.Waited(a + "-missing"); known {
		t.Error("it is known how long a group waited that does not exist")
	}

	load(t, fs, c, "compute")
	m.Set([]string{b, c})
	within(t, "a group that is not wanted any more is not observed", func() bool { _, known := m.Waited(a); return !known })
	within(t, "a new group is throttled", func() bool { _, throttled := seen.of(c); return throttled > 0 })
	if cost, _ := m.Cost(); cost.Lost > 0 {
		t.Errorf("%d events were lost", cost.Lost)
	}
	if sum := waited(b); sum < got/2 {
		t.Errorf("the group that stays waited %v altogether, and before that the other %v", sum, got)
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
// the capabilities BPF and PERFMON, like the agent's.
func TestMonitorInContainer(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	group := newGroup(t, fs, "group", 10*time.Millisecond)
	load(t, fs, group, "compute")
	command := child("monitor")
	command.Env = append(command.Env, groupVariable+"="+group)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID,
		Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}}
	if out, err := command.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "throttled" {
		t.Errorf("%s, %v", out, err)
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	if !errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("not throttled")
	}
	fmt.Println("throttled")
	return nil
}

// TestNewGroups: a group is made below one that is traced.
func TestNewGroups(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	outer := newGroup(t, fs, "outer", 0)
	seen := make(chan *Observation)
	go func() {
		o, err := Observe(t.Context(), fs, Request{Groups: []string{outer}, Duration: 4 * time.Second, Longest: 5}, Options{})
		if err != nil {
			t.Error(err)
		}
		seen <- o
	}()
	time.Sleep(time.Second)
	inner := newGroup(t, fs, "outer/inner", 0)
	load(t, fs, inner, "compute")
	o := <-seen
	if t.Failed() {
		return
	}
	if sum := o.sum(outer); sum.Runnable() < time.Second {
		t.Errorf("the new group wanted to run for %v", sum.Runnable())
	}
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
		if calls++; calls == 100 {
			time.Sleep(300 * time.Millisecond) // the ring is full long before
		}
	})
	m.Set([]string{group})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	var first Waited
	within(t, "the group waits", func() bool { first, _ = m.Waited(group); return first.Total > 0 })
	within(t, "counting begins anew", func() bool { w, known := m.Waited(group); return known && w.Epoch > first.Epoch && w.Total > 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if cost, _ := m.Cost(); cost.Lost == 0 {
		t.Error("no events were lost")
	}
}
