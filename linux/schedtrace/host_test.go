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
)

// open loads the programs, or skips the test if this machine cannot.
func open(t testing.TB, o Options) *Tracer {
	t.Helper()
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
	for deadline := time.Now().Add(time.Minute); what == "compute" && must(cgroupstat.Read(fs, group))(t).Usage < begin+20*time.Millisecond; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the load does not compute")
		}
	}
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

// observe traces groups for a time.
func observe(t testing.TB, fs *cgroup.FS, d time.Duration, groups ...string) *Observation {
	t.Helper()
	o, err := Observe(t.Context(), fs, Request{Groups: groups, Duration: d, Longest: 5}, Options{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if o.Cost.Lost > 0 {
		t.Errorf("%d events lost", o.Cost.Lost)
	}
	t.Logf("%d switches, %v each, %d missed", o.Cost.Switches, o.Cost.SwitchTime/time.Duration(max(1, o.Cost.Switches)), o.Missed)
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

// TestThrottled: a thread that always wants to run and may run 10 ms in 100 ms.
func TestThrottled(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	group := newGroup(t, fs, "throttled", 10*time.Millisecond)
	load(t, fs, group, "compute")
	var stats []cgroupstat.Stat // before and after the start of tracing, and after its end
	read := func() { stats = append(stats, must(cgroupstat.Read(fs, group))(t)) }
	o := trace(t, fs, Options{}, 2*time.Second, func() {
		if len(stats) < 2 {
			read()
		}
	}, group)
	read()
	afterEnd := Now() - o.To
	sum := o.sum(group)
	whole, thread := o.To-o.From, busiest(sum)
	checkWhole(t, o, thread)
	t.Logf("in %v: running %v, throttled %v, stolen %v, waiting %v, unknown %v", whole, thread.Running, thread.Throttled, thread.Stolen, thread.Waiting(), thread.Unknown)
	most, least := stats[2].Usage-stats[0].Usage, stats[2].Usage-stats[1].Usage-afterEnd
	if allowed := whole/100 + sum.Unknown; sum.Running > most+allowed || sum.Running < least-allowed {
		t.Errorf("running %v, usage %v to %v", sum.Running, least, most)
	}
	if thread.Runnable()+thread.Unknown < whole*99/100 {
		t.Errorf("it wanted to run for %v of %v", thread.Runnable(), whole)
	}
	periods, throttled := sum.Last.Periods-sum.First.Periods, sum.Last.Throttled-sum.First.Throttled
	if want := uint32(whole / (100 * time.Millisecond)); periods+3 < want || periods > want || throttled > periods {
		t.Errorf("%d of %d periods throttled in %v", throttled, periods, whole)
	}
	if uint64(sum.Last.Periods) > stats[2].Periods || uint64(sum.First.Periods)+1 < stats[0].Periods {
		t.Errorf("edges of periods %d to %d; cpu.stat says %d to %d", sum.First.Periods, sum.Last.Periods, stats[0].Periods, stats[2].Periods)
	}
	// The kernel has counted what ended at an edge, the analysis also what goes on.
	most, least = stats[2].ThrottledTime-stats[0].ThrottledTime, stats[2].ThrottledTime-stats[1].ThrottledTime-afterEnd
	if allowed := whole/20 + sum.Unknown + 100*time.Millisecond; thread.Throttled > most+allowed || thread.Throttled < least-allowed {
		t.Errorf("throttled %v, the kernel counts %v to %v", thread.Throttled, least, most)
	}
	if throttled > 0 && (len(sum.Longest) == 0 || sum.Longest[0].Delayed() < 40*time.Millisecond) {
		t.Errorf("longest delays: %+v", sum.Longest)
	}
}

// TestThrottledTogether: two threads that always want to run share a quota of 10 ms in 100 ms on a
// CPU. While one runs, the other waits; after that both are throttled.
func TestThrottledTogether(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	group := newGroup(t, fs, "together", 10*time.Millisecond)
	load(t, fs, group, "compute")
	load(t, fs, group, "compute")
	o := observe(t, fs, 2*time.Second, group)
	sum, whole := o.sum(group), o.To-o.From
	for _, thread := range byDemand(sum)[:2] {
		t.Logf("in %v: running %v, throttled %v, waiting %v, unknown %v", whole, thread.Running, thread.Throttled, thread.Waiting(), thread.Unknown)
		if thread.Throttled < whole/2-thread.Unknown || thread.Waiting() > whole*35/100 {
			t.Errorf("throttled %v of %v, waiting %v", thread.Throttled, whole, thread.Waiting())
		}
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

// TestSiblings: two busy threads of one group take turns on a CPU.
func TestSiblings(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	group := newGroup(t, fs, "siblings", 0)
	load(t, fs, group, "compute")
	load(t, fs, group, "compute")
	o := observe(t, fs, time.Second, group)
	sum := o.sum(group)
	thread := busiest(sum)
	checkWhole(t, o, thread)
	waited := behind(thread.Parts, o.Subjects[group])
	t.Logf("running %v, waiting %v, of that behind own threads %v", thread.Running, thread.Waiting(), waited)
	if others := sum.Running + sum.Stolen - thread.Running - thread.Stolen; (waited - others).Abs() > (o.To-o.From)/100+sum.Unknown {
		t.Errorf("it waited %v behind other threads of its group, which ran %v", waited, others)
	}
}
