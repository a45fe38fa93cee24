package schedtrace

import (
	"encoding/binary"
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/blame"
)

// Sizes of the BPF program's struct event and struct edge.
const (
	eventSize = 64
	edgeSize  = eventSize + 24
)

// wholeQueue is WHOLE_QUEUE of the BPF program.
const wholeQueue = 0x100

// decode decodes the first event of those that the BPF program has sent together, and returns its
// size.
func decode(b []byte) (e blame.Event, size int, err error) {
	if len(b) < eventSize {
		return e, 0, fmt.Errorf("an event of the kernel has %d bytes, want %d", len(b), eventSize)
	}
	n, size := binary.NativeEndian, eventSize
	e = blame.Event{
		Time: time.Duration(n.Uint64(b)), CPU: int(n.Uint32(b[8:])), Kind: blame.Kind(n.Uint16(b[12:])),
		State: blame.State(n.Uint16(b[14:]) &^ wholeQueue), WholeQueue: n.Uint16(b[14:])&wholeQueue != 0,
		Thread: blame.Thread{ID: int(n.Uint32(b[16:])), Process: int(n.Uint32(b[20:])), Group: blame.Group(n.Uint64(b[32:]))},
		Clock:  time.Duration(n.Uint64(b[56:])),
		Other:  blame.Thread{ID: int(n.Uint32(b[24:])), Process: int(n.Uint32(b[28:])), Group: blame.Group(n.Uint64(b[40:]))},
	}
	level := n.Uint64(b[48:])
	switch e.Kind {
	case blame.Edge:
		if len(b) < edgeSize {
			return e, 0, fmt.Errorf("an event of the kernel has %d bytes, want %d", len(b), edgeSize)
		}
		size = edgeSize
		e.Quota = &blame.Quota{Before: time.Duration(level), Left: time.Duration(n.Uint64(b[64:])),
			ThrottledTime: time.Duration(n.Uint64(b[72:])), Periods: n.Uint32(b[80:]), Throttled: n.Uint32(b[84:])}
	case blame.Attach:
		e.Whole = e.Other.ID != 0
	default:
		e.Throttler = blame.Group(level)
	}
	return e, size, nil
}
