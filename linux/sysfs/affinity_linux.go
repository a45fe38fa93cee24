package sysfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Affinity returns the CPUs that this process may run on (taskset), all of which are online.
func Affinity() (cpuset.Set, error) {
	s, err := affinity(0)
	if err != nil {
		return s, fmt.Errorf("ask for this process's CPUs: %w", err)
	}
	return s, nil
}

// AffinityOf returns the CPUs that the threads of a process may run on, which are in its cpuset.
func AffinityOf(pid int) (all cpuset.Set, err error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil && !cgroup.IsGone(err) {
		return all, fmt.Errorf("ask for the CPUs of process %d: %w", pid, err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		one, err := affinity(id)
		if errors.Is(err, unix.ESRCH) { // it has ended
			continue
		}
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("ask for the CPUs of process %d: %w", pid, err)
		}
		all = all.Union(one)
	}
	if all.IsEmpty() {
		return all, fmt.Errorf("there is no process %d", pid)
	}
	return all, nil
}

// affinity returns the CPUs of a thread; 0 is this one.
func affinity(thread int) (s cpuset.Set, err error) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &mask); err != nil {
		return s, err
	}
	for c := range cpuset.MaxCPUs {
		if mask.IsSet(c) {
			s.Add(cpuset.CPU(c))
		}
	}
	return s, nil
}
