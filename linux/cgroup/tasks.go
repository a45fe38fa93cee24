package cgroup

import (
	"fmt"
	"strconv"
	"strings"
)

// Threads lists the threads of a group, without those of groups below it: tasks
// on version 1, cgroup.threads on version 2. A thread outside of this process's
// PID namespace is listed as 0.
func (fs *FS) Threads(group string) ([]int, error) {
	if fs.layout.CPUSet == V2 {
		return readAs(fs, group, Threads, parseIDs)
	}
	return readAs(fs, group, Tasks, parseIDs)
}

// Processes lists the processes of a group (cgroup.procs), in the way of Threads.
func (fs *FS) Processes(group string) ([]int, error) {
	return readAs(fs, group, Procs, parseIDs)
}

func parseIDs(text string) ([]int, error) {
	var ids []int
	for line := range strings.FieldsSeq(text) {
		id, err := strconv.ParseUint(line, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is not the number of a thread or process", line)
		}
		ids = append(ids, int(id))
	}
	return ids, nil
}
