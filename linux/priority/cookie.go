package priority

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Cookie is a core-scheduling cookie as the kernel shows it: a number that is valid until the
// machine is shut down. 0 stands for none.
type Cookie uint64

// Of returns the cookie of a thread, or of the calling thread if it is 0. The error wraps
// [unix.ESRCH] if there is no such thread, [unix.ENODEV] if no core of the machine has several
// threads, [unix.EINVAL] if the kernel has no core scheduling, and [unix.EPERM] if this process
// lacks CAP_SYS_PTRACE.
func Of(thread int) (Cookie, error) {
	var cookie uint64
	_, _, errno := unix.Syscall6(unix.SYS_PRCTL, unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_GET, uintptr(thread),
		unix.PR_SCHED_CORE_SCOPE_THREAD, uintptr(unsafe.Pointer(&cookie)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("read the core-scheduling cookie of thread %d: %w", thread, errno)
	}
	return Cookie(cookie), nil
}

// clearCookies takes the cookies of threads away. Those that have ended are skipped.
func clearCookies(threads []int) error {
	prepare := func() error {
		own, err := Of(0)
		if err == nil && own != 0 {
			err = fmt.Errorf("this process has the core-scheduling cookie %x: start it without one", own)
		}
		return err
	}
	return share(threads, prepare, VisitCPUs)
}

// VisitCPUs runs the calling thread once on each of its CPUs, so that each schedules anew: one that
// the kernel left idle because of a cookie stays idle when the cookie is gone, until it has
// something new to schedule. The thread stays on the last CPU, so it must end soon.
func VisitCPUs() error {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return os.NewSyscallError("sched_getaffinity", err)
	}
	for cpu, remaining := 0, all.Count(); remaining > 0; cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		remaining--
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil && !errors.Is(err, unix.EINVAL) { // it has gone offline
			return os.NewSyscallError("sched_setaffinity", err)
		}
	}
	return nil
}

// Join gives threads the cookie of another thread. Those that have ended are skipped.
func Join(member int, threads []int) error {
	return share(threads, func() error { return schedCore(unix.PR_SCHED_CORE_SHARE_FROM, member) }, nil)
}

// Create gives threads a new cookie, after before has been called with it. Threads that have ended
// are skipped. If before returns an error, no thread gets it.
func Create(threads []int, before func(Cookie) error) error {
	return share(threads, func() error {
		if err := schedCore(unix.PR_SCHED_CORE_CREATE, 0); err != nil {
			return err
		}
		made, err := Of(0)
		if err != nil {
			return err
		}
		return before(made)
	}, nil)
}

// share gives threads the cookie of a thread that first calls prepare, and then finish unless that
// is nil. That thread ends afterwards, so no other goroutine ever runs with its cookie.
func share(threads []int, prepare, finish func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- func() error {
			if err := prepare(); err != nil {
				return err
			}
			var errs []error
			for _, thread := range threads {
				if err := schedCore(unix.PR_SCHED_CORE_SHARE_TO, thread); err != nil && !errors.Is(err, unix.ESRCH) {
					errs = append(errs, err)
				}
			}
			if finish != nil {
				errs = append(errs, finish())
			}
			return errors.Join(errs...)
		}()
	}()
	return <-done
}

// schedCore is prctl(PR_SCHED_CORE) for one thread, 0 for the calling one.
func schedCore(command, thread int) error {
	err := unix.Prctl(unix.PR_SCHED_CORE, uintptr(command), uintptr(thread), unix.PR_SCHED_CORE_SCOPE_THREAD, 0)
	if err != nil {
		return fmt.Errorf("set the core-scheduling cookie of thread %d: %w", thread, err)
	}
	return nil
}
