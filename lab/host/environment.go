package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/linux/owned"
	"pinfold.dev/pinfold/linux/sysfs"
)

// Environment describes this machine as far as it is known.
func (m Machine) Environment() experiment.Environment {
	e := experiment.Environment{Started: time.Now(), Cgroup: int(m.Groups.Layout().CPU)}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		e.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if infos, err := m.Proc.CPUInfo(); err == nil && len(infos) > 0 {
		e.Model = infos[0].ModelName
	}
	if load, err := m.Proc.LoadAvg(); err == nil {
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

// Lock makes sure that no other run measures at the same time, which would disturb both.
func Lock() (release func(), err error) {
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
