package cgroup

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNotEnabled says how a group gets a controller.
func TestNotEnabled(t *testing.T) {
	fs := openFixture(t, "v2-delegation")
	for _, test := range []struct {
		group      string
		controller Controller
		want       string
	}{
		{"/system.slice/a.service", CPU, "systemctl set-property a.service CPUWeight=100"},
		{"/system.slice/a.service", CPUSet, "systemctl set-property a.service AllowedCPUs=LIST"},
		{"/user.slice/user@1.service/app.slice", CPU, "systemctl --user set-property app.slice CPUWeight=100"},
		{"/user.slice/user@1.service/app.slice", CPUSet, "systemctl edit user@.service, add Delegate=cpu cpuset memory pids"},
		{"/own/inner/leaf", CPU, "echo +cpu | tee ROOT/sys/fs/cgroup/own/cgroup.subtree_control ROOT/sys/fs/cgroup/own/inner/cgroup.subtree_control"},
	} {
		err := fs.CheckEnabled(test.group, test.controller)
		want := strings.ReplaceAll(test.want, "ROOT", fs.root)
		if !errors.Is(err, ErrNotEnabled) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", test.group, err, want)
		}
	}
	if err := fs.CheckEnabled("/own", CPU); err != nil {
		t.Error(err)
	}
}

func TestGroupAt(t *testing.T) {
	fs := &FS{hierarchies: []Hierarchy{{Mount: "/sys/fs/cgroup"}, {Mount: "/sys/fs/cgroup/cpu"}, {Mount: "/sys/fs/cgroup/cpuset"}}}
	got := map[string]string{}
	want := map[string]string{
		"": "/", "/": "/", "a/b/": "/a/b", "/a/../b": "/b", "/sys/fs/cgroup": "/", "/sys/fs/cgroup/cpu": "/",
		"/sys/fs/cgroup/cpu/a/b": "/a/b", "/sys/fs/cgroup/cpuset/a": "/a", "/sys/fs/cgroup/system.slice": "/system.slice",
	}
	for name := range want {
		got[name] = fs.GroupAt(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestHierarchyBelow(t *testing.T) {
	for _, c := range []struct {
		part, in, want string
		ok             bool
	}{
		{"/", "/", "/", true}, {"/", "/a/b", "/a/b", true}, {"", "/a", "/a", true},
		{"/docker/x", "/docker/x", "/", true}, {"/docker/x", "/docker/x/y", "/y", true},
		{"/docker/x", "/docker/xy", "", false}, {"/docker/x", "/", "", false}, {"/..", "/", "", false}, {"/", "/../a", "", false},
	} {
		if got, ok := (Hierarchy{Part: c.part}).Below(c.in); got != c.want || ok != c.ok {
			t.Errorf("%s of %s: %q, %t, want %q", c.in, c.part, got, ok, c.want)
		}
	}
}
