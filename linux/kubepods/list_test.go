package kubepods

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestMachines lists the pods of the machines in the fixtures of package cgroup.
func TestMachines(t *testing.T) {
	files, err := filepath.Glob("../cgroup/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no machines: %v", err)
	}
	var all strings.Builder
	for _, file := range files {
		archive := must.Get(txtar.ParseFile(file))(t)
		root := t.TempDir()
		tree, err := txtar.FS(archive)
		if err == nil {
			err = os.CopyFS(root, tree)
		}
		if err != nil {
			t.Fatal(err)
		}
		fs, err := cgroup.Open(root)
		if err != nil {
			continue // package cgroup tests these errors
		}
		fmt.Fprintf(&all, "%s\n%s\n", filepath.Base(file), strings.ReplaceAll(describe(fs), root, ""))
	}
	golden.Compare(t, "testdata/machines.txt", all.String())
}

// describe lists the driver, pods and containers of a machine.
func describe(fs *cgroup.FS) string {
	naming, err := Find(fs, "")
	if err != nil {
		return fmt.Sprintln("no naming:", err)
	}
	var b strings.Builder
	fmt.Fprintln(&b, "driver:", naming.Driver)
	pods, err := naming.Pods(fs)
	if err != nil {
		fmt.Fprintln(&b, "no pods:", err)
	}
	for _, p := range pods {
		fmt.Fprintf(&b, "pod %s %s\n", p.UID, p.Tier)
		for _, c := range p.Containers {
			fmt.Fprintf(&b, "  container %s %q\n", c.ID, c.Runtime)
		}
		for _, other := range p.Others {
			fmt.Fprintf(&b, "  other %s\n", filepath.Base(other))
		}
	}
	return b.String()
}

func TestContainers(t *testing.T) {
	root := t.TempDir()
	make := func(names ...string) {
		t.Helper()
		for _, name := range names {
			must.Do(t, os.MkdirAll(filepath.Join(root, name), 0o755))
		}
	}
	make("proc/self", "sys/fs/cgroup")
	for name, content := range map[string]string{
		"proc/self/mountinfo":              "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/cgroup.controllers": "cpuset cpu\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
	}
	fs := must.Get(cgroup.Open(root))(t)
	locates := func(want string) {
		t.Helper()
		naming, err := Locate(fs, "")
		if got := naming.Tier(qos.Guaranteed); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("located %s, %v; want %s", got, err, want)
		}
	}
	locates(ErrNotFound.Error())
	make("sys/fs/cgroup/system.slice/kubepods.service", "sys/fs/cgroup/kubelet.slice/kubelet-a.slice/kubelet-a-kubepods.slice")
	locates("/kubelet.slice/kubelet-a.slice/kubelet-a-kubepods.slice")
	make("sys/fs/cgroup/kind/kubepods/besteffort")
	locates("choose one with --cgroup-root: /kind, /kubelet/a")
	make("run/pinfold")
	must.Do(t, os.WriteFile(filepath.Join(root, AgentFile), []byte(`{"CgroupRoot":"kind"}`), 0o600))
	locates("/kind/kubepods")
	must.Do(t, errors.Join(os.RemoveAll(filepath.Join(root, "sys/fs/cgroup/kind")), os.RemoveAll(filepath.Join(root, "sys/fs/cgroup/kubelet.slice"))))
	locates(ErrNotFound.Error()) // what the agent has saved no longer exists
	make("sys/fs/cgroup/private.slice/inner")
	private := filepath.Join(root, "sys/fs/cgroup/private.slice")
	must.Do(t, os.Chmod(private, 0o311))
	t.Run("as another user", func(t *testing.T) {
		cgrouptest.DropOverride(t)
		locates("some groups were not searched: list the groups below /private.slice: ")
	})
	must.Do(t, os.RemoveAll(private))
	want := []string{"/kubepods/burstable/pod123/" + testID, "/kubepods/pod456/" + testID}
	for _, group := range slices.Concat(want, []string{"/kubepods/pod456/" + testID + "/nested", "/system/other"}) {
		make("sys/fs/cgroup" + group)
	}
	naming := must.Get(Find(fs, ""))(t)
	groups, err := naming.Containers(fs)
	if diff := cmp.Diff(want, groups); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}
