package agent

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/must"
)

// tree is a machine of ordinary files.
type tree struct {
	t     testing.TB
	files *cgrouptest.Files
	root  string
	fs    *cgroup.FS
}

func newTree(t testing.TB) *tree {
	t.Helper()
	files := cgrouptest.NewFiles(t)
	return &tree{t: t, files: files, root: files.Root, fs: must.Get(cgroup.Open(files.Root))(t)}
}

func (k *tree) file(name, text string) {
	k.t.Helper()
	k.files.Write(name, text)
}

func (k *tree) group(path, quota string) {
	k.t.Helper()
	k.files.Group(path, quota)
}

// pod makes the cgroups of a pod made by the function newPod.
func (k *tree) pod(name, id string) (group string) {
	k.t.Helper()
	return k.podOf("uid-"+name, id)
}

// newPod makes the cgroup of a pod without containers.
func (k *tree) newPod(uid string) (group string) {
	k.t.Helper()
	group = "/kubepods/burstable/pod" + uid
	k.group(group, "100000")
	return group
}

// podOf makes the cgroups of a pod with the given id in the kubelet and one container.
func (k *tree) podOf(uid, id string) (group string) {
	k.t.Helper()
	group = k.newPod(uid) + "/" + id
	k.group(group, "100000")
	k.ran(group)
	return group
}

// ran lets something have run in a cgroup.
func (k *tree) ran(group string) { k.file("sys/fs/cgroup/cpuacct"+group+"/cpuacct.usage", "1") }

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
