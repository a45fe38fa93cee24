package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/linux/cgroup"
)

// tree is the root directory of a machine, with ordinary files in place of the kernel's: 8 CPUs, of
// which N and N+4 share a core, and cgroups of version 1.
type tree struct {
	t    testing.TB
	root string
	fs   *cgroup.FS
}

const mountinfo = `22 27 0:21 / /proc rw - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset`

func newTree(t testing.TB) *tree {
	t.Helper()
	k := &tree{t: t, root: t.TempDir()}
	k.file("proc/self/mountinfo", mountinfo)
	k.file("proc/stat", "cpu  8 0 0 8 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\n")
	k.file("sys/devices/system/cpu/online", "0-7")
	k.file("sys/devices/system/cpu/present", "0-7")
	for cpu := range 8 {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		k.file(dir+"topology/core_cpus_list", fmt.Sprintf("%d,%d", cpu%4, cpu%4+4))
		k.file(dir+"topology/package_cpus_list", "0-7")
		k.file(dir+"topology/physical_package_id", "0")
	}
	k.file("sys/devices/system/node/online", "0")
	k.file("sys/devices/system/node/node0/cpulist", "0-7")
	k.file("sys/devices/system/node/node0/distance", "10")
	k.file("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       8388608 kB")
	for _, group := range []string{"/", "/kubepods", "/kubepods/burstable", "/kubepods/besteffort"} {
		k.group(group, "-1")
	}
	fs, err := cgroup.Open(k.root)
	if err != nil {
		t.Fatal(err)
	}
	k.fs = fs
	return k
}

func (k *tree) file(name, text string) {
	k.t.Helper()
	name = filepath.Join(k.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		k.t.Fatal(err)
	}
	// Not by os.WriteFile: ext4 writes a file to the disk that was empty for a moment (auto_da_alloc).
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		k.t.Fatal(err)
	}
	_, err = file.WriteString(text + "\n")
	if err := errors.Join(err, file.Truncate(int64(len(text)+1)), file.Close()); err != nil {
		k.t.Fatal(err)
	}
}

// group makes a cgroup with all CPUs.
func (k *tree) group(path, quota string) {
	k.t.Helper()
	for name, text := range map[string]string{
		"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": "100000", "cpu/cpu.cfs_burst_us": "0", "cpu/cpu.shares": "1024",
		"cpu/cpu.idle": "0", "cpu/cpu.stat": "nr_periods 0", "cpu/cgroup.procs": "", "cpuacct/cgroup.procs": "", "cpuset/cgroup.procs": "",
		"cpuacct/cpuacct.usage": "0", "cpuset/cpuset.cpus": "0-7", "cpuset/tasks": "",
	} {
		controller, file, _ := strings.Cut(name, "/")
		k.file(filepath.Join("sys/fs/cgroup", controller, path, file), text)
	}
	// The kernel derives the effective CPUs from the others.
	if err := os.Symlink("cpuset.cpus", filepath.Join(k.root, "sys/fs/cgroup/cpuset", path, "cpuset.effective_cpus")); err != nil {
		k.t.Fatal(err)
	}
}

// pod makes the cgroups of a pod made by the function newPod.
func (k *tree) pod(name, id string) (group string) {
	k.t.Helper()
	return k.podOf("uid-"+name, id)
}

// newPod makes the cgroup of a pod without containers, atomically in each hierarchy.
func (k *tree) newPod(uid string) (group string) {
	k.t.Helper()
	k.group("/made", "100000")
	group = "/kubepods/burstable/pod" + uid
	for _, c := range []string{"cpu", "cpuacct", "cpuset"} {
		mount := filepath.Join(k.root, "sys/fs/cgroup", c)
		if err := os.Rename(mount+"/made", mount+group); err != nil {
			k.t.Fatal(err)
		}
	}
	return group
}

// podOf makes the cgroups of a pod with the given id in the kubelet and one container.
func (k *tree) podOf(uid, id string) (group string) {
	k.t.Helper()
	pod := "/kubepods/burstable/pod" + uid
	k.group(pod, "100000")
	k.group(pod+"/"+id, "100000")
	return pod + "/" + id
}

// cpus returns an error unless a cgroup has the given CPUs.
func (k *tree) cpus(group, want string) error {
	s, err := k.fs.Read(group)
	if err != nil || s.CPUs.String() != want {
		return errors.Join(err, fmt.Errorf("%s has CPUs %q, want %q", group, s.CPUs, want))
	}
	return nil
}

// widen gives a cgroup all CPUs, as another program.
func (k *tree) widen(group string) {
	k.t.Helper()
	if err := os.WriteFile(k.fs.File(group, cgroup.CPUSetCPUs), []byte("0-7\n"), 0o644); err != nil {
		k.t.Fatal(err)
	}
}
