package kubepods

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// TestInner finds the group that crun makes in a container's scope, and no other of its name.
func TestInner(t *testing.T) {
	root := t.TempDir()
	const pod = "/kubepods.slice/kubepods-pod1.slice"
	crun, runc := pod+"/cri-containerd-"+testID+".scope", pod+"/crio-"+testID+".scope"
	for _, dir := range []string{"/proc/self", "/sys/fs/cgroup" + crun + "/container/container", "/sys/fs/cgroup" + runc + "/nested",
		"/sys/fs/cgroup" + pod + "/container", "/sys/fs/cgroup/system.slice/other.scope/container"} {
		must.Do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must.Do(t, os.WriteFile(filepath.Join(root, "proc/self/mountinfo"), []byte("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(root, "sys/fs/cgroup/cgroup.controllers"), []byte("cpuset cpu\n"), 0o600))
	fs := must.Get(cgroup.Open(root))(t)
	for group, want := range map[string]string{crun: crun + "/container", runc: "", crun + "/container": "", pod: "", "/system.slice/other.scope": ""} {
		if got := Inner(fs, group); got != want {
			t.Errorf("in %s: %q, want %q", group, got, want)
		}
		if got := Scope(want); want != "" && got != group {
			t.Errorf("the scope of %s: %s", want, got)
		}
	}
	pods := must.Get(Naming{Driver: Systemd}.Pods(fs))(t)
	want := []Container{{Path: crun, ID: testID, Runtime: "cri-containerd", Inner: crun + "/container"}, {Path: runc, ID: testID, Runtime: "crio"}}
	if diff := cmp.Diff(want, pods[0].Containers); diff != "" {
		t.Error(diff)
	}
}
