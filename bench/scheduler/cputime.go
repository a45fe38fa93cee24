package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc, 1/USER_HZ s, which is part of Linux's ABI.
const clockTick = 10 * time.Millisecond

// cpuTime returns how much CPU time a process has used, system and user.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the scheduler's CPU time: %w", err)
	}
	t, err := parseStat(string(text))
	if err != nil {
		return 0, fmt.Errorf("read the scheduler's CPU time: /proc/%d/stat: %w", pid, err)
	}
	return t, nil
}

// parseStat reads fields utime and stime, 14 and 15, of /proc/PID/stat; see proc(5). The
// second field, the command in parentheses, may contain anything.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q has too few fields", text)
	}
	var ticks int64
	for _, field := range fields[11:13] { // the first of them is field 3
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", text, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
