package cgroup

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
	"pinfold.dev/pinfold/test/must"
)

// testHostNested moves a container that runs containers to other CPUs several times. Version 1
// rejects taking a CPU from a group while a group below has it.
func testHostNested(t *testing.T, fs *FS, top string) {
	root := must.Get(fs.Effective("/"))(t)
	online := slices.Collect(root.All())
	if len(online) < 2 {
		t.Skip("one CPU is online: use a machine with more to test moves")
	}
	one, two := cpuset.Of(online[0]), cpuset.Of(online[1])
	both := one.Union(two)
	container := top + "/pod/container"
	inner, innermost, narrow := container+"/inner", container+"/inner/most", container+"/narrow"
	for _, group := range []string{inner, innermost, narrow} {
		makeGroup(t, fs, group)
	}
	v1 := fs.Layout().CPUSet == V1
	if v1 { // new cpusets are empty, including those of the test's groups
		for _, group := range []string{top, top + "/pod", container, inner, innermost, narrow} {
			mems, err := os.ReadFile(fs.Dir(CPUSet, "/") + "/cpuset.mems")
			if err == nil {
				err = kernfile.Write(fs.Dir(CPUSet, group)+"/cpuset.mems", strings.TrimSpace(string(mems)))
			}
			if err != nil {
				t.Fatal(err)
			}
			apply(t, fs, map[string]Wanted{group: {CPUs: &both}})
		}
		apply(t, fs, map[string]Wanted{narrow: {CPUs: &two}})
		sleeper := exec.Command("sleep", "60")
		must.Do(t, sleeper.Start())
		t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
		must.Do(t, kernfile.Write(fs.File(innermost, Procs), strconv.Itoa(sleeper.Process.Pid)))
		if o := fs.Apply(map[string]Wanted{container: {CPUs: &one}}); o.Err() == nil || !strings.Contains(o.Err().Error(), "inner in it still has CPUs") {
			t.Errorf("without its nested groups: %v", o.Err())
		}
	}
	for _, step := range []struct{ to, inner, narrow cpuset.Set }{
		{one, one, one}, {two, two, two}, {both, both, both}, {one, one, one}, {both, both, both}} {
		o := fs.Apply(map[string]Wanted{container: {CPUs: &step.to, Nested: true}})
		if err := o.Err(); err != nil {
			t.Fatalf("to %s: %v\n%s", step.to, err, listed(o.Written))
		}
		for group, want := range map[string]cpuset.Set{inner: step.inner, innermost: step.inner, narrow: step.narrow} {
			if s, err := fs.Read(group); err != nil || s.Effective != want {
				t.Errorf("%s runs on %s, %v; want %s", group, s.Effective, err, want)
			}
		}
	}
}
