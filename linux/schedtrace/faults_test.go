package schedtrace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/wait"
)

// childVariable makes the test binary another program: see TestMain.
const childVariable = "PINFOLD_TEST_CHILD"

// TestMain makes the test binary a process that traces until it is killed, one that only loads the
// programs, or a load.
func TestMain(m *testing.M) {
	switch what := os.Getenv(childVariable); what {
	case "compute", "sleep", "spawn":
		_, _ = fmt.Scanln() // until it is in its group; kernels before 6.2 then let it run on all CPUs again
		cpu, _ := strconv.Atoi(os.Getenv(cpuVariable))
		pin(cpu)
		runtime.LockOSThread()
		fmt.Println("ready")
		for {
			switch what {
			case "sleep":
				time.Sleep(time.Millisecond)
			case "spawn":
				_ = child("end").Run()
			}
		}
	case "end":
		os.Exit(0)
	case "trace":
		t, err := Open(Options{})
		if err == nil {
			_, err = t.Start()
		}
		if err == nil {
			info, _ := t.kernel.OnSwitch.Info()
			id, _ := info.ID()
			fmt.Println(id)
			_, err = t.Run(context.Background(), func(blame.Event) {})
		}
		fmt.Println(err)
		os.Exit(1)
	case "monitor":
		if err := monitor(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	case "open":
		_, err := Open(Options{})
		fmt.Print(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// cpuVariable is the CPU of a load, 0 by default.
const cpuVariable = "PINFOLD_TEST_CPU"

// pin makes all threads of this process run on a CPU, as do those that they start.
func pin(cpu int) {
	var one unix.CPUSet
	one.Set(cpu)
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			_ = unix.SchedSetaffinity(id, &one)
		}
	}
}

func child(what string) *exec.Cmd {
	command := exec.Command("/proc/self/exe")
	// The runtime must not interrupt a loop: its thread would sleep until others of its threads, which
	// may be throttled, have run.
	command.Env = append(os.Environ(), childVariable+"="+what, "GODEBUG=asyncpreemptoff=1")
	return command
}

// TestKilled: nothing stays in the kernel when the process is killed.
func TestKilled(t *testing.T) {
	open(t, Options{})
	command := child("trace")
	out := must(command.StdoutPipe())(t)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var id ebpf.ProgramID
	if _, err := fmt.Fscanln(out, &id); err != nil {
		t.Fatal(err)
	}
	loaded := func() bool {
		p, err := ebpf.NewProgramFromID(id)
		if err == nil {
			_ = p.Close()
		}
		return err == nil
	}
	if !loaded() {
		t.Fatalf("program %d is not loaded", id)
	}
	_ = command.Process.Kill()
	_ = command.Wait()
	wait.True(t, "the programs are removed", func() bool { return !loaded() })
}

// TestUnprivileged: the error of a user who may not trace says what is needed.
func TestUnprivileged(t *testing.T) {
	open(t, Options{})
	command := child("open")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out := must(command.CombinedOutput())(t)
	want := "cannot trace the scheduler: run as root, or with CAP_BPF and CAP_PERFMON (operation not permitted)"
	if got := strings.TrimSpace(string(out)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestCapabilities: a user with only the two capabilities can trace.
func TestCapabilities(t *testing.T) {
	open(t, Options{})
	command := child("trace")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534},
		AmbientCaps: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}}
	out := must(command.StdoutPipe())(t)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	line := must(bufio.NewReader(out).ReadString('\n'))(t)
	if _, err := strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Error(line)
	}
}

// TestTooExpensive: tracing ends when it costs more than it may, and says what it has seen.
func TestTooExpensive(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	group := newGroup(t, fs, "cost", 0)
	load(t, fs, group, "compute")
	o, err := Observe(t.Context(), fs, Request{Groups: []string{group}, Duration: time.Minute, Longest: 5}, Options{MaxShare: 1e-6})
	var expensive *CostError
	if !errors.As(err, &expensive) {
		t.Fatal(err)
	}
	if took := o.To - o.From; took < checkEvery/2 || o.sum(group).Runnable() == 0 {
		t.Errorf("after %v: %v", took, err)
	}
}

