package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// coreSetLoad reads the load that core sets follow. Only its task uses its fields.
type coreSetLoad struct {
	engine *engine
	load   map[cpuset.CPU]cpuTimes // at the last sample
	used   map[string]groupTime    // at the last sample, by path
}

// run passes the load of the CPUs to the state machine, until the context ends.
func (l *coreSetLoad) run(ctx context.Context) {
	wait.NonSlidingUntilWithContext(ctx, func(context.Context) { l.sample() }, l.engine.SampleEvery)
}

// sample reads the load, without the engine's lock.
func (l *coreSetLoad) sample() {
	e := l.engine
	var groups map[nodeplan.Ref]string
	e.with(func(*control.Control) { groups = e.status.CoreSets })
	if len(groups) == 0 {
		l.load = nil
		return
	}
	load, err := readStat(e.kernel.root)
	e.reports.dedup.WarnOrClear("load", "core sets do not follow the load", err)
	if err != nil {
		return
	}
	before := l.load
	l.load = load
	if used := l.usedSince(groups); before != nil {
		e.step(control.Event{Busy: busyBetween(before, load), Used: used})
		e.requestRound()
	}
}

// usedSince returns what containers have used since the last sample.
func (l *coreSetLoad) usedSince(groups map[nodeplan.Ref]string) map[nodeplan.Ref]ledger.MilliCPU {
	used := map[nodeplan.Ref]ledger.MilliCPU{}
	times := map[string]groupTime{}
	for ref, path := range groups {
		stat, err := cgroupstat.Read(l.engine.kernel.groups, path)
		if err != nil {
			continue // it has ended, or the next round reports the error
		}
		now := groupTime{stat.Usage, l.engine.Now()}
		if before, ok := l.used[path]; ok {
			used[ref] = before.until(now)
		}
		times[path] = now
	}
	l.used = times
	return used
}

// groupTime is the CPU time that a cgroup has used since it was created, at some time.
type groupTime struct {
	used time.Duration
	at   time.Time
}

// until returns the mean usage between two readings. It is 0 if the cgroup was created again.
func (t groupTime) until(later groupTime) ledger.MilliCPU {
	elapsed := later.at.Sub(t.at)
	if elapsed <= 0 || later.used < t.used {
		return 0
	}
	return ledger.MilliCPU(int64(later.used-t.used) * 1000 / int64(elapsed))
}

// cpuTimes are the busy and total time of a CPU since boot, in units of userTick.
type cpuTimes struct{ busy, total uint64 }

// userTick is the unit of /proc/stat: 1/USER_HZ, which is 10 ms on all architectures that Go
// supports.
const userTick = 10 * time.Millisecond

// readStat reads the lines cpuN of /proc/stat (fs/proc/stat.c): user, nice, system, idle, iowait,
// irq, softirq, steal, and two that are contained in the first two.
func readStat(root string) (map[cpuset.CPU]cpuTimes, error) {
	name := filepath.Join(root, "proc/stat")
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the load of the CPUs: %w", err)
	}
	defer file.Close()
	times, err := parseStat(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return times, nil
}

func parseStat(r io.Reader) (map[cpuset.CPU]cpuTimes, error) {
	const idle, iowait, counted = 3, 4, 8
	all := map[cpuset.CPU]cpuTimes{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // the line of interrupts is long
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] == "cpu" || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		id, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil || !cpuset.CPU(id).Valid() || len(fields) < 1+iowait {
			return nil, fmt.Errorf("%q is not the line of a CPU", lines.Text())
		}
		var t cpuTimes
		for i, field := range fields[1:min(len(fields), 1+counted)] {
			ticks, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a number of ticks", fields[0], field)
			}
			t.total += ticks
			if i != idle && i != iowait {
				t.busy += ticks
			}
		}
		all[cpuset.CPU(id)] = t
	}
	return all, lines.Err()
}

// since returns the difference to an earlier reading, and false if there is none or time ran
// backwards. iowait may decrease; if the busy time then exceeds the total, all of the total counts
// as busy.
func (t cpuTimes) since(before map[cpuset.CPU]cpuTimes, cpu cpuset.CPU) (cpuTimes, bool) {
	earlier, ok := before[cpu]
	passed := cpuTimes{total: t.total - earlier.total, busy: t.busy - earlier.busy}
	passed.busy = min(passed.busy, passed.total)
	return passed, ok && t.total >= earlier.total && t.busy >= earlier.busy
}

// busyBetween returns the share of time in which each CPU was busy, in thousandths.
func busyBetween(before, after map[cpuset.CPU]cpuTimes) map[cpuset.CPU]ledger.MilliCPU {
	busy := map[cpuset.CPU]ledger.MilliCPU{}
	for cpu, now := range after {
		passed, ok := now.since(before, cpu)
		if !ok || passed.total == 0 {
			continue
		}
		if share := ledger.MilliCPU(passed.busy * 1000 / passed.total); share > 0 {
			busy[cpu] = share
		}
	}
	return busy
}

// idleBetween returns how long each CPU was idle in an interval, by CPU number.
func idleBetween(before, after map[cpuset.CPU]cpuTimes, interval time.Duration) []time.Duration {
	var idle []time.Duration
	for cpu, now := range after {
		for len(idle) <= int(cpu) {
			idle = append(idle, 0)
		}
		if passed, ok := now.since(before, cpu); ok {
			idle[cpu] = min(interval, time.Duration(passed.total-passed.busy)*userTick)
		}
	}
	return idle
}
