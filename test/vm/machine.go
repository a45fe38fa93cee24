package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"pinfold.dev/pinfold/test/vm/guest"
)

// Emulator is the program that emulates the machine.
const Emulator = "qemu-system-x86_64"

// KernelEnv is the environment variable with the path of the kernel that is emulated, OldKernelEnv
// the one with that of an older one, ExtKernelsEnv with those of others that have sched_ext,
// separated by spaces, and UserModeEnv that of a kernel that is a program (User Mode Linux).
const (
	KernelEnv     = "PINFOLD_TEST_KERNEL"
	OldKernelEnv  = "PINFOLD_TEST_OLD_KERNEL"
	ExtKernelsEnv = "PINFOLD_TEST_EXT_KERNELS"
	UserModeEnv   = "PINFOLD_TEST_UML"
)

// Machine is a virtual machine that runs once.
type Machine struct {
	Shape
	Kernel   string // path of the kernel
	Init     string // path of the static binary of guest/init
	Binaries []string
	Programs []guest.Program
	// System makes Kernel run as a process, in user mode. Of the Shape, the numbers of packages,
	// cores and threads count.
	System *guest.System
}

// consoleTail is how much of the kernel's console an error shows, in bytes.
const consoleTail = 4000

// Run boots the machine, waits until it has powered off, and returns the results of its programs.
// When the context ends, the machine is killed. Its files are written to dir. Errors contain the
// end of the kernel's console.
func (m Machine) Run(ctx context.Context, dir string) (map[string]guest.Ran, error) {
	config := guest.Config{Offline: m.Offline, Programs: m.Programs, System: m.System}
	if err := writeInitramfs(filepath.Join(dir, initramfsName), m.Init, m.Binaries, config); err != nil {
		return nil, fmt.Errorf("write the guest's root file system: %w", err)
	}
	ran, err := m.boot(ctx, dir)
	if errors.Is(err, errNotStarted) { // nothing of the test has run
		ran, err = m.boot(ctx, dir)
	}
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(dir, consoleName))
		text = text[max(0, len(text)-consoleTail):]
		err = fmt.Errorf("%w\nthe guest's console ends with\n%s", err, bytes.ReplaceAll(text, []byte("\r"), nil))
	}
	return ran, err
}

// Files of a machine.
const (
	initramfsName = "initramfs.cpio"
	consoleName   = "console"
)

// emulated returns a command that emulates the machine. The events are its standard output.
//
// One thread of the host runs all CPUs in turn. With a thread per CPU, the emulator sometimes
// continues to run code that the kernel has patched, which causes "Oops: int3": in every third boot
// of 16 CPUs on a busy host (QEMU 7.2, Linux 7.2). On a host with two CPUs it is not faster either.
func (m Machine) emulated(ctx context.Context, dir string) *exec.Cmd {
	kernel := []string{"console=ttyS0", "panic=-1", "no_timer_check", m.KernelArguments()}
	return exec.CommandContext(ctx, Emulator, append(m.Arguments(), "-cpu", "Icelake-Server", // has correct caches, unlike the models of AMD
		"-accel", "tcg,thread=single", // never KVM, which is often present but does not work
		"-nographic", "-nodefaults", "-no-reboot", "-monitor", "none",
		"-serial", "file:"+filepath.Join(dir, consoleName), "-serial", "stdio",
		"-kernel", m.Kernel, "-initrd", filepath.Join(dir, initramfsName),
		"-append", strings.TrimSpace(strings.Join(kernel, " ")))...)
}

// userModeMiB is the memory of a machine in user mode. The host provides what is used.
const userModeMiB = 6144

// userMode returns a command that runs the kernel as a process. The events are its standard output,
// and the console is its standard error.
func (m Machine) userMode(ctx context.Context, dir string) *exec.Cmd {
	return exec.CommandContext(ctx, m.Kernel, fmt.Sprintf("mem=%dM", userModeMiB), fmt.Sprintf("ncpus=%d", m.slots()),
		fmt.Sprintf("umltopo=%d,%d", m.Cores, m.Threads), // of each package; not an argument of unchanged kernels
		"seccomp=on", "initrd="+filepath.Join(dir, initramfsName), "uml_dir="+dir,
		"con0=null,fd:2", "con=null", "ssl1=null,fd:1", "ssl=null", "console=tty0", "quiet", "panic=1")
}

// How long a machine may write no event. Only a machine in user mode writes events all the time.
const (
	silence      = 20 * guest.Beat
	startTimeout = 2 * time.Minute // of an emulated machine, until its first event; a boot takes 3 to 30 s
)

// errSilent means that the machine makes no progress, so that its tests have no result. errNotStarted
// is the errSilent of a guest whose first process did not start: the emulator or the kernel is stuck.
// That happened in one of about a thousand boots.
var (
	errSilent     = errors.New("the guest says nothing")
	errNotStarted = fmt.Errorf("the machine did not start: %w", errSilent)
)

// eventReader reads from a pipe, and fails when nothing arrives for some time.
type eventReader struct {
	io.ReadCloser
	first, next time.Duration // for the first read, and for all others; 0 for any time
	started     bool
}

func (r *eventReader) Read(p []byte) (int, error) {
	limit, deadline := r.first, time.Time{}
	if r.started {
		limit = r.next
	}
	if limit > 0 {
		deadline = time.Now().Add(limit)
	}
	if pipe, ok := r.ReadCloser.(*os.File); ok {
		if err := pipe.SetReadDeadline(deadline); err != nil {
			return 0, err
		}
	}
	n, err := r.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		why := errSilent
		if !r.started {
			why = errNotStarted
		}
		err = fmt.Errorf("%w: no event for %v", why, limit)
	}
	r.started = r.started || n > 0
	return n, err
}

func (m Machine) boot(ctx context.Context, dir string) (ran map[string]guest.Ran, err error) {
	// The kernel kills the machine when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var cmd *exec.Cmd
	var messages bytes.Buffer
	if m.System == nil {
		cmd = m.emulated(ctx, dir)
		cmd.Stderr = &messages
	} else {
		cmd = m.userMode(ctx, dir)
		console, err := os.Create(filepath.Join(dir, consoleName))
		if err != nil {
			return nil, err
		}
		defer console.Close()
		cmd.Stderr = console
	}
	// In user mode, each process of the machine is a process of the host.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	from := &eventReader{ReadCloser: events, first: silence, next: silence}
	if m.System == nil {
		from.first, from.next = startTimeout, 0
	}
	ran, err = guest.ReadEvents(from)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		// Give it time to end by itself, so that the error contains its own message.
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Cancel() })
		defer timer.Stop()
	}
	if ended := cmd.Wait(); ended != nil || err != nil {
		err = errors.Join(err, ended, ctx.Err())
		return ran, fmt.Errorf("%w: %s", err, strings.TrimSpace(messages.String()))
	}
	return ran, nil
}
