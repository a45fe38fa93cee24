package measure

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/priority"
	"pinfold.dev/pinfold/linux/sysfs"
)

// machine is what an experiment reads of this machine.
type machine struct {
	groups *cgroup.FS
	proc   procfs.FS
}

func openMachine() (m machine, err error) {
	if m.groups, err = cgroup.Open("/"); err != nil {
		return m, err
	}
	if m.proc, err = procfs.NewDefaultFS(); err != nil {
		return m, fmt.Errorf("open /proc: %w", err)
	}
	return m, nil
}

// cpus returns the CPUs that programs may use.
func (m machine) cpus() (cpuset.Set, error) {
	parents, err := cgrouptree.FindParents(m.groups, cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet)
	if err != nil {
		return cpuset.Set{}, err
	}
	effective, err := m.groups.Within(parents.Groups).Effective("/")
	if err != nil {
		return cpuset.Set{}, err
	}
	own, err := sysfs.Affinity()
	return effective.Intersection(own), err
}

// usage is CPU time since the beginning.
type usage struct {
	at                     time.Time
	all, generator, stolen time.Duration
	services               []cgroupstat.Stat // sums over the replicas of each service
	waited                 time.Duration     // by threads of the first service
}

// usage reads all usage.
func (m machine) usage(services []*service) (u usage, err error) {
	everything, err := cgroupstat.Everything(m.groups)
	if err != nil {
		return u, fmt.Errorf("read the usage of the machine: %w", err)
	}
	all, err := m.sum(everything)
	if err != nil {
		return u, err
	}
	u.all = all.Usage
	for i, s := range services {
		stat, err := m.sum(s.groups())
		if err != nil {
			return u, err
		}
		u.services = append(u.services, stat)
		if i == 0 {
			if u.waited, err = m.waited(s.groups()); err != nil {
				return u, err
			}
		}
	}
	var self unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
		return u, fmt.Errorf("read the usage of the load generator: %w", err)
	}
	u.generator = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	stat, err := m.proc.Stat()
	if err != nil {
		return u, fmt.Errorf("read the time that a hypervisor took: %w", err)
	}
	u.stolen = time.Duration(stat.CPUTotal.Steal * float64(time.Second))
	u.at = time.Now()
	return u, nil
}

// sum returns the sum of the statistics of groups.
func (m machine) sum(groups []string) (sum cgroupstat.Stat, err error) {
	for _, group := range groups {
		stat, err := cgroupstat.Read(m.groups, group)
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

// waited returns the run-queue delay of the threads in groups since their start. Threads that have
// ended do not count.
func (m machine) waited(groups []string) (sum time.Duration, err error) {
	err = priority.EachThread(m.groups, groups, func(id int) error {
		thread, err := m.proc.Proc(id)
		var stat procfs.ProcSchedstat
		if err == nil {
			stat, err = thread.Schedstat()
		}
		if err != nil && !cgroup.IsGone(err) {
			return fmt.Errorf("read the run-queue delay of thread %d: %w", id, err)
		}
		sum += time.Duration(stat.WaitingNanoseconds)
		return nil
	})
	return sum, err
}

// schedule sets the policy of the threads of this process, and their CPUs. With a real-time policy
// the load generator does not wait for CPUs, like clients on other machines. Threads and processes
// that are started then do not inherit it: a real-time process could not enter the group of a
// program.
//
// Go's threads sometimes wait for each other without sleeping. So no more of them run than there
// are CPUs, and the policy must be one that lets all threads of a priority run in turn (SCHED_RR).
func (m machine) schedule(policy, priority uint32, cpus cpuset.Set) error {
	runtime.GOMAXPROCS(cpus.Len())
	var mask unix.CPUSet
	for c := range cpus.All() {
		mask.Set(int(c))
	}
	threads, err := m.proc.AllThreads(os.Getpid())
	if err != nil {
		return fmt.Errorf("list the threads of the load generator: %w", err)
	}
	for _, thread := range threads {
		attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: priority, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
		switch err := unix.SchedSetAttr(thread.PID, &attributes, 0); {
		case errors.Is(err, unix.EPERM):
			return errors.New("the load generator may not have real-time priority: run as root, or with CAP_SYS_NICE")
		case err != nil && !errors.Is(err, unix.ESRCH): // it has ended
			return os.NewSyscallError("sched_setattr", err)
		}
		if err := unix.SchedSetaffinity(thread.PID, &mask); err != nil && !errors.Is(err, unix.ESRCH) {
			return os.NewSyscallError("sched_setaffinity", err)
		}
	}
	return nil
}
