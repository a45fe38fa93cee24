package schedtrace

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
)

// TestPlan: all groups below a subject count for it, or those with the shortest paths if their
// number is limited.
func TestPlan(t *testing.T) {
	ids := map[string]blame.Group{"/": 1, "/a": 2, "/a/pod": 3, "/b": 4}
	for i := range 300 {
		ids[fmt.Sprintf("/a/pod/%03d", i)] = blame.Group(100 + i)
	}
	subjects := map[string]blame.Group{"/a/pod": 3}
	for most, want := range map[int]int{len(ids): 301, mostInner: 256, 1: 1} {
		p := newPlan(ids, subjects, most)
		if len(p.watched) != want || p.watched[3] != 3 || p.above[3] != 2 || p.trace[2] != Quota || p.trace[3] != Threads|Quota || p.watched[4] != 0 {
			t.Errorf("at most %d: %d groups are watched, want %d; above %d, trace %d and %d", most, len(p.watched), want, p.above[3], p.trace[2], p.trace[3])
		}
	}
}

// TestList: a private group of another user hides what is below it, and nothing else.
func TestList(t *testing.T) {
	root := t.TempDir()
	must(0, os.MkdirAll(filepath.Join(root, "proc/self"), 0o755))(t)
	must(0, os.WriteFile(filepath.Join(root, "proc/self/mountinfo"), []byte("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), 0o600))(t)
	groups := filepath.Join(root, "sys/fs/cgroup")
	for _, group := range []string{"a", "closed/in", "pods/a/inner", "pods/b"} {
		must(0, os.MkdirAll(filepath.Join(groups, group), 0o755))(t)
	}
	must(0, os.WriteFile(filepath.Join(groups, "cgroup.controllers"), []byte("cpuset cpu\n"), 0o600))(t)
	closed := filepath.Join(groups, "closed")
	must(0, os.Chmod(closed, 0o311))(t)
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
	cgrouptest.DropOverride(t)
	fs := must(cgroup.Open(root))(t)
	for _, test := range []struct{ from, want, unlisted string }{
		{"/", "/ /a /closed /pods /pods/a /pods/a/inner /pods/b", closed},
		{"/pods/a /pods/b /none", "/ /pods /pods/a /pods/a/inner /pods/b", ""},
		{"pods/b", "/ /pods /pods/b", ""},
		{"/pods/a/inner /pods", "/ /pods /pods/a /pods/a/inner /pods/b", ""},
		{"/ /closed/in", "/ /a /closed /closed/in /pods /pods/a /pods/a/inner /pods/b", closed},
	} {
		ids, err := Groups(fs, strings.Fields(test.from)...)
		if got := strings.Join(slices.Sorted(maps.Keys(ids)), " "); got != test.want {
			t.Errorf("from %s: %s, want %s", test.from, got, test.want)
		}
		if (err != nil) != (test.unlisted != "") || err != nil && !strings.Contains(err.Error(), test.unlisted) {
			t.Errorf("from %s: %v, want %q", test.from, err, test.unlisted)
		}
	}
}
