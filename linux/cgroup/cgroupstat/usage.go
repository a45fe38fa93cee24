package cgroupstat

import (
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
)

// Everything returns groups that together contain everything that runs on the machine. On version 2
// they do not contain the kernel's own threads: the statistics of the root group, which does, are
// counted in ticks of the timer, which are too coarse for fractions of a second.
func Everything(fs *cgroup.FS) ([]string, error) {
	if fs.Layout().CPU == cgroup.V1 {
		return []string{"/"}, nil
	}
	return fs.Children(cgroup.CPU, "/")
}

// Meter measures the CPU time that groups use. The zero value is ready to use.
type Meter struct{ last map[string]time.Duration }

// Used returns the CPU time that groups have used together since the last call. It is complete if
// the same groups were read then.
func (m *Meter) Used(fs *cgroup.FS, groups []string) (used time.Duration, complete bool) {
	now := make(map[string]time.Duration, len(groups))
	both := 0
	for _, group := range groups {
		stat, err := Read(fs, group)
		if err != nil {
			continue // it has ended
		}
		now[group] = stat.Usage
		if before, ok := m.last[group]; ok {
			both++
			used += max(0, stat.Usage-before)
		}
	}
	complete = both == len(now) && both == len(m.last)
	m.last = now
	return used, complete
}
