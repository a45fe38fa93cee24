package cgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// TestHost runs the tests below on this machine's kernel, of either version, in groups of its own.
func TestHost(t *testing.T) {
	need.This(t, "this machine's control groups")
	if os.Geteuid() != 0 {
		t.Skip("not root: run as root to test on this machine's control groups")
	}
	fs, err := Open("/")
	if err != nil {
		t.Skipf("this machine's control groups cannot be used: %v", err)
	}
	if err := fs.CheckWritable(); err != nil {
		t.Skipf("this machine's control groups cannot be written: %v", err)
	}
	for name, test := range map[string]func(*testing.T, *FS, string){
		"bandwidth": testHostBandwidth, "cpuset": testHostCPUSet, "weight": testHostWeight,
		"nested": testHostNested, "partition": testHostPartition, "refused": testHostRefused, "gone": testHostGone,
	} {
		t.Run(name, func(t *testing.T) { test(t, fs, makeGroups(t, fs)) })
		t.Run(name+"/kept open", func(t *testing.T) {
			kept := must.Get(Open("/"))(t)
			kept.KeepOpen()
			defer kept.Close()
			test(t, kept, makeGroups(t, kept))
		})
	}
	t.Run("keep open", func(t *testing.T) { testHostKeepOpen(t, makeGroups(t, fs)) })
}

// makeGroups creates /pinfold-test-PID with pod and pod/container in it in all hierarchies, and
// removes them at the end of the test.
func makeGroups(t *testing.T, fs *FS) string {
	t.Helper()
	if h := fs.Hierarchy(CPU); h.Version == V2 {
		delegated, err := kernfile.Words(filepath.Join(h.Mount, SubtreeControl))
		if err != nil || !slices.Contains(delegated, "cpu") || !slices.Contains(delegated, "cpuset") {
			t.Skipf("%s delegates %q (%v): write \"+cpu +cpuset\" to its cgroup.subtree_control to run this test", h.Mount, delegated, err)
		}
	}
	top := fmt.Sprintf("/pinfold-test-%d", os.Getpid())
	for _, group := range []string{top, top + "/pod", top + "/pod/container"} {
		makeGroup(t, fs, group)
	}
	return top
}

// makeGroup creates a group in all hierarchies and removes it at the end of the test.
func makeGroup(t *testing.T, fs *FS, group string) {
	t.Helper()
	for _, dir := range dirsOf(fs, group) {
		if above := path.Dir(dir); path.Dir(group) != "/" && fs.Layout().CPU == V2 {
			must.Do(t, kernfile.Write(above+"/"+SubtreeControl, "+cpu +cpuset"))
		}
		must.Do(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { removeGroup(t, dir) })
	}
}

