package scx

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/test/bpf"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// hold makes the test binary a process that runs a scheduler until it is killed, and turns a thread
// over.
func hold(thread int) {
	s, err := Load(Options{})
	if err == nil {
		err = s.Attach()
	}
	if err == nil {
		err = unix.SchedSetAttr(thread, &unix.SchedAttr{Policy: policyExt}, 0)
	}
	fmt.Println(Running(), err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// progress waits until threads of each group have run for a while.
func (b bench) progress(when string, groups ...string) {
	b.Helper()
	for _, group := range groups {
		usage := func() time.Duration { return must.Get(cgroupstat.Read(b.fs, group))(b).Usage }
		before := usage()
		wait.Until(b, when, func() error {
			if used := usage() - before; used < 100*time.Millisecond {
				return fmt.Errorf("%s used %v", group, used)
			}
			return nil
		})
	}
}

// TestKilled: when the process that runs the scheduler is killed, its threads run on in the fair
// class. The process has the capabilities of the agent in its pod, and no others.
func TestKilled(t *testing.T) {
	b := newBench(t)
	batch := b.group("batch")
	load := b.start(batch, "busy", 50, b.machine.Online())
	must.Get(TurnOver(b.fs, []string{batch}))(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=hold %d", taskVariable, load.cmd.Process.Pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534},
		AmbientCaps: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_NICE}}
	in, out := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	defer in.Close()
	must.Do(t, cmd.Start())
	line, _ := bufio.NewReader(out).ReadString('\n')
	if want := Name + "_" + Version() + " <nil>\n"; line != want {
		t.Errorf("the process printed %q, want %q", line, want)
	}
	b.progress("before", batch)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	b.gone()
	b.progress("after", batch)
	b.attached(Options{}) // another one can be loaded
	b.progress("again", batch)
}

// gone waits until the kernel runs no scheduler.
func (b bench) gone() {
	b.Helper()
	wait.True(b, "the kernel runs no scheduler", func() bool { return Running() == "" })
}

// TestAttach attaches a scheduler, refuses a second one and then replaces it, without any load.
func TestAttach(t *testing.T) {
	b := newBench(t)
	first, next := b.load(Options{Name: "first"}), b.load(Options{Name: "next"})
	must.Do(t, first.Attach())
	if err := next.Attach(); !errors.Is(err, ErrBusy) || Running() != "first" {
		t.Errorf("beside %q: error %v", Running(), err)
	}
	if err := errors.Join(first.Detach(), next.Attach()); err != nil || Running() != "next" {
		t.Errorf("the kernel runs %q: %v", Running(), err)
	}
	must.Do(t, next.Detach())
}

// TestTwo: a second scheduler is refused, and the first one goes on.
func TestTwo(t *testing.T) {
	b := newBench(t)
	b.attached(Options{Name: "theirs"})
	batch := b.batch("batch", 10, b.machine.Online())
	err := b.load(Options{}).Attach()
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("error %v, want one that names the other scheduler", err)
	}
	if name := Running(); name != "theirs" {
		t.Errorf("the kernel runs %q", name)
	}
	b.progress("after", batch)
}

// TestAttachOften attaches and detaches a scheduler 100 times while its threads, and others, run.
func TestAttachOften(t *testing.T) {
	b := newBench(t)
	all := b.machine.Online()
	online := b.group("online")
	b.start(online, "wake", 50, all)
	batch := b.batch("batch", 100, all)
	s := b.load(Options{})
	b.setPods(s, b.pod(batch, 1))
	began := schedtrace.Now()
	for i := range 100 {
		if err := s.Attach(); err != nil {
			t.Fatalf("attached %d times: %v", i, err)
		}
		if err := s.Detach(); err != nil {
			t.Fatalf("detached %d times: %v", i, err)
		}
	}
	t.Logf("once takes %v", (schedtrace.Now()-began)/100)
	b.progress("after", batch, online)
}

