package scx

import (
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/test/bpf"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// TestShares: pods get CPU time by their weights, however many threads they have.
func TestShares(t *testing.T) {
	b := newBench(t)
	s := b.attached(Options{MaxWait: time.Minute})
	all := b.machine.Online()
	x, y, z := b.batch("x", 20, all), b.batch("y", 30, all), b.batch("z", 100, all)
	b.setPods(s, b.pod(x, 400), b.pod(y, 200), b.pod(z, 100))
	time.Sleep(500 * time.Millisecond)
	b.settles(4*time.Second, func(used []float64) error {
		whole := used[0] + used[1] + used[2]
		for i, want := range []float64{4, 2, 1} {
			if share := used[i] / whole; math.Abs(share-want/7) > 0.2*want/7 {
				return fmt.Errorf("pod %d got %.3f of the CPU time, want %.3f", i, share, want/7)
			}
		}
		if whole < 0.7*float64(all.Len()) {
			return fmt.Errorf("batch work used %.2f of %d CPUs that nothing else wanted", whole, all.Len())
		}
		return nil
	}, x, y, z)
}

// TestBudget: 150 threads share a budget of half a CPU. Each of them runs in time, and together
// they do not use more.
func TestBudget(t *testing.T) {
	b := newBench(t)
	const maxWait = 5 * time.Second
	s := b.attached(Options{MaxWait: maxWait, Watchdog: 15 * time.Second})
	all := b.machine.Online()
	x, y := b.batch("x", 75, all), b.batch("y", 75, all)
	b.setPods(s, b.pod(x, 1), b.pod(y, 1))
	for _, budget := range []quantity.CPUs{0.5, 2, quantity.CPUs(math.Inf(1))} {
		must.Do(t, s.SetBudget(budget))
		time.Sleep(time.Second)
		before := must.Get(s.Stats())(t)
		began := time.Now()
		b.settles(6*time.Second, func(used []float64) error {
			after := must.Get(s.Stats())(t)
			whole, overdrawn := used[0]+used[1], (after.Overdrawn-before.Overdrawn).Seconds()/time.Since(began).Seconds()
			most := min(float64(budget), float64(all.Len()))
			if whole-overdrawn > 1.25*most || whole < 0.6*most {
				return fmt.Errorf("with a budget of %g CPUs batch work used %.2f, %.2f of it overdue", float64(budget), whole, overdrawn)
			}
			return nil
		}, x, y)
		for group, stat := range must.Get(s.Stats())(t).Pods {
			if stat.Longest > 2*maxWait {
				t.Errorf("a thread of group %d waited for %v, want at most about %v", group, stat.Longest, maxWait)
			}
		}
	}
}

// TestExpeller: batch work does not run beside a thread that other work has on its core, until it
// is overdue, and runs there as soon as the core is free.
func TestExpeller(t *testing.T) {
	b := newBench(t)
	cores := b.machine.Cores()
	if cores[0].CPUs.Len() < 2 {
		t.Skip("no core has two threads")
	}
	s := b.attached(Options{MaxWait: 30 * time.Second})
	var core []cpuset.CPU
	for cpu := range cores[0].CPUs.All() {
		core = append(core, cpu)
	}
	batch := b.batch("batch", 3, cpuset.Of(core[1]))
	b.setPods(s, b.pod(batch, 1))
	most := func(used []float64) error {
		if used[0] < 0.5 {
			return fmt.Errorf("batch work used %.3f of a CPU that nothing else wanted", used[0])
		}
		return nil
	}
	b.settles(2*time.Second, most, batch)
	online := b.group("online")
	other := b.start(online, "busy", 1, cpuset.Of(core[0]))
	time.Sleep(200 * time.Millisecond)
	b.settles(3*time.Second, func(used []float64) error {
		if used[0] > 0.15 {
			return fmt.Errorf("batch work used %.3f CPUs beside other work", used[0])
		}
		return nil
	}, batch)
	other.end()
	b.settles(2*time.Second, most, batch)
	if stats := must.Get(s.Stats())(t); stats.Expelled == 0 {
		t.Errorf("%+v, want an expulsion", stats)
	}
}

// TestOverdue: batch work whose core runs other work all the time runs at least each MaxWait.
func TestOverdue(t *testing.T) {
	b := newBench(t)
	cores := b.machine.Cores()
	if cores[0].CPUs.Len() < 2 {
		t.Skip("no core has two threads")
	}
	const maxWait = time.Second
	s := b.attached(Options{MaxWait: maxWait})
	var core []cpuset.CPU
	for cpu := range cores[0].CPUs.All() {
		core = append(core, cpu)
	}
	b.start(b.group("online"), "busy", 1, cpuset.Of(core[0]))
	batch := b.batch("batch", 2, cpuset.Of(core[1]))
	b.setPods(s, b.pod(batch, 1))
	var stat Stat
	wait.True(t, "batch work is overdue a few times", func() bool {
		stat = must.Get(s.Stats())(t).Pods[b.pod(batch, 1).Group]
		return stat.Overdue >= 4
	})
	t.Logf("%+v", stat)
	if stat.Longest > 3*maxWait || stat.Longest < maxWait/2 {
		t.Errorf("%d overdue runs, the longest wait was %v; want some, and about %v", stat.Overdue, stat.Longest, maxWait)
	}
}

// TestOnlineFirst: hundreds of threads that wake up do not wait behind hundreds of threads of batch
// work.
func TestOnlineFirst(t *testing.T) {
	b := newBench(t)
	bpf.NoExtServer(t)
	all := b.machine.Online()
	online := b.group("online")
	b.start(online, "wake", 200, all)
	batch := b.batch("batch", 200, all)
	waited := func(when string) float64 {
		o, err := schedtrace.Observe(t.Context(), b.fs, schedtrace.Request{Groups: []string{online, batch}, Duration: 3 * time.Second}, schedtrace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sum := o.Groups[o.Subjects[online]]
		var behind time.Duration
		for by, d := range sum.Behind {
			if by.Group == o.Subjects[batch] {
				behind += d
			}
		}
		t.Logf("%s: online work ran for %v and waited behind batch work for %v, %v in all", when, sum.Running, behind, sum.Waiting())
		return behind.Seconds() / sum.Running.Seconds()
	}
	without := waited("without a scheduler")
	s := b.attached(Options{MaxWait: time.Minute})
	b.setPods(s, b.pod(batch, 1))
	time.Sleep(time.Second)
	with := waited("with it")
	if with > without/4 {
		t.Errorf("online work waited %.2f times as long as it ran behind batch work, without the scheduler %.2f", with, without)
	}
	b.settles(2*time.Second, func(used []float64) error {
		if used[0] < 0.3*float64(all.Len()) {
			return fmt.Errorf("batch work used %.2f CPUs", used[0])
		}
		return nil
	}, batch, online)
}

// TestAffinity: a thread runs on the CPUs that it and its group may use.
func TestAffinity(t *testing.T) {
	b := newBench(t)
	s := b.attached(Options{})
	all := b.machine.Online()
	one, other := cpuset.Of(1), cpuset.Of(2)
	x, y := b.batch("x", 10, one), b.batch("y", 10, all)
	if out := b.fs.Apply(map[string]cgroup.Wanted{y: {CPUs: &other}}); out.Err() != nil {
		t.Fatal(out.Err())
	}
	b.setPods(s, b.pod(x, 1), b.pod(y, 1))
	time.Sleep(time.Second)
	on, may := map[int]cpuset.Set{}, map[int]cpuset.Set{}
	o := must.Get(schedtrace.Observe(t.Context(), b.fs, schedtrace.Request{Groups: []string{x, y}, Duration: 2 * time.Second,
		Span: func(_ *schedtrace.Observation, _ blame.Group, span blame.Span) {
			if span.State == blame.Running {
				on[span.Thread.ID] = on[span.Thread.ID].Union(cpuset.Of(cpuset.CPU(span.CPU)))
			}
		}}, schedtrace.Options{}))(t)
	pinned := 0
	for _, sum := range o.Groups {
		for _, thread := range sum.Threads {
			var mask unix.CPUSet
			must.Do(t, unix.SchedGetaffinity(thread.ID, &mask))
			for cpu := range all.All() {
				if mask.IsSet(int(cpu)) {
					may[thread.ID] = may[thread.ID].Union(cpuset.Of(cpu))
				}
			}
			if ran := on[thread.ID]; !ran.IsSubsetOf(may[thread.ID]) {
				t.Errorf("thread %d ran on CPUs %s and may run on %s", thread.ID, ran, may[thread.ID])
			}
			if may[thread.ID].Len() == 1 && on[thread.ID].Len() == 1 {
				pinned++
			}
		}
	}
	if pinned < 20 {
		t.Errorf("%d threads with one CPU ran there, want 20", pinned)
	}
}
