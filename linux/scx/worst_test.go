package scx

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// TestBoundedTimer: a run of the timer searches at most its bound of threads, and the next run goes
// on. So all threads run, although the budget is 0 and there are as many pods as the scheduler has
// queues.
func TestBoundedTimer(t *testing.T) {
	b := newBench(t)
	const bound, threads = 4, 100
	s := b.loadWith(Options{}, map[string]uint32{"most_searched": bound})
	b.attach(s)
	group := b.group("batch")
	process := b.start(group, "busy", threads, b.machine.Online()).cmd.Process.Pid
	pods := []Pod{b.pod(group, 1)}
	for i := range uint64(maxPods - 2) {
		pods = append(pods, Pod{Group: 1<<40 + i, Weight: 1}) // these have no threads
	}
	b.setPods(s, pods...)
	wait.True(t, "all threads want to run", func() bool { return runnable(t, process) >= threads })
	must.Get(TurnOver(b.fs, []string{group}))(t)
	must.Do(t, s.SetBudget(0))
	before := timesRun(t, process)
	wait.Until(t, "all threads run", func() error {
		ran := 0
		for thread, n := range timesRun(t, process) {
			if n > before[thread] {
				ran++
			}
		}
		if ran < threads {
			return fmt.Errorf("%d threads ran, want all %d, each after about %v", ran, threads, DefaultMaxWait)
		}
		return nil
	})
	var w worst
	must.Do(t, s.kernel.Worst.Get(&w))
	t.Logf("a run of the timer took %v and searched %d threads after %d others, at most; %+v",
		time.Duration(w.NS), w.Searched, w.Passed, must.Get(s.Stats())(t).Pods[pods[0].Group])
	if w.Searched != bound || w.Passed == 0 {
		t.Errorf("a run searched %d threads after %d others, want %d after some", w.Searched, w.Passed, bound)
	}
}

// eachThread calls visit with a file of each thread of a process.
func eachThread(t *testing.T, process int, file string, visit func(thread, text string)) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/task/", process)
	for _, thread := range must.Get(os.ReadDir(dir))(t) {
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
