// Package cputime reads for how long the CPUs of a machine were busy.
//
//	before, err := cputime.Read("/")
//	...
//	after, err := cputime.Read("/")
//	passed, ok := after[cpu].Since(before, cpu)
package cputime

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
)

// Times are the busy and total time of a CPU since boot, in units of [Tick].
type Times struct{ Busy, Total uint64 }

// Tick is the unit of /proc/stat: 1/USER_HZ, which is 10 ms on all architectures that Go supports.
const Tick = 10 * time.Millisecond

// Read reads the lines cpuN of /proc/stat (fs/proc/stat.c) of a machine whose root directory is
// root: user, nice, system, idle, iowait, irq, softirq, steal, and two that are contained in the
// first two.
func Read(root string) (map[cpuset.CPU]Times, error) {
	name := filepath.Join(root, "proc/stat")
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the load of the CPUs: %w", err)
	}
	defer file.Close()
	times, err := parse(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return times, nil
}

func parse(r io.Reader) (map[cpuset.CPU]Times, error) {
	const idle, iowait, counted = 3, 4, 8
	all := map[cpuset.CPU]Times{}
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
		var t Times
		for i, field := range fields[1:min(len(fields), 1+counted)] {
			ticks, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a number of ticks", fields[0], field)
			}
			t.Total += ticks
			if i != idle && i != iowait {
				t.Busy += ticks
			}
		}
		all[cpuset.CPU(id)] = t
	}
	return all, lines.Err()
}

// Since returns the time that has passed on a CPU since an earlier reading. It returns false if there is no
// earlier reading, or a counter went back. The kernel may correct iowait downwards, so that Busy grows
// by more than Total. Then all of the time counts as busy.
func (t Times) Since(before map[cpuset.CPU]Times, cpu cpuset.CPU) (Times, bool) {
	earlier, ok := before[cpu]
	passed := Times{Total: t.Total - earlier.Total, Busy: t.Busy - earlier.Busy}
	passed.Busy = min(passed.Busy, passed.Total)
	return passed, ok && t.Total >= earlier.Total && t.Busy >= earlier.Busy
}
