package confine

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noSuchStep is the exit status of interrupt if the run ended before.
const noSuchStep = 77

// interrupt starts a run under ptrace(2) and kills it before its nth change of control groups:
// "run" kills the run alone, "both" its watcher as well. "watcher" kills the run when it waits, and
// then the watcher before its nth change.
func interrupt(n int, victims, text string) int {
	runtime.LockOSThread() // ptrace is for threads
	cmd := exec.Command("/proc/self/exe", doWord, "run", text)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	run := cmd.Process.Pid
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(run, &ws, 0, nil); err != nil {
		return fail(err)
	}
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK
	if err := syscall.PtraceSetOptions(run, options); err != nil {
		return fail(err)
	}
	var steps atomic.Int64
	if victims == "watcher" {
		go killWhenQuiet(run, &steps)
	}
	status, byWatcher := noSuchStep, 0 // changes
	for pid := run; ; {
		_ = syscall.PtraceSyscall(pid, signalOf(ws))
		var err error
		if pid, err = syscall.Wait4(-1, &ws, unix.WALL, nil); err != nil {
			return status // all have ended
		}
		if !ws.Stopped() || ws.StopSignal() != syscall.SIGTRAP|0x80 || !isChange(pid) {
			continue
		}
		if steps.Add(1); processOf(pid) != run {
			byWatcher++
		}
		if status != 0 && (victims == "watcher" && byWatcher == n || victims != "watcher" && int(steps.Load()) == n) {
			status = 0
			die := []int{processOf(pid)}
			if victims == "both" {
				die = withDescendants([]int{run})
			}
			for _, pid := range die {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}

// killWhenQuiet kills a run that has changed nothing for a while.
func killWhenQuiet(run int, steps *atomic.Int64) {
	for last := int64(0); ; last = steps.Load() {
		time.Sleep(500 * time.Millisecond)
		if last > 0 && last == steps.Load() {
			_ = unix.Kill(run, unix.SIGKILL)
			return
		}
	}
}

// signalOf returns the signal that a stopped process is to get.
func signalOf(ws syscall.WaitStatus) int {
	if sig := ws.StopSignal(); ws.Stopped() && sig != syscall.SIGTRAP && sig != syscall.SIGTRAP|0x80 && sig != syscall.SIGSTOP {
		return int(sig)
	}
	return 0
}

// isChange reports whether a thread is about to make or remove a control group or to write a file
// of one.
func isChange(thread int) bool {
	const getSyscallInfo, entry = 0x420e, 1
	var info [88]byte
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, getSyscallInfo, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0); errno != 0 || info[0] != entry {
		return false
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(info[24+8*i:]) } // number, arguments
	switch word(0) {
	case unix.SYS_MKDIRAT:
		return true
	case unix.SYS_UNLINKAT:
		return word(3) == unix.AT_REMOVEDIR
	case unix.SYS_WRITE:
		file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", thread, word(1)))
		return strings.Contains(file, "/cgroup") || strings.Contains(file, "/cpuset.") || strings.Contains(file, "/cpu.") || strings.HasSuffix(file, "/tasks")
	}
	return false
}

// processOf returns the process of a thread.
func processOf(thread int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	_, after, _ := strings.Cut(string(text), "\nTgid:")
	pid := 0
	_, _ = fmt.Sscan(after, &pid)
	return pid
}
