//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/confine"
)

// runStats are the figures of a run as JSON. Times are in seconds.
type runStats struct {
	ExitStatus  int         `json:"exitStatus"`
	Signal      string      `json:"signal,omitempty"` // that ended the command
	Wall        float64     `json:"wallSeconds"`
	CPU         float64     `json:"cpuSeconds"`
	User        float64     `json:"userSeconds"`
	System      float64     `json:"systemSeconds"`
	CPUs        *cpuset.Set `json:"cpus,omitempty"` // if they were chosen
	Idle        bool        `json:"idle,omitempty"`
	MaxRSSBytes int64       `json:"maxRSSBytes"`
	LeftBehind  int         `json:"leftBehind"`          // processes
	Uncounted   bool        `json:"uncounted,omitempty"` // the group could not be read: no CPU time, no limit
	Limit       *limitStats `json:"limit,omitempty"`
}

func newRunStats(r *confine.Result) runStats {
	s := runStats{
		ExitStatus: r.ExitStatus, Wall: r.Wall.Seconds(), CPU: r.Stat.Usage.Seconds(), User: r.User.Seconds(), System: r.System.Seconds(),
		Idle: r.Settings.Idle, MaxRSSBytes: r.MaxRSS, LeftBehind: r.LeftBehind, Uncounted: r.Uncounted,
	}
	if r.Signal != 0 {
		s.Signal = unix.SignalName(r.Signal)
	}
	if cpus := r.Settings.Effective; !cpus.IsEmpty() {
		s.CPUs = &cpus
	}
	if r.Uncounted || r.Settings.Quota == bandwidth.Unlimited {
		return s
	}
	s.Limit = &limitStats{
		Quota: r.Settings.Quota.Seconds(), Period: r.Settings.Period.Seconds(), Burst: r.Settings.Burst.Seconds(),
		TimerPeriods: r.Stat.Periods, WallPeriods: wallPeriods(r.Wall, r.Settings.Period, r.Stat.Periods),
		ThrottledPeriods: r.Stat.Throttled, ThrottledTime: r.Stat.ThrottledTime.Seconds(),
	}
	if !r.Stat.NoBursts {
		s.Limit.Bursts = &burstStats{r.Stat.Bursts, r.Stat.BurstTime.Seconds()}
	}
	return s
}

// report prints the figures.
func (q *confinement) report(w io.Writer, r *confine.Result) error {
	if q.output.value == outJSON {
		return printJSON(w, newRunStats(r))
	}
	b := bufio.NewWriter(w)
	if q.statsFile == "" {
		fmt.Fprintln(b) // apart from what the command has printed
	}
	printRun(b, r, q)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("print the figures: %w", err)
	}
	return nil
}

// printRun prints the figures for people.
func printRun(w io.Writer, r *confine.Result, q *confinement) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	if r.Signal != 0 {
		line("exit status", "%d: ended by %s", r.ExitStatus, unix.SignalName(r.Signal))
	} else {
		line("exit status", "%d", r.ExitStatus)
	}
	line("wall time", "%v", short(r.Wall))
	if r.Uncounted {
		line("CPU time", "not known: the control group could not be read")
	} else {
		printCounted(line, r, q.settings())
	}
	line("memory", "%.1f MiB in the largest process", float64(r.MaxRSS)/(1<<20))
	switch {
	case r.LeftBehind > 0 && q.wait:
		line("left behind", "%s, waited for", processes(r.LeftBehind))
	case r.LeftBehind > 0:
		line("left behind", "%s, killed (--wait waits)", processes(r.LeftBehind))
	}
}

// printCounted prints what the kernel counted in the group.
func printCounted(line func(name, format string, args ...any), r *confine.Result, asked cgroup.Wanted) {
	parts := ""
	if r.User+r.System > 0 {
		parts = fmt.Sprintf(": %v user, %v system", short(r.User), short(r.System))
	}
	line("CPU time", "%v, %.2f CPUs%s", short(r.Stat.Usage), share(r.Stat.Usage, r.Wall), parts)
	if cpus := r.Settings.Effective; !cpus.IsEmpty() {
		line("CPUs", "%s", cpus)
	}
	if r.Settings.Quota != bandwidth.Unlimited {
		printLimit(line, r)
	}
	if changed(asked, r.Settings) {
		line("note", "somebody else has changed the limit meanwhile: this is what it was at the end")
	}
}

// changed reports whether the limit is not the one that was asked for.
func changed(asked cgroup.Wanted, is cgroup.Settings) bool {
	if asked.Quota == nil {
		return is.Quota != bandwidth.Unlimited
	}
	return *asked.Quota != is.Quota || *asked.Period != is.Period
}

func printLimit(line func(name, format string, args ...any), r *confine.Result) {
	s, c := r.Settings, r.Stat
	line("limit", "%.4g CPUs: %v in each %v, burst %v", share(s.Quota, s.Period), s.Quota, s.Period, s.Burst)
	line("throttled", "%s", throttledText(c.Throttled, c.Periods, wallPeriods(r.Wall, s.Period, c.Periods), c.ThrottledTime))
	if c.NoBursts {
		line("bursts", "not counted by this kernel: Linux does since %s", cgroup.BurstStatisticsSince)
		return
	}
	line("bursts", "%d periods, %v beyond the quota", c.Bursts, short(c.BurstTime))
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