// TestVanishes: a group is removed while it is traced, another one while nothing runs in it, and
// processes start and end all the time.
func TestVanishes(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	stays, goes := newGroup(t, fs, "stays", 0), newGroup(t, fs, "goes", 20*time.Millisecond)
	load(t, fs, stays, "spawn")
	load(t, fs, goes, "compute")
	removed := make(chan error)
	remove := func() {
		time.Sleep(500 * time.Millisecond)
		removed <- errors.Join(cgrouptree.Kill(t.Context(), fs, goes, cgroup.CPU), cgrouptree.Remove(t.Context(), fs, goes, cgroup.CPU, cgroup.CPUAcct))
	}
	calls := 0
	o := trace(t, fs, Options{}, 2*time.Second, func() {
		if calls++; calls == 2 {
			go remove()
		}
	}, stays, goes)
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	if ended := o.sum(goes); len(ended.Threads) == 0 || busiest(ended).Runnable() >= o.To-o.From {
		t.Errorf("%d threads, of which one wanted to run for %v until the end", len(ended.Threads), busiest(ended).Runnable())
	}
	if sum := o.sum(stays); len(sum.Threads) < 2 || sum.Runnable() == 0 {
		t.Errorf("%d threads that wanted to run for %v", len(sum.Threads), sum.Runnable())
	}
}

// TestTwice: two tracers at once see the same.
func TestTwice(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	group := newGroup(t, fs, "twice", 30*time.Millisecond)
	load(t, fs, group, "compute")
	seen := make(chan *Observation, 2)
	for range 2 {
		go func() {
			o, err := Observe(t.Context(), fs, Request{Groups: []string{group}, Duration: time.Second, Longest: 5}, Options{})
			if err != nil {
				t.Error(err)
			}
			seen <- o
		}()
	}
	a, b := <-seen, <-seen
	if t.Failed() {
		return
	}
	one, two := busiest(a.sum(group)), busiest(b.sum(group))
	allowed := (a.From - b.From).Abs() + (a.To - b.To).Abs() + one.Unknown + two.Unknown + time.Millisecond
	if (one.Throttled-two.Throttled).Abs() > allowed || (one.Running+one.Stolen-two.Running-two.Stolen).Abs() > allowed {
		t.Errorf("throttled %v and %v, running %v and %v; they may differ by %v", one.Throttled, two.Throttled, one.Running, two.Running, allowed)
	}
}

// guestVariable is set in the virtual machines of test/vm.
const guestVariable = "PINFOLD_TEST_GUEST"

// TestHotplug: the CPU of a busy thread goes offline, and comes back.
func TestHotplug(t *testing.T) {
	if os.Getenv(guestVariable) == "" {
		t.Skip("takes a CPU offline: test/vm runs it in a virtual machine")
	}
	fs := cgrouptest.OpenHost(t)
	open(t, Options{})
	group := newGroup(t, fs, "hotplug", 0)
	t.Setenv(cpuVariable, "1")
	load(t, fs, group, "compute")
	const online = "/sys/devices/system/cpu/cpu1/online"
	t.Cleanup(func() { _ = os.WriteFile(online, []byte("1"), 0) })
	switched := make(chan error, 1)
	go func() {
		for _, state := range []string{"0", "1"} {
			time.Sleep(300 * time.Millisecond)
			if err := os.WriteFile(online, []byte(state), 0); err != nil {
				switched <- err
				return
			}
		}
		switched <- nil
	}()
	o := observe(t, fs, time.Second, group)
	if err := <-switched; err != nil {
		t.Fatal(err)
	}
	thread := busiest(o.sum(group))
	checkWhole(t, o, thread)
	if whole := o.To - o.From; thread.Sleeping > whole/20 || thread.Unknown > whole/2 {
		t.Errorf("it wanted to run for %v of %v, slept %v, unknown %v", thread.Runnable(), whole, thread.Sleeping, thread.Unknown)
	}
}
