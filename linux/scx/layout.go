package scx

import (
	"encoding/binary"
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
	maxPods     = 256 // with the number that strangers share
)

// The types of the program with the same names.
type (
	pod struct {
		Used, Waited, Longest, Waiting, Runs, Overdue, VTime, Front uint64
		Running, Unused                                             uint32
	}
	counters struct{ Expelled, Empty, Overdrawn, Yielded, Reenqueued uint64 }
	ended    struct {
		Code    int64
		Kind    int32
		Reason  [64]byte
		Message [256]byte
		Unused  [4]byte
	}
)

// setMember sets a member of the struct that describes the scheduler to the kernel.
func setMember(ops *ebpf.MapSpec, value []byte, name string, to []byte) error {
	layout, ok := btf.As[*btf.Struct](ops.Value)
	if !ok {
		return errors.New("the description of the scheduler is not a struct")
	}
	for _, m := range layout.Members {
		size, err := btf.Sizeof(m.Type)
		if err != nil {
			return err
		}
		if m.Name != name {
			continue
		}
		if len(to) > size {
			return fmt.Errorf("%s has %d bytes, at most %d fit", name, len(to), size)
		}
		field := value[m.Offset.Bytes():][:size]
		clear(field)
		copy(field, to)
		return nil
	}
	return fmt.Errorf("the description of the scheduler has no member %s", name)
}

func binaryUint32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// Stat is what a pod's threads have done since the scheduler was loaded.
type Stat struct {
	Used   time.Duration // CPU time
	Waited time.Duration // sum of the times that threads waited before they ran
	Runs   uint64
	// Longest is the longest time that a thread waited before it ran, and Waiting the longest of those
	// that wait now, measured every 50 ms.
	Longest, Waiting time.Duration
	// Overdue is the number of runs in spite of the budget or of other work on the core, because a
	// thread had waited for MaxWait.
	Overdue uint64
}

// since returns what has been counted since an earlier time.
func (p pod) since(o pod) Stat {
	return Stat{Used: time.Duration(p.Used - o.Used), Waited: time.Duration(p.Waited - o.Waited), Runs: p.Runs - o.Runs,
		Longest: time.Duration(p.Longest), Waiting: time.Duration(p.Waiting), Overdue: p.Overdue - o.Overdue}
}