// dirsOf returns the directories of a group, one in each hierarchy.
func dirsOf(fs *FS, group string) []string {
	var dirs []string
	for _, c := range []Controller{CPU, CPUSet, CPUAcct} {
		if fs.Hierarchy(c).Mount != "" {
			dirs = append(dirs, fs.Dir(c, group))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// removeGroup removes a group. It retries, because a group is busy for a moment after the end of
// its last process.
func removeGroup(t *testing.T, dir string) {
	t.Helper()
	wait.Until(t, "the group of the test is removed", func() error {
		if err := os.Remove(dir); !IsGone(err) {
			return err
		}
		return nil
	})
}

func ms(n int) *time.Duration { return new(time.Duration(n) * time.Millisecond) }

// apply applies settings and checks that nothing fails, that the kernel has the wanted settings,
// and that a second call writes nothing.
func apply(t *testing.T, fs *FS, wanted map[string]Wanted) {
	t.Helper()
	o := fs.Apply(wanted)
	if err := o.Err(); err != nil {
		t.Fatalf("%v\nwritten:\n%s", err, listed(o.Written))
	}
	for p, w := range wanted {
		got := must.Get(fs.Read(p))(t)
		if want := (Change{Present: got, Wanted: w}).Target(); got != want {
			t.Fatalf("%s has %+v, want %+v", p, got, want)
		}
	}
	if again := fs.Apply(wanted); len(again.Written) > 0 || again.Err() != nil {
		t.Fatalf("the second time: %v\nwritten:\n%s", again.Err(), listed(again.Written))
	}
}

func testHostBandwidth(t *testing.T, fs *FS, top string) {
	pod, container := top+"/pod", top+"/pod/container"
	type limits struct{ quota, period, burst int } // ms; quota -1 for none
	states := [][2]limits{
		{{50, 100, 0}, {30, 100, 0}},
		{{200, 100, 100}, {200, 100, 200}},
		{{20, 100, 10}, {10, 100, 10}},
		{{-1, 100, 0}, {-1, 100, 0}},
		{{250, 200, 250}, {100, 100, 0}},
		{{100, 50, 30}, {30, 20, 30}},
		{{50, 100, 0}, {25, 50, 25}},
		{{-1, 100, 0}, {5, 10, 1}},
	}
	for _, s := range states {
		wanted := map[string]Wanted{top: {}}
		for i, p := range []string{pod, container} {
			quota := ms(s[i].quota)
			if s[i].quota < 0 {
				quota = new(bandwidth.Unlimited)
			}
			wanted[p] = Wanted{Quota: quota, Period: ms(s[i].period), Burst: ms(s[i].burst)}
		}
		apply(t, fs, wanted)
	}
}

func testHostCPUSet(t *testing.T, fs *FS, top string) {
	all := must.Get(fs.Effective("/"))(t)
	if all.Len() < 2 {
		t.Skip("one CPU only: needs two")
	}
	first := cpuset.Of(all.First())
	rest := all.Difference(first)
	pod, container := top+"/pod", top+"/pod/container"
	sets := func(podCPUs, containerCPUs cpuset.Set) map[string]Wanted {
		return map[string]Wanted{top: {CPUs: &all}, pod: {CPUs: &podCPUs}, container: {CPUs: &containerCPUs}}
	}
	apply(t, fs, sets(all, all))
	if fs.Hierarchy(CPUSet).Version == V1 {
		for _, p := range []string{top, pod, container} {
			mems, err := os.ReadFile(fs.Dir(CPUSet, "/") + "/cpuset.mems")
			if err == nil {
				err = kernfile.Write(fs.Dir(CPUSet, p)+"/cpuset.mems", strings.TrimSpace(string(mems)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	pid := sleepIn(t, fs.Dir(CPUSet, container))
	for _, s := range [][2]cpuset.Set{{all, first}, {first, first}, {rest, rest}, {all, first}, {all, all}, {rest, rest}, {first, first}} {
		apply(t, fs, sets(s[0], s[1]))
		if got := allowed(t, pid); got != s[1] {
			t.Errorf("the process may run on %s, want %s", got, s[1])
		}
	}
}

// sleepEnv makes TestSleep the process that is put into groups.
const sleepEnv = "PINFOLD_TEST_SLEEP"

// TestSleep is the process that other tests start. It ends when its standard input ends.
func TestSleep(t *testing.T) {
	if os.Getenv(sleepEnv) == "" {
		t.Skip("other tests run this one in a process of its own")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// sleepIn starts a process in a group.
func sleepIn(t *testing.T, dirs ...string) int {
	t.Helper()
	exe := must.Get(os.Executable())(t)
	cmd := exec.Command(exe, "-test.run=^TestSleep$")
	cmd.Env = append(os.Environ(), sleepEnv+"=1")
	stdin := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for _, dir := range dirs {
		if err := kernfile.Write(dir+"/cgroup.procs", strconv.Itoa(cmd.Process.Pid)); err != nil {
			t.Fatalf("move a process to %s: %v", dir, err)
		}
	}
	return cmd.Process.Pid
}

func allowed(t *testing.T, pid int) cpuset.Set {
	t.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	return cpuset.MustParse(strings.TrimSpace(list))
}

func testHostWeight(t *testing.T, fs *FS, top string) {
	pod := top + "/pod"
	apply(t, fs, map[string]Wanted{pod: {Weight: new(Weight(512))}})
	apply(t, fs, map[string]Wanted{pod: {Idle: new(true)}})
	if o := fs.Apply(map[string]Wanted{pod: {Weight: new(Weight(512))}}); !errors.Is(o.Err(), ErrInvalid) || len(o.Written) > 0 {
		t.Errorf("a weight for an idle group: %v, written %s; want ErrInvalid", o.Err(), listed(o.Written))
	}
	apply(t, fs, map[string]Wanted{pod: {Idle: new(false), Weight: new(Weight(2048))}})
}

// testHostRefused writes a value that the kernel rejects and no plan contains.
func testHostRefused(t *testing.T, fs *FS, top string) {
	before := fs.Writes()
	f, value := CPUCFSBurst, "2000"
	apply(t, fs, map[string]Wanted{top: {Quota: ms(1), Period: ms(100)}})
	if fs.Layout().CPU == V2 {
		f = CPUMaxBurst
	}
	_, err := (&application{fs: fs}).writeAndVerify(Write{Path: top, File: f, Value: value})
	var refused *WriteError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "above the quota") || !strings.Contains(err.Error(), value) {
		t.Errorf("burst above quota: %v; want a WriteError with the value and the cause", err)
	}
	after := fs.Writes()
	if n := after[f].Refused - before[f].Refused; n != 1 {
		t.Errorf("%d refused writes counted, want 1: %v", n, after)
	}
}

func testHostGone(t *testing.T, fs *FS, top string) {
	pod, container := top+"/pod", top+"/pod/container"
	for _, dir := range dirsOf(fs, container) {
		removeGroup(t, dir)
	}
	o := fs.Apply(map[string]Wanted{pod: {Quota: ms(50)}, container: {Quota: ms(20)}})
	if !errors.Is(o.Failed[container], ErrGone) {
		t.Errorf("the group that is gone: %v, want ErrGone", o.Failed[container])
	}
	if o.Failed[pod] != nil || len(o.Written) != 1 {
		t.Errorf("the other group: %v, written %s", o.Failed[pod], listed(o.Written))
	}
	err := fs.write(Write{Path: container, File: CPUIdle, Value: "1"})
	if !errors.Is(err, ErrGone) || errors.Is(err, ErrNoHierarchy) {
		t.Errorf("a write to a group that is gone: %v", err)
	}
	if _, err := fs.read(path.Join(pod, "x"), CPUStat); !errors.Is(err, ErrGone) {
		t.Errorf("a read of a group that is gone: %v", err)
	}
}
