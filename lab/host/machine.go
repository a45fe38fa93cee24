// Package host is the machine on which experiments run: what is read of it, and programs in control
// groups of their own.
//
//	machine, err := host.Open()
//	process, err := machine.Start(ctx, host.Program{...}, notify)
package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/sysfs"
)

// Machine is what experiments read of this machine.
type Machine struct {
	Groups *cgroup.FS
	Proc   procfs.FS
}

// Open opens this machine.
func Open() (m Machine, err error) {
	if m.Groups, err = cgroup.Open("/"); err != nil {
		return m, err
	}
	if m.Proc, err = procfs.NewDefaultFS(); err != nil {
		return m, fmt.Errorf("open /proc: %w", err)
	}
	return m, nil
}

// CPUs returns the CPUs that programs may use.
func (m Machine) CPUs() (cpuset.Set, error) {
	parents, err := cgrouptree.FindParents(m.Groups, cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet)
	if err != nil {
		return cpuset.Set{}, err
	}
	effective, err := m.Groups.Within(parents.Groups).Effective("/")
	if err != nil {
		return cpuset.Set{}, err
	}
	own, err := sysfs.Affinity()
	return effective.Intersection(own), err
}

// Sum returns the sum of the statistics of groups.
func (m Machine) Sum(groups []string) (sum cgroupstat.Stat, err error) {
	for _, group := range groups {
		stat, err := cgroupstat.Read(m.Groups, group)
		if err != nil {
			return sum, fmt.Errorf("read the usage of %s: %w", group, err)
		}
		sum.Usage += stat.Usage
		sum.Periods += stat.Periods
		sum.Throttled += stat.Throttled
		sum.ThrottledTime += stat.ThrottledTime
	}
	return sum, nil
}

// Schedule sets the policy of the threads of this process, and their CPUs. With a real-time policy
// the load generator does not wait for CPUs, like clients on other machines. Threads and processes
// that are started then do not inherit it: a real-time process could not enter the group of a
// program.
//
// Go's threads sometimes wait for each other without sleeping. So no more of them run than there
// are CPUs, and the policy must be one that lets all threads of a priority run in turn (SCHED_RR).
func (m Machine) Schedule(policy, priority uint32, cpus cpuset.Set) error {
	runtime.GOMAXPROCS(cpus.Len())
	var mask unix.CPUSet
	for c := range cpus.All() {
		mask.Set(int(c))
	}
	threads, err := m.Proc.AllThreads(os.Getpid())
	if err != nil {
		return fmt.Errorf("list the threads of the load generator: %w", err)
	}
	for _, thread := range threads {
		attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: priority, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
		switch err := unix.SchedSetAttr(thread.PID, &attributes, 0); {
		case errors.Is(err, unix.EPERM):
			return errors.New("the load generator may not have real-time priority: run as root, in a control group with a cpu.rt_runtime_us above 0")
		case err != nil && !errors.Is(err, unix.ESRCH): // it has ended
			return os.NewSyscallError("sched_setattr", err)
		}
		if err := unix.SchedSetaffinity(thread.PID, &mask); err != nil && !errors.Is(err, unix.ESRCH) {
			return os.NewSyscallError("sched_setaffinity", err)
		}
	}
	return nil
}
