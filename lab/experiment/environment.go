package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/owned"
	"pinfold.dev/pinfold/linux/sysfs"
)

// environment describes this machine as far as it is known.
func (m machine) environment() experiment.Environment {
	e := experiment.Environment{Started: time.Now(), Place: experiment.Groups, Cgroup: int(m.groups.Layout().CPU)}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		e.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if infos, err := m.proc.CPUInfo(); err == nil && len(infos) > 0 {
		e.Model = infos[0].ModelName
	}
	if load, err := m.proc.LoadAvg(); err == nil {
		e.Load = load.Load1
	}
	if found, _, err := sysfs.Host(cpuset.Set{}); err == nil {
		cores := map[topology.CoreID]bool{}
		for _, c := range found.CPUs {
			cores[c.Core] = true
		}
		e.Cores, e.Nodes = len(cores), len(found.NUMANodes)
	}
	e.Hardened = mitigations()
	return e
}

// mitigations returns the mitigations of hardware vulnerabilities, as the kernel lists them.
func mitigations() (all []string) {
	files, _ := filepath.Glob("/sys/devices/system/cpu/vulnerabilities/*") // fails only for a bad pattern
	for _, file := range files {
		text, err := os.ReadFile(file)
		if state, mitigated := strings.CutPrefix(strings.TrimSpace(string(text)), "Mitigation: "); err == nil && mitigated {
			all = append(all, filepath.Base(file)+": "+state)
		}
	}
	return all
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

// lock makes sure that no other run measures at the same time, which would disturb both.
func lock() (release func(), err error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("pinfold-lab-%d.lock", os.Geteuid()))
	file, err := owned.Lock(path)
	if errors.Is(err, owned.ErrHeld) {
		return nil, fmt.Errorf("another run of pinfold-lab measures on this machine, and both would be disturbed: wait for its end (%s)", path)
	}
	if err != nil {
		return nil, err
	}
	return func() { file.Close() }, nil
}

// isEnd reports whether an error is the end of a context.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
