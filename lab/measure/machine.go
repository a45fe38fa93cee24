package measure

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/priority"
)

// machine is what an experiment reads of this machine.
type machine struct{ host.Machine }

// usage is CPU time since the beginning.
type usage struct {
	at                     time.Time
	all, generator, stolen time.Duration
	services               []cgroupstat.Stat // sums over the replicas of each service
	waited                 time.Duration     // by threads of the first service
}

// usage reads all usage.
func (m machine) usage(services []*service) (u usage, err error) {
	everything, err := cgroupstat.Everything(m.Groups)
	if err != nil {
		return u, fmt.Errorf("read the usage of the machine: %w", err)
	}
	all, err := m.Sum(everything)
	if err != nil {
		return u, err
	}
	u.all = all.Usage
	for i, s := range services {
		stat, err := m.Sum(s.groups())
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
	stat, err := m.Proc.Stat()
	if err != nil {
		return u, fmt.Errorf("read the time that a hypervisor took: %w", err)
	}
	u.stolen = time.Duration(stat.CPUTotal.Steal * float64(time.Second))
	u.at = time.Now()
	return u, nil
}

// waited returns the run-queue delay of the threads in groups since their start. Threads that have
// ended do not count.
func (m machine) waited(groups []string) (sum time.Duration, err error) {
	err = priority.EachThread(m.Groups, groups, func(id int) error {
		thread, err := m.Proc.Proc(id)
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
