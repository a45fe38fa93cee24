package command

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a process has used.
type Usage struct {
	CPU       time.Duration // system and user
	Now, Peak uint64        // resident memory and its maximum, in bytes
}

// UsageOf returns what a process has used.
func UsageOf(pid int) (u Usage, err error) {
	var stat procfs.ProcStat
	var status procfs.ProcStatus
	process, err := procfs.NewProc(pid)
	if err == nil {
		stat, err = process.Stat()
	}
	if err == nil {
		status, err = process.NewStatus()
	}
	if err != nil {
		return u, fmt.Errorf("read what process %d uses: %w", pid, err)
	}
	return Usage{time.Duration(stat.CPUTime() * float64(time.Second)), status.VmRSS, status.VmHWM}, nil
}
