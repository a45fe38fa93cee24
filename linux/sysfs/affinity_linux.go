package sysfs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
)

// Affinity returns the CPUs that this process may run on (taskset), all of which are online.
func Affinity() (cpuset.Set, error) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		return cpuset.Set{}, fmt.Errorf("ask for this process's CPUs: %w", err)
	}
	var s cpuset.Set
	for c := range cpuset.MaxCPUs {
		if mask.IsSet(c) {
			s.Add(cpuset.CPU(c))
		}
	}
	return s, nil
}
