package cgrouptest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// Files are a machine with ordinary files in place of the kernel's: 8 CPUs, of which N and N+4 share a
// core, and cgroups of version 1.
type Files struct {
	t testing.TB
	// Root is the machine's root directory.
	Root string
}

// NewFiles makes a machine with the cgroups of a kubelet.
func NewFiles(t testing.TB) *Files {
	t.Helper()
	f := &Files{t, t.TempDir()}
	f.Write("proc/self/mountinfo", `22 27 0:21 / /proc rw - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset`)
	f.Write("proc/stat", "cpu  8 0 0 8 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\n")
	f.Write("sys/devices/system/cpu/online", "0-7")
	f.Write("sys/devices/system/cpu/present", "0-7")
	for cpu := range 8 {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
		f.Write(dir+"core_cpus_list", fmt.Sprintf("%d,%d", cpu%4, cpu%4+4))
		f.Write(dir+"package_cpus_list", "0-7")
		f.Write(dir+"physical_package_id", "0")
	}
	f.Write("sys/devices/system/node/online", "0")
	f.Write("sys/devices/system/node/node0/cpulist", "0-7")
	f.Write("sys/devices/system/node/node0/distance", "10")
	f.Write("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       8388608 kB")
	for _, group := range []string{"/", "/kubepods", "/kubepods/burstable", "/kubepods/besteffort"} {
		f.Group(group, "-1")
	}
	return f
}

// Write writes a line to a file below the root.
func (f *Files) Write(name, text string) {
	f.t.Helper()
	name = filepath.Join(f.Root, name)
	must.Do(f.t, os.MkdirAll(filepath.Dir(name), 0o755))
	// Not by os.WriteFile: ext4 writes a file to the disk that was empty for a moment (auto_da_alloc).
	file := must.Get(os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644))(f.t)
	_, err := file.WriteString(text + "\n")
	must.Do(f.t, errors.Join(err, file.Truncate(int64(len(text)+1)), file.Close()))
}

// Group makes a cgroup with all CPUs. It appears in each hierarchy with all of its files, as the
// kernel's do: an agent would write to a file while the test does.
func (f *Files) Group(path, quota string) {
	f.t.Helper()
	made := must.Get(os.MkdirTemp(f.Root, "made-"))(f.t)
	for name, text := range map[string]string{
		"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": "100000", "cpu/cpu.cfs_burst_us": "0", "cpu/cpu.shares": "1024",
		"cpu/cpu.idle": "0", "cpu/cpu.stat": "nr_periods 0", "cpu/cgroup.procs": "", "cpuacct/cgroup.procs": "", "cpuset/cgroup.procs": "",
		"cpuacct/cpuacct.usage": "0", "cpuset/cpuset.cpus": "0-7", "cpuset/tasks": "",
	} {
		f.Write(filepath.Join(filepath.Base(made), name), text)
	}
	// The kernel derives the effective CPUs from the others.
	must.Do(f.t, os.Symlink("cpuset.cpus", filepath.Join(made, "cpuset/cpuset.effective_cpus")))
	for _, controller := range controllers() {
		at := filepath.Join(f.Root, "sys/fs/cgroup", controller, path)
		must.Do(f.t, os.MkdirAll(filepath.Dir(at), 0o755))
		must.Do(f.t, os.Rename(filepath.Join(made, controller), at))
	}
	must.Do(f.t, os.Remove(made))
}

func controllers() []string { return []string{"cpu", "cpuacct", "cpuset"} }

// CPUs returns the CPUs of a cgroup.
func (f *Files) CPUs(group string) string {
	f.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(f.Root, "sys/fs/cgroup/cpuset", group, "cpuset.cpus")))(f.t)
	return strings.TrimSpace(string(text))
}

// Remove removes a cgroup and its children.
func (f *Files) Remove(group string) {
	f.t.Helper()
	for _, controller := range controllers() {
		must.Do(f.t, os.RemoveAll(filepath.Join(f.Root, "sys/fs/cgroup", controller, group)))
	}
}
