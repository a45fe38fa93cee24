package confine

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/must"
)

// testLimit checks that a command is throttled, unless the machine's other programs leave it less
// than its quota in each period.
func testLimit(t *testing.T) {
	o := order{Do: []string{"spin", "1s"}, Quota: 5 * time.Millisecond, Period: 100 * time.Millisecond}
	var r *Result
	busy.Repeat(t, 4, func() (disturbed string) {
		if r, _ = run(t, o); r.Stat.Throttled == 0 {
			return "the command never got what it may use"
		}
		return ""
	})
	checkLimited(t, r, o)
	if r.Settings.Quota != o.Quota || r.Settings.Period != o.Period || r.Wall < time.Second {
		t.Errorf("%v, settings %+v", r.Wall, r.Settings)
	}
	if sum := r.User + r.System; sum != r.Stat.Usage && sum != 0 && (sum-r.Stat.Usage).Abs() > time.Millisecond {
		t.Errorf("%v user and %v system make %v?", r.User, r.System, r.Stat.Usage)
	}
	if r.MaxRSS < 1<<20 || r.MaxRSS > 1<<30 {
		t.Errorf("memory %d", r.MaxRSS)
	}
}

// checkLimited checks what throttled processes have used: their quota, what the bucket holds at the
// start, and what was used until late ticks, also of a virtual CPU that stands still.
func checkLimited(t *testing.T, r *Result, o order) {
	t.Helper()
	most := time.Duration(float64(r.Wall)*float64(o.Quota)/float64(o.Period)) + 200*time.Millisecond
	if s := r.Stat; s.Usage > most || s.Usage <= 0 || s.Throttled == 0 || s.Throttled > s.Periods || s.ThrottledTime <= 0 {
		t.Errorf("%v used in %v, want at most %v: %+v", s.Usage, r.Wall, most, s)
	}
}

func testCPUs(t *testing.T) {
	all := usable(t)
	first := cpuset.Of(all.First())
	for _, cpus := range []cpuset.Set{first, all.Difference(first), all} {
		if cpus.IsEmpty() {
			continue
		}
		r, out := run(t, order{Do: []string{"where"}, CPUs: cpus.String()})
		if _, got, _ := strings.Cut(strings.TrimSpace(out), " "); got != cpus.String() || r.Settings.Effective != cpus {
			t.Errorf("the command runs on %s, %s, want %s", got, r.Settings.Effective, cpus)
		}
	}
	if all.Len() < 2 {
		t.Skip("one CPU only: an affinity needs two to be narrower")
	}
	// Chosen CPUs override a narrower affinity.
	cmd := starting(t, order{Do: []string{"where"}, CPUs: all.String()})
	var out bytes.Buffer
	cmd.Stdout = &out
	narrowly(t, first, func() { begin(t, cmd) })
	if err := cmd.Wait(); err != nil || !strings.HasSuffix(out.String(), " "+all.String()+"\n") {
		t.Errorf("%v: it runs on %q, want %s", err, out.String(), all)
	}
}

// usable returns the CPUs that groups of this test may have.
func usable(t *testing.T) cpuset.Set {
	t.Helper()
	var parent cpuset.Set
	s := order{Do: []string{"exit", "0"}}.spec()
	s.CPUs = func(r Room) (cpuset.Set, error) { parent = r.Parent; return r.Parent, nil }
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return parent
}

// testWhere checks that the command and its children are in its group from the first instruction.
func testWhere(t *testing.T) {
	_, out := run(t, order{Do: []string{"where", "child"}})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || lines[0] != lines[1] || !strings.Contains(lines[0], runPrefix) || !strings.Contains(lines[0], leaf+" ") {
		t.Errorf("command and child are in\n%s", out)
	}
}

// testWithin checks that a run within a run is in its group.
func testWithin(t *testing.T) {
	inner, err := json.Marshal(order{Do: []string{"where"}, Quota: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	r, out := run(t, order{Do: []string{"run", string(inner)}, Quota: 20 * time.Millisecond})
	if r.ExitStatus != 0 || strings.Count(out, runPrefix) != 2 {
		t.Errorf("status %d, where: %s", r.ExitStatus, out)
	}
}

// testRefused checks that the command is not started if the kernel rejects its settings.
func testRefused(t *testing.T) {
	s := order{Do: []string{"exit", "0"}, Quota: 10 * time.Millisecond, Burst: 20 * time.Millisecond}.spec()
	s.Notify = func(string) {}
	if _, err := Run(t.Context(), s); !errors.Is(err, cgroup.ErrInvalid) {
		t.Errorf("burst above quota: %v", err)
	}
	s = order{Do: []string{"exit", "0"}, CPUs: "1000"}.spec()
	if _, err := Run(t.Context(), s); err == nil {
		t.Error("a CPU that does not exist is accepted")
	}
}

func testIdle(t *testing.T) {
	if r, _ := run(t, order{Do: []string{"exit", "0"}, Idle: true}); !r.Settings.Idle && !r.Settings.NoIdle {
		t.Errorf("not idle: %+v", r.Settings)
	}
}

// narrowly calls a function with an affinity to some CPUs.
func narrowly(t *testing.T, cpus cpuset.Set, do func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this goroutine, and its affinity with it.
		err := widenAffinity(cpus)
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestRunsOfSome: a group that may not be listed hides the runs below it, by its name, and no others.
func TestRunsOfSome(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"proc/self", "sys/fs/cgroup/a/pinfold-run-a", "sys/fs/cgroup/closed/pinfold-run-b", "sys/fs/cgroup/open/pinfold-run-c",
		"sys/fs/cgroup/kubelet.slice/kubelet-kubepods.slice/pinfold-run-d"} {
		must.Do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(root, "proc/self/mountinfo"), []byte("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), 0o600),
		os.WriteFile(filepath.Join(root, "sys/fs/cgroup/cgroup.controllers"), []byte("cpuset cpu\n"), 0o600)))
	fs := must.Get(cgroup.Open(root))(t)
	closed := filepath.Join(root, "sys/fs/cgroup/closed")
	must.Do(t, os.Chmod(closed, 0o311))
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
	cgrouptest.DropOverride(t)
	runs, err := Runs(fs)
	if want := []string{"/a/pinfold-run-a", "/open/pinfold-run-c"}; !slices.Equal(runs, want) {
		t.Errorf("%v, want %v", runs, want)
	}
	if want := "the groups below " + closed + " cannot be listed"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
