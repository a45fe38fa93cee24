//go:build linux

package run

import (
	"bufio"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/recording"
)

// stats are the figures of a run as JSON. Times are in seconds.
type stats struct {
	ExitStatus  int              `json:"exitStatus"`
	Signal      string           `json:"signal,omitempty"` // that ended the command
	Wall        float64          `json:"wallSeconds"`
	CPU         *float64         `json:"cpuSeconds,omitempty"`  // nil is unknown
	User        *float64         `json:"userSeconds,omitempty"` // nil with the system's, if the command was too short
	System      *float64         `json:"systemSeconds,omitempty"`
	CPUs        *cpuset.Set      `json:"cpus,omitempty"` // if they were chosen
	Idle        bool             `json:"idle,omitempty"`
	MaxRSSBytes int64            `json:"maxRSSBytes"`
	LeftBehind  int              `json:"leftBehind"`             // processes
	Uncounted   bool             `json:"uncounted,omitempty"`    // the group could not be read: CPU time and limit are unknown
	Changed     bool             `json:"limitChanged,omitempty"` // by another program: the limit is what it was at the end
	Limit       *recording.Limit `json:"limit,omitempty"`
}

func (o *options) stats(r *confine.Result) stats {
	s := stats{
		ExitStatus: r.ExitStatus, Wall: r.Wall.Seconds(), Idle: r.Settings.Idle, MaxRSSBytes: r.MaxRSS, LeftBehind: r.LeftBehind,
		Uncounted: r.Uncounted, Changed: !r.Uncounted && changed(o.settings(), r.Settings),
	}
	if cpu := r.Stat.Usage.Seconds(); !r.Uncounted {
		s.CPU = &cpu
	}
	if user, system := r.User.Seconds(), r.System.Seconds(); user+system > 0 {
		s.User, s.System = &user, &system
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
	s.Limit = recording.NewLimit(summary(r))
	return s
}

// summary returns what the kernel counted. Periods begin with the cgroup, so one more may end than
// fits into the time of the run.
func summary(r *confine.Result) *trace.Summary {
	c, unknown := r.Stat, trace.Figures(0)
	if c.NoBursts {
		unknown = trace.Bursts
	}
	return &trace.Summary{
		Unknown: unknown,
		Limits:  r.Settings.Limits, Periods: c.Periods, Throttled: c.Throttled, ThrottledTime: c.ThrottledTime,
		Bursts: c.Bursts, BurstTime: c.BurstTime, WallPeriods: max(float64(r.Wall)/float64(r.Settings.Period), float64(c.Periods)),
	}
}

// report prints the figures.
func (o *options) report(w io.Writer, r *confine.Result) error {
	if *o.output == frame.JSON {
		return frame.PrintJSON(w, o.stats(r))
	}
	b := bufio.NewWriter(w)
	if o.statsFile == "" {
		fmt.Fprintln(b) // separates the figures from the command's output
	}
	o.print(lines{b}, r)
	return report.Flush(b, "print the figures")
}

// lines prints lines with names.
type lines struct{ w io.Writer }

func (l lines) print(name, format string, args ...any) {
	fmt.Fprintf(l.w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
}

func (o *options) print(l lines, r *confine.Result) {
	if r.Signal != 0 {
		l.print("exit status", "%d: ended by %s", r.ExitStatus, unix.SignalName(r.Signal))
	} else {
		l.print("exit status", "%d", r.ExitStatus)
	}
	l.print("wall time", "%v", recording.Rounded(r.Wall))
	if r.Uncounted {
		l.print("CPU time", "not known: the control group could not be read")
	} else {
		o.printCounted(l, r)
	}
	l.print("memory", "%.1f MiB in the largest process", float64(r.MaxRSS)/(1<<20))
	processes := "1 process"
	if r.LeftBehind != 1 {
		processes = fmt.Sprintf("%d processes", r.LeftBehind)
	}
	switch {
	case r.LeftBehind > 0 && o.wait:
		l.print("left behind", "%s, waited for", processes)
	case r.LeftBehind > 0:
		l.print("left behind", "%s, killed (--wait waits)", processes)
	}
}

// printCounted prints what the kernel counted in the cgroup.
func (o *options) printCounted(l lines, r *confine.Result) {
	s, c := r.Settings, r.Stat
	parts := ""
	if r.User+r.System > 0 {
		parts = fmt.Sprintf(": %v user, %v system", recording.Rounded(r.User), recording.Rounded(r.System))
	}
	used := 0.0
	if r.Wall > 0 {
		used = float64(c.Usage) / float64(r.Wall)
	}
	l.print("CPU time", "%v, %.2f CPUs%s", recording.Rounded(c.Usage), used, parts)
	if !s.Effective.IsEmpty() {
		l.print("CPUs", "%s", s.Effective)
	}
	if s.Quota != bandwidth.Unlimited {
		l.print("limit", "%.4g CPUs: %v in each %v, burst %v", float64(s.Quota)/float64(s.Period), s.Quota, s.Period, s.Burst)
		sum := summary(r)
		l.print("throttled", "%s", recording.Throttled(sum))
		if c.NoBursts {
			l.print("bursts", "not counted by this kernel: Linux does since %s", feature.BurstStatistics.Since)
		} else {
			l.print("bursts", "%s", recording.BurstsOf(sum))
		}
	}
	if changed(o.settings(), s) {
		l.print("note", "another program changed the limit meanwhile: this is what it was at the end")
	}
}

// changed reports whether the limit differs from the requested one.
func changed(asked cgroup.Wanted, is cgroup.Settings) bool {
	if asked.Quota == nil {
		return is.Quota != bandwidth.Unlimited
	}
	return *asked.Quota != is.Quota || *asked.Period != is.Period
}
