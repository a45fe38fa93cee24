package runqueue

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/bpf"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

func TestMain(m *testing.M) { cgrouptest.Main(m) }

// TestObject: the compiled program is that of the source.
func TestObject(t *testing.T) { bpf.Compare(t, "runqueue", object) }

// open begins to sample, or skips the test if this machine cannot.
func open(t testing.TB) *Sampler {
	t.Helper()
	need.This(t, "this machine's scheduler")
	s, err := Open()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must.Do(t, s.Close()) })
	return s
}

// node has groups with busy threads on CPU 0.
type node struct {
	t   testing.TB
	fs  *cgroup.FS
	ids map[string]blame.Group
}

// group makes a group with that quota in periods of 100 ms, 0 for none, and some busy threads.
func (n *node) group(name string, quota time.Duration, threads int) string {
	n.t.Helper()
	group := fmt.Sprintf("/pinfold-runqueue-%d-%s", os.Getpid(), name)
	cgrouptest.Make(n.t, n.fs, group, cgroup.CPU, cgroup.CPUAcct)
	if quota > 0 {
		if out := n.fs.Apply(map[string]cgroup.Wanted{group: {Quota: &quota}}); out.Err() != nil {
			n.t.Fatal(out.Err())
		}
	}
	for range threads {
		pin(n.t, cgrouptest.Start(n.t, n.fs, group, "busy", cgroup.CPU, cgroup.CPUAcct))
	}
	n.ids[group] = blame.Group(must.Get(n.fs.Inode(cgroup.CPU, group))(n.t))
	wait.True(n.t, "the threads compute", func() bool { return threads == 0 || n.used(group) > 10*time.Millisecond })
	return group
}

// pin makes all threads of a process run on CPU 0.
func pin(t testing.TB, pid int) {
	t.Helper()
	var zero unix.CPUSet
	zero.Set(0)
	for range 2 { // a thread that was started meanwhile has what its maker had
		for _, task := range must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)))(t) {
			_ = unix.SchedSetaffinity(must.Get(strconv.Atoi(task.Name()))(t), &zero) // it may have ended
		}
	}
}

func (n *node) used(group string) time.Duration {
	n.t.Helper()
	return must.Get(cgroupstat.Read(n.fs, group))(n.t).Usage
}

// sum returns for how long a group has waited behind what is.
func sum(waits []Wait, group blame.Group, is func(*Wait) bool) (d time.Duration) {
	for i := range waits {
		if w := &waits[i]; w.Group == group && is(w) {
			d += w.Time
		}
	}
	return d
}

func behind(other blame.Group) func(*Wait) bool {
	return func(w *Wait) bool { return w.Behind == Group && w.Other == other }
}

// deviations is how many standard deviations a time may differ from what it is compared with.
const deviations = 5

// near checks that a sampled time is what it should be, as the package comment says.
func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	allowed := time.Duration(deviations*math.Sqrt(float64(max(want, Period))*float64(Period))) + 20*time.Millisecond
	t.Logf("%s: %v, want %v ± %v", what, got, want, allowed)
	if got < want-allowed || got > want+allowed {
		t.Errorf("%s: %v, want %v ± %v", what, got, want, allowed)
	}
}

// TestTurns: two groups and threads of this process take turns on a CPU. A group waits behind the
// other for as long as that runs.
func TestTurns(t *testing.T) {
	s, n := open(t), &node{t, cgrouptest.OpenHost(t), map[string]blame.Group{}}
	a, b := n.group("a", 0, 1), n.group("b", 0, 3)
	must.Get(s.Read())(t)
	usedA, usedB := n.used(a), n.used(b)
	time.Sleep(3 * time.Second)
	waits := must.Get(s.Read())(t)
	usedA, usedB = n.used(a)-usedA, n.used(b)-usedB
	near(t, "a behind b", sum(waits, n.ids[a], behind(n.ids[b])), usedB)
	near(t, "b behind a", sum(waits, n.ids[b], behind(n.ids[a])), usedA)
	near(t, "b behind itself", sum(waits, n.ids[b], behind(n.ids[b])), usedB)
	if own := sum(waits, n.ids[a], behind(n.ids[a])); own > time.Second { // threads of Go's runtime wait for the busy one
		t.Errorf("a waited %v of 3 s behind itself", own)
	}
	if machine := sum(waits, n.ids[a], func(w *Wait) bool { return w.Behind == Machine }); machine > time.Second {
		t.Errorf("a waited %v of 3 s for interrupts and the hypervisor", machine)
	}
	cost := must.Get(s.Cost())(t)
	t.Logf("%+v", cost)
	if cost.Samples < 300 || cost.Time == 0 || cost.Time/time.Duration(cost.Samples) > 100*time.Microsecond || cost.Lost > 0 {
		t.Errorf("cost %+v", cost)
	}
}

// TestThrottled: a group that waits for its quota waits behind nobody.
func TestThrottled(t *testing.T) {
	s, n := open(t), &node{t, cgrouptest.OpenHost(t), map[string]blame.Group{}}
	group, other := n.group("throttled", 10*time.Millisecond, 2), n.group("other", 0, 0)
	must.Get(s.Read())(t)
	before := must.Get(cgroupstat.Read(n.fs, group))(t)
	begin := time.Now()
	time.Sleep(2 * time.Second)
	waits, took := must.Get(s.Read())(t), time.Since(begin)
	stat := must.Get(cgroupstat.Read(n.fs, group))(t)
	throttled, used := stat.ThrottledTime-before.ThrottledTime, stat.Usage-before.Usage
	id := n.ids[group]
	near(t, "behind itself", sum(waits, id, behind(id)), used)
	all := sum(waits, id, func(*Wait) bool { return true })
	t.Logf("in %v: used %v, throttled %v, waited %v", took, used, throttled, all)
	near(t, "all but its own threads", all-sum(waits, id, behind(id)), max(0, took-used-throttled))
	if got := sum(waits, n.ids[other], func(*Wait) bool { return true }); got != 0 {
		t.Errorf("a group without threads waited %v", got)
	}
}

// TestRoot: a thread of the root group is known by its name.
func TestRoot(t *testing.T) {
	s, n := open(t), &node{t, cgrouptest.OpenHost(t), map[string]blame.Group{}}
	group := n.group("victim", 0, 1)
	pin(t, cgrouptest.Start(t, n.fs, "/", "busy", cgroup.CPU, cgroup.CPUAcct))
	wait.True(t, "it waits behind a thread of the root group", func() bool {
		return sum(must.Get(s.Read())(t), n.ids[group], func(w *Wait) bool { return w.Behind == Root && w.Name == "exe" }) > 0
	})
}

// BenchmarkSample measures what a sample costs with threads that wait, as ns/sample, and with that
// the share of each CPU's time.
func BenchmarkSample(b *testing.B) {
	for _, threads := range []int{0, 10, 100} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			s, n := open(b), &node{b, cgrouptest.OpenHost(b), map[string]blame.Group{}}
			for range threads {
				pin(b, cgrouptest.Start(b, n.fs, "/", "busy", cgroup.CPU, cgroup.CPUAcct))
			}
			before := must.Get(s.Cost())(b)
			for b.Loop() {
				time.Sleep(time.Second)
			}
			cost := must.Get(s.Cost())(b)
			each := float64(cost.Time-before.Time) / float64(cost.Samples-before.Samples)
			b.ReportMetric(each, "ns/sample")
			b.ReportMetric(100*each/float64(Period), "%CPU")
			b.ReportMetric(0, "ns/op")
		})
	}
}
