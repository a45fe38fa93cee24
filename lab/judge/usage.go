package judge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/local/load"
)

// Limits of conditions, as shares of all CPUs if nothing else is said.
const (
	idleBelow = .05                   // an idle machine uses less
	mostOther = .05                   // others, or the host, during a trial
	leastOne  = .5                    // CPUs that one neighbour gets
	fullFrom  = .9                    // a machine with a crowd uses more
	mostLate  = 50 * time.Millisecond // the client
)

// usage is CPU time since the beginning.
type usage struct {
	at                             time.Time
	all, own, neighbours, measurer time.Duration
	stolen                         time.Duration
	throttled, timer               uint64
}

// usage reads the CPU time of the machine, of a program and of its neighbours, if there are any.
func (j *judge) usage(group, neighbours string) (u usage, err error) {
	read := func(to *time.Duration, groups ...string) cgroupstat.Stat {
		if err != nil {
			return cgroupstat.Stat{}
		}
		var stat cgroupstat.Stat
		stat, err = j.machine.Sum(groups)
		*to = stat.Usage
		return stat
	}
	everything, err := cgroupstat.Everything(j.machine.Groups)
	u.at = time.Now()
	read(&u.all, everything...)
	if group != "" {
		stat := read(&u.own, group)
		u.throttled, u.timer = stat.Throttled, stat.Periods
	}
	if neighbours != "" {
		read(&u.neighbours, neighbours)
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var used unix.Rusage
		if err == nil {
			err = unix.Getrusage(who, &used)
		}
		u.measurer += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	stat, errStat := j.machine.Proc.Stat()
	if err == nil {
		err = errStat
	}
	u.stolen = time.Duration(stat.CPUTotal.Steal * float64(time.Second))
	if err != nil {
		return u, fmt.Errorf("read the usage of the machine: %w", err)
	}
	return u, nil
}

// account sets what was measured, and whether it was disturbed.
func (t trial) account(m *Measured, from, to usage, result load.Result) {
	m.Time = to.at.Sub(from.at)
	cpus := func(d time.Duration) float64 { return float64(d) / float64(m.Time) }
	share := func(d time.Duration) float64 { return cpus(d) / float64(t.cpus) }
	all, own, neighbours := to.all-from.all, to.own-from.own, to.neighbours-from.neighbours
	m.Throttled, m.Timer = to.throttled-from.throttled, to.timer-from.timer
	m.Used, m.Neighbours = cpus(own), cpus(neighbours)
	m.Foreign = share(max(0, all-own-neighbours-(to.measurer-from.measurer)))
	m.Stolen = share(to.stolen - from.stolen)
	for _, l := range result.Latencies {
		m.Latencies = append(m.Latencies, float64(l.Round(10*time.Microsecond))/float64(time.Millisecond))
	}
	failures := slices.Sorted(maps.Keys(result.Failures))
	switch {
	case (m.Timer > 0) != (t.limits != nil):
		m.Disturbed = fmt.Sprintf("the kernel counted %d periods of a limit", m.Timer)
	case m.Foreign > mostOther:
		m.Disturbed = fmt.Sprintf("others used %.0f%% of the CPUs", 100*m.Foreign)
	case m.Stolen > mostOther:
		m.Disturbed = fmt.Sprintf("the host took %.0f%% of the CPUs", 100*m.Stolen)
	case t.beside == One && m.Neighbours < leastOne:
		m.Disturbed = fmt.Sprintf("the neighbour got %.2f CPUs only", m.Neighbours)
	case t.beside == Crowd && share(all) < fullFrom:
		m.Disturbed = fmt.Sprintf("the crowd left %.0f%% of the CPUs idle", 100*(1-share(all)))
	case t.beside == Idle && m.Before.Used > idleBelow:
		m.Disturbed = fmt.Sprintf("before, %.0f%% of the CPUs were used", 100*m.Before.Used)
	case len(failures) > 0:
		m.Disturbed = fmt.Sprintf("%d requests failed: %s", result.Failed(), failures[0])
	case result.Lateness > mostLate:
		m.Disturbed = fmt.Sprintf("the client was up to %v late", result.Lateness.Round(time.Millisecond))
	}
}

// look looks at what the machine does, and waits until it is idle or there is no patience left.
func (j *judge) look(ctx context.Context) (b Before, err error) {
	for {
		from, err := j.usage("", "")
		if err != nil {
			return b, err
		}
		begun := time.Now()
		if !sleep.For(ctx, lookFor) {
			return b, context.Cause(ctx)
		}
		to, err := j.usage("", "")
		if err != nil {
			return b, err
		}
		b.Used = float64(to.all-from.all) / float64(to.at.Sub(from.at)) / float64(j.cpus)
		if average, err := j.machine.Proc.LoadAvg(); err == nil {
			b.Load = average.Load1
		}
		if b.Used <= idleBelow || j.patience <= 0 {
			return b, nil
		}
		j.patience -= time.Since(begun)
	}
}
