package sampler

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// machine has cgroups that consist of ordinary files.
type machine struct {
	t       *testing.T
	root    string
	version cgroup.Version
	groups  map[string]map[string]time.Duration // values by name; counts are durations of that many ns
}

func newMachine(t *testing.T, v cgroup.Version) *machine {
	m := &machine{t: t, root: t.TempDir(), version: v, groups: map[string]map[string]time.Duration{}}
	mounts := "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	if v == cgroup.V1 {
		mounts = "1 0 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"2 0 0:2 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	}
	m.file("proc/self/mountinfo", mounts)
	m.file("sys/fs/cgroup/cgroup.controllers", "cpu cpuset\n")
	m.file("sys/fs/cgroup/cgroup.procs", "")
	m.file("sys/fs/cgroup/cpu/cgroup.procs", "")
	return m
}

func (m *machine) open() *cgroup.FS {
	return must.Get(cgroup.Open(m.root))(m.t)
}

func (m *machine) file(name, content string) {
	m.t.Helper()
	name = filepath.Join(m.root, name)
	must.Do(m.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(m.t, os.WriteFile(name, []byte(content), 0o600))
}

// dir returns the directory of a group.
func (m *machine) dir(group string) string {
	if m.version == cgroup.V1 {
		return "sys/fs/cgroup/cpu" + group
	}
	return "sys/fs/cgroup" + group
}

func (m *machine) write(group, file, content string) {
	m.t.Helper()
	m.file(m.dir(group)+"/"+file, content)
}

func (m *machine) make(group string, values map[string]time.Duration) {
	m.groups[group] = map[string]time.Duration{"period": 100 * time.Millisecond, "quota": bandwidth.Unlimited}
	maps.Copy(m.groups[group], values)
	m.writeAll(group)
}

func (m *machine) add(group string, values map[string]time.Duration) {
	for name, value := range values {
		switch name {
		case "quota", "period", "burst":
			m.groups[group][name] = value
		default:
			m.groups[group][name] += value
		}
	}
	m.writeAll(group)
}

func (m *machine) reset(group string) {
	limits := m.groups[group]
	m.make(group, map[string]time.Duration{"quota": limits["quota"], "period": limits["period"], "burst": limits["burst"]})
}

func (m *machine) remove(group string) {
	must.Do(m.t, os.RemoveAll(filepath.Join(m.root, m.dir(group))))
}

func (m *machine) writeAll(group string) {
	v := m.groups[group]
	counts := fmt.Sprintf("nr_periods %d\nnr_throttled %d\nnr_bursts %d\n", v["periods"], v["throttled"], v["bursts"])
	if m.version == cgroup.V1 {
		quota := v["quota"].Microseconds()
		if v["quota"] == bandwidth.Unlimited {
			quota = -1
		}
		m.write(group, "cpu.stat", fmt.Sprintf("%sthrottled_time %d\nburst_time %d\n", counts, v["time"], v["bursttime"]))
		m.write(group, "cpuacct.usage", fmt.Sprintf("%d\n", v["usage"]))
		m.write(group, "cpu.cfs_quota_us", fmt.Sprintf("%d\n", quota))
		m.write(group, "cpu.cfs_period_us", fmt.Sprintf("%d\n", v["period"].Microseconds()))
		m.write(group, "cpu.cfs_burst_us", fmt.Sprintf("%d\n", v["burst"].Microseconds()))
		return
	}
	quota := "max"
	if v["quota"] != bandwidth.Unlimited {
		quota = fmt.Sprint(v["quota"].Microseconds())
	}
	m.write(group, "cpu.stat", fmt.Sprintf("usage_usec %d\n%sthrottled_usec %d\nburst_usec %d\n",
		v["usage"].Microseconds(), counts, v["time"].Microseconds(), v["bursttime"].Microseconds()))
	m.write(group, "cpu.max", fmt.Sprintf("%s %d\n", quota, v["period"].Microseconds()))
	m.write(group, "cpu.max.burst", fmt.Sprintf("%d\n", v["burst"].Microseconds()))
}

// said returns the text of an error without the root of the machine.
func (m *machine) said(err error) string {
	switch {
	case err == nil:
		return "not wanted any more"
	case errors.Is(err, cgroup.ErrGone):
		return cgroup.ErrGone.Error()
	}
	return strings.ReplaceAll(strings.ReplaceAll(err.Error(), m.root, ""), "/sys/fs/cgroup/cpu/", "/sys/fs/cgroup/")
}
