package scx

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/priority"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/test/bpf"
	"pinfold.dev/pinfold/test/must"
)

// service is in what order two groups were served: from the spans of their threads.
type service struct {
	took    time.Duration
	running time.Duration // CPU time of online work
	batch   time.Duration // CPU time of batch work
	begun   int           // how often batch work began to run
	waiting time.Duration // online work waited for a CPU
	// overtaken is how often batch work began to run on a CPU on which a thread of online work waited,
	// and joined how often on a core of which another CPU ran online work.
	overtaken, joined int
	behind            time.Duration // online work waited while batch work ran on that CPU
	beside            time.Duration // batch work ran while online work ran on the same core
}

func (b bench) observe(d time.Duration, online, batch string) service {
	b.Helper()
	core := map[int]int{}
	for i, c := range b.machine.Cores() {
		for cpu := range c.CPUs.All() {
			core[int(cpu)] = i
		}
	}
	var s service
	running := map[bool]map[int][]blame.Span{true: {}, false: {}} // of batch work or not, by CPU
	waiting := map[int][]blame.Span{}                             // of online work
	o, err := schedtrace.Observe(b.Context(), b.fs, schedtrace.Request{Groups: []string{online, batch}, Duration: d,
		Span: func(o *schedtrace.Observation, g blame.Group, span blame.Span) {
			isBatch := g == o.Subjects[batch]
			switch {
			case span.State == blame.Running:
				running[isBatch][span.CPU] = append(running[isBatch][span.CPU], span)
			case span.State == blame.Waiting && !isBatch:
				waiting[span.CPU] = append(waiting[span.CPU], span)
				if span.By.Group == o.Subjects[batch] {
					s.behind += span.To - span.From
				}
			}
		}}, schedtrace.Options{Ring: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	if o.Cost.Lost > 0 {
		b.Logf("%d events lost", o.Cost.Lost)
	}
	s.took, s.running, s.batch = o.To-o.From, o.Groups[o.Subjects[online]].Running, o.Groups[o.Subjects[batch]].Running
	s.waiting = o.Groups[o.Subjects[online]].Waiting()
	for cpu, spans := range running[true] {
		begun, _ := meet(spans, waiting[cpu])
		s.overtaken, s.begun = s.overtaken+begun, s.begun+len(spans)
		for other := range running[false] {
			if other != cpu && core[other] == core[cpu] {
				begun, together := meet(spans, running[false][other])
				s.joined, s.beside = s.joined+begun, s.beside+together
			}
		}
	}
	return s
}

// meet returns how many spans of a begin during one of b, and for how long spans of a overlap some
// of b. The spans of a do not overlap.
func meet(a, b []blame.Span) (begun int, together time.Duration) {
	byTime := func(x, y blame.Span) int { return cmp.Compare(x.From, y.From) }
	slices.SortFunc(a, byTime)
	slices.SortFunc(b, byTime)
	var union []blame.Span // of b
	for _, y := range b {
		if last := len(union) - 1; last >= 0 && y.From <= union[last].To {
			union[last].To = max(union[last].To, y.To)
		} else {
			union = append(union, y)
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(union); {
		x, y := a[i], union[j]
		if y.From < x.From && x.From < y.To {
			begun++
		}
		together += max(0, min(x.To, y.To)-max(x.From, y.From))
		if x.To < y.To {
			i++
		} else {
			j++
		}
	}
	return begun, together
}

// columns are the heads of what String returns.
var columns = fmt.Sprintf("%10s %10s %10s %10s %10s %14s %10s %14s", "online", "batch", "begun", "overtaken", "waiting/s", "behind batch/s",
	"joined", "beside batch/s")

func (s service) String() string {
	perSecond := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) / s.took.Seconds()).Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%10.2f %10.2f %10d %10d %10v %14v %10d %14v", s.running.Seconds()/s.took.Seconds(), s.batch.Seconds()/s.took.Seconds(),
		s.begun, s.overtaken, perSecond(s.waiting), perSecond(s.behind), s.joined, perSecond(s.beside))
}

// TestSideBySide runs the same online and batch work with each mechanism. Batch work runs only
// where a mechanism lets it: none is overdue, and the kernel keeps no time for it.
func TestSideBySide(t *testing.T) {
	b := newBench(t)
	bpf.NoExtServer(t)
	all := b.machine.Online()
	online := b.group("online")
	b.start(online, "wake", 200, all)
	batch := b.group("batch")
	b.start(batch, "busy", 200, all)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cookies := must.Get(priority.OpenCookies(b.fs, filepath.Join(t.TempDir(), "cookie")))(t)
	s := b.load(Options{MaxWait: time.Minute})
	b.setPods(s, b.pod(batch, 1))
	var table strings.Builder
	fmt.Fprintf(&table, "%-26s %s\n", "", columns)
	results := map[string]service{}
	for _, c := range []struct {
		name     string
		set, end func()
	}{
		{"no classes", func() {}, func() {}},
		{"idle", func() { idle := true; check(b.fs.Apply(map[string]cgroup.Wanted{batch: {Idle: &idle}}).Err()) }, func() {}},
		{"idle and core scheduling", func() { check(cookies.Give([]string{batch})) }, func() { check(cookies.Take([]string{batch})) }},
		{"sched_ext", func() {
			check(s.Attach())
			_, err := TurnOver(b.fs, []string{batch})
			check(err)
		}, func() { check(TurnBack(b.fs, []string{batch})); check(s.Detach()) }},
	} {
		c.set()
		time.Sleep(time.Second)
		results[c.name] = b.observe(5*time.Second, online, batch)
		c.end()
		fmt.Fprintf(&table, "%-26s %v\n", c.name, results[c.name])
	}
	t.Logf("\n%s", table.String())
	none, idle, ext := results["no classes"], results["idle"], results["sched_ext"]
	if ext.overtaken > 20+none.overtaken/20 || ext.behind > none.behind/5 {
		t.Error("by sched_ext, online work waits behind batch work")
	}
	if ext.joined > 20+ext.begun*idle.joined/max(1, idle.begun)/4 || ext.beside > idle.beside/2 {
		t.Error("by sched_ext, batch work runs on the cores of online work")
	}
	if ext.batch < ext.took/4 {
		t.Error("by sched_ext, batch work hardly runs")
	}
}
