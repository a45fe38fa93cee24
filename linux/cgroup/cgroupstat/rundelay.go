package cgroupstat

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
	"pinfold.dev/pinfold/linux/feature"
)

// RunDelays returns how long up to most threads of a group, and of the groups below it that can be
// read, have waited for CPUs since they were started, also while they were throttled
// (/proc/ID/schedstat, Documentation/scheduler/sched-stats.rst). The error is a
// [feature.UnsupportedError] if the kernel does not count that, and errHidden if no thread can be seen.
func RunDelays(fs *cgroup.FS, group string, most int) (map[int]time.Duration, error) {
	if err := feature.RunDelays.Test(); err != nil {
		return nil, err
	}
	dirs, unread := cgrouptree.DirsBelow(fs.Dir(cgroup.CPU, group))
	delays := map[int]time.Duration{}
	for _, dir := range dirs {
		ids, err := cgrouptree.ThreadsIn(fs, dir)
		unread = errors.Join(unread, err)
		for _, id := range ids[:min(len(ids), most-len(delays))] {
			delay, err := runDelay(filepath.Join(fs.Root(), "proc", strconv.Itoa(id), "schedstat"))
			switch {
			case cgroup.IsGone(err):
				if id == 0 || !errors.Is(unix.Kill(id, 0), unix.ESRCH) { // it has not ended
					unread = errHidden
				}
			case err != nil:
				return nil, err
			default:
				delays[id] = delay
			}
		}
	}
	if unread != nil && len(delays) == 0 {
		return nil, fmt.Errorf("list threads: %w", unread)
	}
	return delays, nil
}

var errHidden = errors.New("/proc does not show them: mount it without hidepid, for the PID namespace of the machine")

// LongestDelay returns for how long the thread waited that waited longest between two results of
// RunDelays, some time apart.
func LongestDelay(from, to map[int]time.Duration, apart time.Duration) (longest time.Duration) {
	for delay := range delaysBetween(from, to, apart) {
		longest = max(longest, delay)
	}
	return longest
}

// sumOfDelays returns for how long all threads waited, together.
func sumOfDelays(from, to map[int]time.Duration, apart time.Duration) (sum time.Duration) {
	for delay := range delaysBetween(from, to, apart) {
		sum += delay
	}
	return sum
}

// delaysBetween yields for how long each thread waited. Threads that are not in the first result
// have begun since, or were beyond what it has, and do not count then.
func delaysBetween(from, to map[int]time.Duration, apart time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for id, total := range to {
			if before, known := from[id]; (known || total <= apart) && !yield(min(total-before, apart)) {
				return
			}
		}
	}
}

// runDelay reads the second of the three numbers, in nanoseconds.
func runDelay(name string) (time.Duration, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("read how long a thread waited: %w", err)
	}
	fields := strings.Fields(string(text))
	if len(fields) != 3 {
		return 0, fmt.Errorf("read how long a thread waited: %s has %q, want three numbers", name, text)
	}
	delay, err := kernfile.Time(fields[1], time.Nanosecond)
	if err != nil {
		return 0, fmt.Errorf("read how long a thread waited: %s: %w", name, err)
	}
	return delay, nil
}
