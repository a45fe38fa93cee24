package scx

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestBoundedTimer: a run of the timer searches at most its bound of threads, and the next run goes
// on. So all threads run in time, although the budget is 0 and there are as many pods as the
// scheduler has queues.
func TestBoundedTimer(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ bound, threads int }{{4, 100}, {256, 300}} {
		t.Run(fmt.Sprint(c.bound), func(t *testing.T) {
			b := bench{t, b.fs, b.machine}
			const maxWait = 2 * time.Second
			s := b.loadWith(Options{MaxWait: maxWait}, map[string]uint32{"most_searched": uint32(c.bound)})
			b.attach(s)
			group := b.group("batch")
			load := b.start(group, "busy", c.threads, b.machine.Online())
			pods := []Pod{b.pod(group, 1)}
			for i := range uint64(maxPods - 2) {
				pods = append(pods, Pod{Group: 1<<40 + i, Weight: 1}) // these have no threads
			}
			b.setPods(s, pods...)
			process := load.cmd.Process.Pid
			if !eventually(time.Minute, func() bool { return runnable(t, process) >= c.threads }) {
				t.Fatalf("%d threads want to run, want %d", runnable(t, process), c.threads)
			}
			must(TurnOver(b.fs, []string{group}))(t)
			if err := s.SetBudget(0); err != nil {
				t.Fatal(err)
			}
			before := timesRun(t, process)
			time.Sleep(4 * maxWait)
			after := timesRun(t, process)
			ran := 0
			for thread, n := range after {
				if n > before[thread] {
					ran++
				}
			}
			var w worst
			if err := s.kernel.Worst.Get(&w); err != nil {
				t.Fatal(err)
			}
			stat := must(s.Stats())(t).Pods[pods[0].Group]
			t.Logf("a run of the timer took %v and searched %d threads after %d others, at most; %+v",
				time.Duration(w.NS), w.Searched, w.Passed, stat)
			if int(w.Searched) != c.bound || w.Passed == 0 {
				t.Errorf("a run searched %d threads after %d others, want %d after some", w.Searched, w.Passed, c.bound)
			}
			if ran < c.threads || stat.Longest > 3*maxWait {
				t.Errorf("%d threads ran, want all %d; the longest wait was %v, want about %v", ran, c.threads, stat.Longest, maxWait)
			}
		})
	}
}

// eachThread calls visit with a file of each thread of a process.
func eachThread(t *testing.T, process int, file string, visit func(thread, text string)) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/task/", process)
	for _, thread := range must(os.ReadDir(dir))(t) {
		text, _ := os.ReadFile(dir + thread.Name() + "/" + file)
		visit(thread.Name(), string(text))
	}
}

// runnable returns how many threads of a process run or wait for a CPU.
func runnable(t *testing.T, process int) (n int) {
	t.Helper()
	eachThread(t, process, "stat", func(_, text string) {
		if _, after, _ := strings.Cut(text, ") "); strings.HasPrefix(after, "R") {
			n++
		}
	})
	return n
}

// timesRun returns how often each thread of a process has run.
func timesRun(t *testing.T, process int) map[string]int {
	t.Helper()
	all := map[string]int{}
	eachThread(t, process, "schedstat", func(thread, text string) {
		var ran, waited, n int
		_, _ = fmt.Sscan(text, &ran, &waited, &n)
		all[thread] = n
	})
	return all
}
