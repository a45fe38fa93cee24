package agent

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// cpuTimes are a CPU's busy and total time since boot, in the ticks of /proc/stat.
type cpuTimes struct{ busy, total uint64 }

// readStat reads the lines cpuN of /proc/stat (fs/proc/stat.c): user, nice, system,
// idle, iowait, irq, softirq, steal, and two that are parts of the first two.
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

// since returns what passed since earlier readings; false when they do not have the CPU, or
// time ran backwards. That of waiting for input and output may: then there is more busy time
// than time, and all of it was busy.
func (t cpuTimes) since(before map[cpuset.CPU]cpuTimes, cpu cpuset.CPU) (cpuTimes, bool) {
	was, ok := before[cpu]
	passed := cpuTimes{total: t.total - was.total, busy: t.busy - was.busy}
	passed.busy = min(passed.busy, passed.total)
	return passed, ok && t.total >= was.total && t.busy >= was.busy
}

// busyBetween is the share of time in which each CPU was busy, in thousandths.
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

// cpuTime is what a container has used since it was made, at some time.
type cpuTime struct {
	used time.Duration
	at   time.Time
}

// between is the CPU time per time, in thousandths of a CPU.
func (t cpuTime) between(later cpuTime) ledger.MilliCPU {
	elapsed := later.at.Sub(t.at)
	if elapsed <= 0 || later.used < t.used {
		return 0
	}
	return ledger.MilliCPU(int64(later.used-t.used) * 1000 / int64(elapsed))
}
