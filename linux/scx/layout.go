package scx

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// The sizes of the program's tables.
const (
	maxCPUs     = 1024
	maxSiblings = 7
	maxPods     = 256 // including number 0, which all other control groups share
)

// The types of the same names in bpf/state.h and bpf/timer.h.
type (
	pod struct {
		Used, VTime, Front, Waited, Longest, Waiting, Found, Overdue uint64
		Running                                                      uint32
		Unused                                                       [60]byte // to the end of the cache line
	}
	counters struct {
		Expelled, Overdrawn, Yielded uint64
		Unused                       [40]byte
	}
	worst struct {
		NS               uint64
		Searched, Passed uint32
		Unused           [48]byte
	}
	ended struct {
		Kind    int32
		Reason  [64]byte
		Message [256]byte
	}
)

// member returns the bytes of a member of the struct that describes the scheduler to the kernel.
func member(ops *ebpf.MapSpec, name string) ([]byte, error) {
	layout, ok := btf.As[*btf.Struct](ops.Value)
	if !ok {
		return nil, errors.New("the description of the scheduler is not a struct")
	}
	for _, m := range layout.Members {
		size, err := btf.Sizeof(m.Type)
		if err != nil {
			return nil, err
		}
		if m.Name == name {
			return ops.Contents[0].Value.([]byte)[m.Offset.Bytes():][:size], nil
		}
	}
	return nil, fmt.Errorf("the description of the scheduler has no member %s", name)
}

// Stat is what a pod's threads have done since the scheduler was loaded.
type Stat struct {
	Used   time.Duration // CPU time
	Waited time.Duration // sum of the times that threads waited before they ran
	// Longest is the longest time that a thread waited before it ran. Waiting is the longest time that
	// a thread has been waiting now, measured every 50 ms, or less often with more than 256 waiting
	// threads.
	Longest, Waiting time.Duration
	// Overdue is the number of runs of threads that had waited for MaxWait.
	Overdue uint64
}

// since returns what has been counted since an earlier time.
func (p pod) since(o pod) Stat {
	return Stat{Used: time.Duration(p.Used - o.Used), Waited: time.Duration(p.Waited - o.Waited),
		Longest: time.Duration(p.Longest), Waiting: time.Duration(p.Waiting), Overdue: p.Overdue - o.Overdue}
}
