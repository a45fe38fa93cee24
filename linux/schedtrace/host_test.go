package schedtrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// open loads the programs, or skips the test if this machine cannot.
func open(t testing.TB, o Options) *Tracer {
	t.Helper()
	need.This(t, "this machine's scheduler")
	tracer, err := Open(o)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tracer.Close() })
	return tracer
}

// newGroup returns a new group with that quota in periods of 100 ms, 0 for none.
func newGroup(t testing.TB, fs *cgroup.FS, name string, quota time.Duration) string {
	t.Helper()
	group := fmt.Sprintf("/pinfold-schedtrace-%d-%s", os.Getpid(), name)
	cgrouptest.Make(t, fs, group, cgroup.CPU, cgroup.CPUAcct)
	if quota > 0 {
		if out := fs.Apply(map[string]cgroup.Wanted{group: {Quota: &quota}}); out.Err() != nil {
			t.Fatal(out.Err())
		}
	}
	return group
}

// load runs this program as a load (see TestMain) in a group, on CPU 0.
func load(t testing.TB, fs *cgroup.FS, group, what string) {
	t.Helper()
	command := child(what)
	start, ready := must(command.StdinPipe())(t), must(command.StdoutPipe())(t)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	cgrouptest.Move(t, fs, group, command.Process.Pid, cgroup.CPU, cgroup.CPUAcct)
	if _, err := start.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	must(fmt.Fscanln(ready, new(string)))(t)
	begin := must(cgroupstat.Read(fs, group))(t).Usage
	wait.True(t, "the load computes", func() bool {
		return what != "compute" || must(cgroupstat.Read(fs, group))(t).Usage >= begin+2*time.Millisecond
	})
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// observe traces groups for a time, again if it was disturbed.
func observe(t testing.TB, fs *cgroup.FS, d time.Duration, groups ...string) (o *Observation) {
	t.Helper()
	open(t, Options{})
	busy.Repeat(t, 4, func() (disturbed string) {
		o = must(Observe(t.Context(), fs, Request{Groups: groups, Duration: d, Longest: 5}, Options{}))(t)
		if o.Cost.Lost > 0 {
			return fmt.Sprintf("%d events were lost, because they were read too late", o.Cost.Lost)
		}
		return ""
	})
	return o
}

// trace traces groups for a time. It calls during before tracing begins, when it has begun, and
// after each event.
func trace(t testing.TB, fs *cgroup.FS, options Options, d time.Duration, during func(), groups ...string) *Observation {
	t.Helper()
	tracer := open(t, options)
	o := &Observation{Subjects: map[string]blame.Group{}}
	watched := map[blame.Group]blame.Group{}
	for _, group := range groups {
		g := blame.Group(must(fs.Inode(cgroup.CPU, group))(t))
		o.Subjects[group], watched[g] = g, g
		if err := tracer.Set(g, Threads|Quota); err != nil {
			t.Fatal(err)
		}
	}
	during()
	analysis := blame.New(blame.Options{Start: must(tracer.Start())(t), Watched: watched, Longest: 3})
	during()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	until, err := tracer.Run(ctx, func(e blame.Event) { analysis.Add(e); during() })
	if err != nil {
		t.Fatal(err)
	}
	o.Report = analysis.Report(until)
	return o
}

func (o *Observation) sum(group string) *blame.Sum { return o.Groups[o.Subjects[group]] }

// busiest returns the thread that wanted to run longest: that of a load. A thread of the Go runtime
// that watches it may run as long as the load, but sleeps in between.
func busiest(sum *blame.Sum) blame.ThreadSum { return byDemand(sum)[0] }

// byDemand returns the threads of a group, first that which wanted to run longest.
func byDemand(sum *blame.Sum) []blame.ThreadSum {
	return slices.SortedFunc(slices.Values(sum.Threads), func(a, b blame.ThreadSum) int { return cmp.Compare(b.Runnable(), a.Runnable()) })
}

// behind returns the time spent waiting behind a group.
func behind(p blame.Parts, group blame.Group) (d time.Duration) {
	for by, waited := range p.Behind {
		if by.Group == group {
			d += waited
		}
	}
	return d
}

// checkWhole checks that the parts of a thread that existed all the time add up to that.
func checkWhole(t *testing.T, o *Observation, thread blame.ThreadSum) {
	t.Helper()
	if whole := thread.Runnable() + thread.Sleeping + thread.Unknown; whole != o.To-o.From {
		t.Errorf("thread %d: the parts add up to %v, observed for %v", thread.ID, whole, o.To-o.From)
	}
}

// TestThrottled: two threads that always want to run share 10 ms in 100 ms on a CPU. What they and
// other programs get of it differs, but the times must be those that the kernel counts.
func TestThrottled(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	group := newGroup(t, fs, "throttled", 10*time.Millisecond)
	load(t, fs, group, "compute")
	load(t, fs, group, "compute")
	var stats []cgroupstat.Stat // before and after the start of tracing, and after its end
	read := func() { stats = append(stats, must(cgroupstat.Read(fs, group))(t)) }
	o := trace(t, fs, Options{}, time.Second, func() {
		if len(stats) < 2 {
			read()
		}
	}, group)
	read()
	afterEnd := Now() - o.To
	sum, whole := o.sum(group), o.To-o.From
	within := func(what string, got, more, least, most, allowed time.Duration) {
		if got > most+allowed || got+more < least-allowed {
			t.Errorf("%s %v of %v, the kernel counts %v to %v", what, got, whole, least, most)
		}
	}
	within("running", sum.Running, 0, stats[2].Usage-stats[1].Usage-afterEnd, stats[2].Usage-stats[0].Usage, whole/100+sum.Unknown)
	if first, last := uint64(sum.First.Periods), uint64(sum.Last.Periods); last > stats[2].Periods || first+1 < stats[0].Periods || sum.Last.Throttled-sum.First.Throttled > sum.Last.Periods-sum.First.Periods {
		t.Errorf("edges of periods %+v to %+v; cpu.stat says %d to %d", sum.First, sum.Last, stats[0].Periods, stats[2].Periods)
	}
	for _, thread := range byDemand(sum)[:2] {
		t.Logf("in %v: running %v, throttled %v, stolen %v, waiting %v, unknown %v", whole, thread.Running, thread.Throttled, thread.Stolen, thread.Waiting(), thread.Unknown)
		checkWhole(t, o, thread)
		// The kernel has counted what ended at an edge, the analysis also what goes on. A busy CPU hears
		// late of a refill: until then the kernel counts the thread as throttled, the analysis as waiting.
		within("throttled", thread.Throttled, thread.Waiting(), stats[2].ThrottledTime-stats[1].ThrottledTime-afterEnd,
			stats[2].ThrottledTime-stats[0].ThrottledTime, whole/20+sum.Unknown+100*time.Millisecond)
	}
	if sum.Own == 0 {
		t.Error("the threads never waited for each other")
	}
	if sum.Last.Throttled > sum.First.Throttled && len(sum.Longest) == 0 {
		t.Error("it was throttled, and there is no longest delay")
	}
}

// TestTurns: two groups with a busy thread each take turns on a CPU. While one runs, the other's
// thread waits behind it.
func TestTurns(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	a, b := newGroup(t, fs, "a", 0), newGroup(t, fs, "b", 0)
	load(t, fs, a, "compute")
	load(t, fs, b, "compute")
	o := observe(t, fs, time.Second, a, b)
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		one, other := o.sum(pair[0]), o.sum(pair[1])
		thread := busiest(one)
		checkWhole(t, o, thread)
		waited := behind(thread.Parts, o.Subjects[pair[1]])
		t.Logf("running %v, waiting %v, of that behind the other %v", thread.Running, thread.Waiting(), waited)
		if on := other.Running + other.Stolen; (waited - on).Abs() > (o.To-o.From)/100+thread.Unknown+other.Unknown {
			t.Errorf("it waited %v behind the other, which ran %v", waited, on)
		}
	}
}