// TestReplace replaces a scheduler by another one while threads run. The timer of the old one ends.
func TestReplace(t *testing.T) {
	b := newBench(t)
	all := b.machine.Online()
	online := b.group("online")
	b.start(online, "wake", 50, all)
	batch := b.batch("batch", 100, all)
	old, next := b.load(Options{Name: "old"}), b.load(Options{Name: "next"})
	must.Do(t, old.Attach())
	b.setPods(next, b.pod(batch, 1))
	began := schedtrace.Now()
	if err := errors.Join(old.Detach(), next.Attach()); err != nil || Running() != "next" {
		t.Fatalf("the kernel runs %q: %v", Running(), err)
	}
	t.Logf("without a scheduler for %v", schedtrace.Now()-began)
	const mark = 12345
	must.Do(t, old.kernel.NrWaiting.Set(uint64(mark)))
	b.progress("after", batch, online)
	if n := must.Get(old.Stats())(t).Queued; n != mark {
		t.Errorf("the timer of the old scheduler runs: it counted %d waiting threads", n)
	}
}

// TestHotplug takes CPUs offline, and online again, while batch work runs on them.
func TestHotplug(t *testing.T) {
	b := newBench(t)
	all := b.machine.Online()
	s := b.attached(Options{})
	batch := b.batch("batch", 50, all)
	b.setPods(s, b.pod(batch, 1))
	for range 3 {
		for cpu := range all.All() {
			file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
			if _, err := os.Stat(file); err != nil {
				continue // it cannot be taken offline
			}
			for _, state := range []string{"0", "1"} {
				must.Do(t, os.WriteFile(file, []byte(state), 0))
			}
		}
	}
	b.progress("after", batch)
}

// TestWatchdog: a thread of batch work that gets no CPU at all makes the kernel end the scheduler,
// which tells why. Then it runs in the fair class.
func TestWatchdog(t *testing.T) {
	b := newBench(t)
	s := b.load(Options{Watchdog: 2 * time.Second})
	must.Do(t, s.Attach())
	bpf.NoExtServer(t)
	all := b.machine.Online()
	online := b.group("online")
	var loads []*task
	start := func() {
		for cpu := range all.All() {
			loads = append(loads, b.start(online, "busy", 1, cpuset.Of(cpu)))
		}
	}
	start()
	batch := b.batch("batch", 5, all)
	wait.True(b, "the kernel notices the stall", func() bool {
		state, _ := os.ReadFile(directory + "/state")
		return strings.TrimSpace(string(state)) != "enabled"
	})
	// The kernel ends a scheduler after a grace period of RCU. A thread of batch work that other work
	// has interrupted in a read-side critical section needs a CPU before.
	for _, load := range loads {
		load.end()
	}
	b.gone()
	if why, _ := s.Ended(); !strings.Contains(why, "stall") {
		t.Errorf("the scheduler has ended because of %q, want a stall", why)
	}
	start()
	b.progress("in the fair class", batch)
}

// TestCannotStart: programs that fail when they start say why.
func TestCannotStart(t *testing.T) {
	b := newBench(t)
	err := b.loadWith(Options{}, map[string]uint32{"nr_cpus": 2000}).Attach()
	if err == nil || !strings.Contains(err.Error(), "the machine may have 2000 CPUs, the scheduler 1024") {
		t.Errorf("error %v, want one with the reason", err)
	}
	b.gone()
}

// TestRejected: programs that the kernel's verifier rejects are not loaded, and the error has its
// log.
func TestRejected(t *testing.T) {
	newBench(t)
	spec := must.Get(ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object)))(t)
	program := spec.Programs["on_switch"]
	program.Instructions[0] = asm.LoadMem(asm.R0, asm.R9, 0, asm.DWord).WithMetadata(program.Instructions[0].Metadata) // R9 has no value
	err := (&Scheduler{}).load(spec)
	var verifier *ebpf.VerifierError
	if !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &verifier) || !strings.Contains(strings.Join(verifier.Log, "\n"), "R9 !read_ok") {
		t.Errorf("error %v, want one with the verifier's log", err)
	}
}
